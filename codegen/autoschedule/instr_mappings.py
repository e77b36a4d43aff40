"""The mappings of an instruction's indices to a computation's: all of them, and a reason for each that is not legal.

An index of the instruction stands for an index of the computation that occurs in exactly the same operands (ISA Mapper,
Sotoudeh et al.; TensorIR, Feng et al., ASPLOS 2023), or for several of them fused. So a matrix product is found in a
convolution, in batched, transposed and grouped products. Indices without a counterpart are computed one at a time: free ones by
different units (`batch`), reduced ones in loops (`loops`). If extents do not divide, tiles are padded.

Without an instruction, lanes execute the scalar body in the same way: the indices that only some operands have are tiled, so
that each element that is read serves many (`scalar_mapping`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType

from ...dsl import syntax
from ...dsl.device import Device, Instr
from ...dsl.support.fast_replace import replace
from ...dsl.values import Cast, Load, Value, loads
from ..ir.free_names import underscored_name
from ..lower.leaves.match_instr import InstrMatch, best_match, bindings, compatible_indices, mismatch_reason
from ..lower.lowering_context import LoweringContext
from ..lower.tiling.fuse_indices import fused_computations
from ..plan.computations import Computation, computation_extents, fused_name, plain_index

MOST_FUSED = 4  # indices: that are fused into one of an instruction, at most [limit; test_first_candidates]
Fusing = tuple[Computation, tuple[syntax.Fuse, ...], list[str]]


@dataclass(frozen=True)
class InstrMapping:
    """`m`, `n`, `k`: the indices of `computation` that are tiled; of `n` neighbours are nearer in the result, where it has
    either.

    `leaf`: how much of m, n, k one execution covers. `computation` is what is left after `fuses`. `refused`: why it is not
    legal. `of`: what each index of the instruction stands for, outermost first.
    """

    instr: Instr | None
    computation: Computation
    fuses: tuple[syntax.Fuse, ...] = ()
    m: str = ""
    n: str = ""
    k: str = ""
    leaf: tuple[int, int, int] = (1, 1, 1)
    batch: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    match: InstrMatch | None = None
    of: tuple[tuple[str, tuple[str, ...]], ...] = ()
    refused: str = ""

    def __str__(self) -> str:
        said = [f"{x} = {'*'.join(theirs)}" for x, theirs in self.of]
        return f"{self.instr.name if self.instr else 'scalars'}({', '.join(said)})"


def mappings(ctx: LoweringContext, computation: Computation) -> Iterator[InstrMapping]:
    """All of the device's instructions that accumulate, then the scalar body."""
    fusings = FusedComputations(ctx, computation)
    for instr in candidate_instrs(ctx.device):
        yield from mappings_of_instr(fusings, instr, computation)
    yield from scalar_mapping(fusings, computation)


def candidate_instrs(device: Device) -> tuple[Instr, ...]:
    """Those that accumulate. One that is told which terms count is called in place of another."""
    return tuple(i for i in device.instrs if i.accumulate and i.condition is None)


# ---------------------------------------------------------------- instructions


def mappings_of_instr(fusings: FusedComputations, instr: Instr, computation: Computation) -> Iterator[InstrMapping]:
    """Every mapping of one instruction; a single refused one where its op is another, or a type is."""
    bare = InstrMapping(instr, computation)
    if why := mismatch_reason(instr, computation):
        yield replace(bare, refused=why)
        return
    found = list(bindings(instr, computation))
    if not found:
        kinds = ", ".join(dict.fromkeys(o.dtype.name for o in instr.operands if o.role == "input"))
        yield replace(bare, refused=f"its operands, of type {kinds}, do not match the factors")
        return
    tried: list[InstrMapping] = []
    for binding in found:
        choices = compatible_indices(instr, computation, binding)
        if lacking := [x for x, theirs in choices.items() if not theirs]:
            for x in lacking[:1]:
                inside = _operands_with(instr, x)
                tried.append(replace(bare, refused=f"no index occurs exactly in the operands of `{x}`, {inside}"))
            continue
        for pick in product(*(_groups(theirs) for theirs in choices.values())):
            tried.append(_mapped(fusings, bare, tuple(zip(choices, pick, strict=True))))
    # an operand swap may say the same twice, and a legal way speaks for the refused ones
    seen: dict[tuple, InstrMapping] = {}
    for t in tried:
        if t.of not in seen or seen[t.of].refused:
            seen[t.of] = t
    yield from seen.values()


def _operands_with(instr: Instr, x: str) -> str:
    s = instr.statement
    names = [s.target] if x in s.indices else []
    names += [ld.tensor for ld in loads(s.value) if any(v.name == x for e in ld.indices for v in e.variables())]
    return " and ".join(dict.fromkeys(names))


def _groups(theirs: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All of them as one, then each by itself."""
    whole = [theirs] if 1 < len(theirs) <= MOST_FUSED else []
    return whole + [(i,) for i in theirs]


def _mapped(fusings: FusedComputations, bare: InstrMapping, of: tuple[tuple[str, tuple[str, ...]], ...]) -> InstrMapping:
    """The mapping in which `of` stands for the instruction's indices; refused where the leaf would not take it so."""
    assert bare.instr is not None
    instr, s = bare.instr, bare.instr.statement
    computation, fuses, names = fusings.by(*(theirs for _, theirs in of))
    mapped = replace(bare, computation=computation, fuses=fuses, of=of)
    wanted = dict(zip((x for x, _ in of), names, strict=True))
    m = best_match(instr, computation)
    if m is None:
        return replace(mapped, refused="the fused indices do not occur in the same operands")
    if dict(m.index) != wanted:
        theirs = next(i for x, i in m.index if wanted[x] != i)
        return replace(mapped, refused=f"the leaf would choose `{theirs}`, whose elements are closer in memory")
    frees, reduced = [wanted[x] for x in s.indices], [wanted[x] for x in (s.reduction.indices if s.reduction else ())]
    computed = any(not is_loaded(v) for _, v in m.operands)
    if computed and (padded := _padded(computation, m, reduced)):
        return replace(mapped, refused=f"a factor is computed, so its padding along `{padded[0]}` is not zero")
    subscripts = [e for ld in loads(computation.value) for e in ld.indices]
    if mixed := [i for i in reduced if any(plain_index(e) != i and i in {v.name for v in e.variables()} for e in subscripts)]:
        return replace(mapped, refused=f"beyond the end of `{mixed[0]}` are other elements, not zeros")
    if len(reduced) > 1 or len(frees) > 2:
        return replace(mapped, refused=f"it has {len(frees)} free and {len(reduced)} reduced indices")
    if instr.level == fusings.ctx.innermost:
        groups = reused_indices(computation)
        if len(groups) < 2 or any(all(i not in g for g in groups) for i in frees):
            return replace(mapped, refused="no two groups of indices occur in different operands")
        mine = [next((g for g in groups if i in g), None) for i in frees]
        rest = [g for g in groups if g not in mine]
        frees = [*(g[-1] for g in rest[len(frees) - 2 :]), *frees]
    elif len(frees) < 2 or not reduced:
        return replace(mapped, refused="it does not have two free indices and a reduced one")
    extents, theirs = m.extents(), {i: x for x, i in m.index}
    k = reduced[0] if reduced else computation.reduced[-1]
    leaf = tuple(extents[theirs[i]] if i in theirs else 1 for i in (*frees, k))
    mapped = replace(mapped, m=frees[0], n=frees[1], k=k, leaf=(leaf[0], leaf[1], leaf[2]), match=m)
    return _others(mapped)


def is_loaded(v: Value) -> bool:
    """Is it an element of a tensor, or the conversion of one?"""
    return isinstance(v, Load) or (isinstance(v, Cast) and is_loaded(v.arg))


def _padded(computation: Computation, m: InstrMatch, reduced: list[str]) -> list[str]:
    """Reduced indices of which an execution of the instruction may go over the end: of none there is one where it is 0."""
    extents = computation_extents(computation)
    return [i for i in reduced if not (extents[i].constant != 0 and extents[i].is_multiple_of(m.extent(i)))]


def _others(mapping: InstrMapping) -> InstrMapping:
    mine = {mapping.m, mapping.n, mapping.k}
    w = mapping.computation
    return replace(
        mapping, batch=tuple(i for i in w.indices if i not in mine), loops=tuple(i for i in w.reduced if i not in mine)
    )


@dataclass(frozen=True)
class FusedComputations:
    """A computation with indices of it fused: by the same groups, the same for all instructions."""

    ctx: LoweringContext
    computation: Computation
    known: dict[tuple[tuple[str, ...], ...], Fusing] = field(default_factory=dict)

    def by(self, *groups: tuple[str, ...]) -> Fusing:
        if groups not in self.known:
            self.known[groups] = _fused(self.ctx, self.computation, groups)
        return self.known[groups]


def _fused(ctx: LoweringContext, computation: Computation, groups: tuple[tuple[str, ...], ...]) -> Fusing:
    """The work with each group of several indices as one, the lines that say so, and the name of each group."""
    names, fuses = [], []
    taken = set(ctx.names) | set(computation.all_indices)
    for g in groups:
        if len(g) == 1:
            names.append(g[0])
            continue
        name = underscored_name(fused_name(g), taken)
        taken.add(name)
        names.append(name)
        line = syntax.Fuse(g, name)
        fuses.append(line)
        (computation,) = fused_computations((computation,), line)
    return computation, tuple(fuses), names


# ---------------------------------------------------------------- the scalar body


def scalar_mapping(fusings: FusedComputations, computation: Computation) -> Iterator[InstrMapping]:
    """The scalar body: free indices by the reads that have them; two groups that are not in all of them are tiled."""
    bare = InstrMapping(None, computation)
    if computation.reduction is None:
        yield replace(bare, refused="it is not a reduction: no element is read twice")
        return
    if computation.reduction.kind in ("argmax", "argmin"):
        yield replace(bare, refused=f"{computation.reduction.kind} cannot be split into parts")
        return
    if not any(i in computation.reduced for read in _read_indices(computation) for i in read):
        yield replace(bare, refused="no operand has a reduced index: there is nothing to stage")
        return
    groups = reused_indices(computation)
    if len(groups) < 2:
        yield replace(bare, refused="no two groups of indices occur in different operands: no element is read twice")
        return
    subscripts = [e for ld in loads(computation.value) for e in ld.indices]
    mixed = {v.name for e in subscripts if plain_index(e) is None for v in e.variables()}
    single = tuple(i for i in computation.reduced if i not in mixed)
    whole = _groups(computation.reduced)[:1]
    for rows in _near(groups[-2]):
        for columns in _near(groups[-1]):
            for inner in [*whole, *((i,) for i in single if (i,) not in whole)]:
                yield _scalar(fusings, bare, rows, columns, inner)


def _near(theirs: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All of them as one, and the last, whose neighbours are nearest."""
    return list(dict.fromkeys([*_groups(theirs)[:1], theirs[-1:]]))


def reused_indices(computation: Computation) -> list[tuple[str, ...]]:
    """Free indices by the reads that have them, without those that are in all; the one with neighbours in the result last."""
    groups = indices_by_reads(computation.indices, _read_indices(computation))
    return sorted(groups, key=lambda g: (computation.indices[-1] in g, len(g)))


def indices_by_reads(indices: Iterable[str], reads: Sequence[set[str]]) -> list[tuple[str, ...]]:
    """Those that the same reads have together, but for those that all have. Of a contraction there are two groups."""
    groups: dict[frozenset[int], list[str]] = {}
    for i in indices:
        having = frozenset(n for n, names in enumerate(reads) if i in names)
        if len(having) < len(reads):
            groups.setdefault(having, []).append(i)
    return [tuple(g) for g in groups.values()]


def index_sets(value: Value, alias: Mapping[str, str] = MappingProxyType({})) -> list[set[str]]:
    """The indices of each read. `alias`: the fused one for those that an author fused."""
    return [{alias.get(v.name, v.name) for e in ld.indices for v in e.variables()} for ld in loads(value)]


def _read_indices(computation: Computation) -> list[set[str]]:
    return index_sets(computation.value, computation.alias)


def _scalar(
    fusings: FusedComputations, bare: InstrMapping, rows: tuple[str, ...], columns: tuple[str, ...], inner: tuple[str, ...]
) -> InstrMapping:
    computation, fuses, (m, n, k) = fusings.by(rows, columns, inner)
    of = (("m", rows), ("n", columns), ("k", inner))
    return _others(replace(bare, computation=computation, fuses=fuses, m=m, n=n, k=k, of=of))
