"""Mutations of the words of a line: its modifiers, its memory, its instruction. Which modifiers a line may have is what the
compiler's own table says (`line_modifiers`)."""

from __future__ import annotations

from random import Random

from ....codegen.schedule.line_modifiers import kinds_of
from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from .mutation_space import Change, Lines, MutationSpace, head_text, with_line

_COUNTS = {  # modifiers of one number, with values to try
    "unroll": (2, 4, 8, 16),
    "pipeline": (2, 3, 4),
    "raster": (2, 4, 8, 16),
    "pad": (1, 4, 8, 16),
}
_BARE = ("unroll", "swizzle", "peel", "online", "carry")  # modifiers that stand alone
_WORDS = {"by": ("shuffle", "workspace", "atomic"), "pipeline": ("through",)}


def change_modifier(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """`tile k: 1` --> `tile k: 1 unroll 4`: adds, changes or removes a modifier."""
    found = [n for n, x in enumerate(lines) if isinstance(x, (syntax.Tile, syntax.Move, syntax.Keep, syntax.Compute))]
    if not found:
        return None
    at = rng.choice(found)
    line = lines[at]
    assert isinstance(line, (syntax.Tile, syntax.Move, syntax.Keep, syntax.Compute))
    takes = sorted({name for kind in kinds_of(line, space.registers) for name in kind.takes})
    offered = {name: made for name in takes if (made := _modifiers(name, line, space))}
    present = [m.name for m in line.modifiers]
    if not (names := sorted({*offered, *present})):
        return None
    name = rng.choice(names)
    others = tuple(m for m in line.modifiers if m.name != name)
    choices: list[syntax.Modifier | None] = [m for m in offered.get(name, []) if m not in line.modifiers]
    if name in present:
        choices = [*choices, None]
    if not choices:
        return None
    new = rng.choice(choices)
    made = replace(line, modifiers=others if new is None else (*others, new), span=None)
    return with_line(lines, at, made), f"{head_text(made)} for {head_text(line)}"


def change_memory(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """`move B -> l2` --> `move B -> l3`"""
    found = [n for n, x in enumerate(lines) if isinstance(x, (syntax.Move, syntax.Keep))]
    if not found:
        return None
    at = rng.choice(found)
    line = lines[at]
    assert isinstance(line, (syntax.Move, syntax.Keep))
    others = [name for name in space.memories if name != line.memory]
    if not others:
        return None
    made = replace(line, memory=rng.choice(others), span=None)
    return with_line(lines, at, made), f"{head_text(made)} for {head_text(line)}"


def change_instr(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """`compute` --> `compute with INSTR`, or another one, or none."""
    if not lines or not isinstance(lines[-1], syntax.Compute):
        return None
    line = lines[-1]
    others = [name for name in (None, *space.leaves, *space.copies) if name != line.instr]
    if not others:
        return None
    made = replace(line, instr=rng.choice(others), span=None)
    return (*lines[:-1], made), f"{head_text(made)} for {head_text(line)}"


def _modifiers(name: str, line: syntax.Line, space: MutationSpace) -> list[syntax.Modifier]:
    """Values of a modifier for a line."""
    out = [syntax.Modifier(name)] if name in _BARE else []
    counts = (*_COUNTS.get(name, ()), *((space.width,) if name in ("pad", "vector") and space.width > 1 else ()))
    out += [syntax.Modifier(name, (syntax.Num(n),)) for n in dict.fromkeys(counts)]
    if name in _COUNTS:
        out += [syntax.Modifier(name, (syntax.Num(n),), (word,)) for n in counts for word in _WORDS.get(name, ())]
    elif name in _WORDS:
        out += [syntax.Modifier(name, words=(word,)) for word in _WORDS[name]]
    if name == "with" and not isinstance(line, syntax.Compute):
        out += [syntax.Modifier(name, words=(word,)) for word in space.copies]
    if name == "within":
        out += [syntax.Modifier(name, words=(word,)) for word in space.sliced]
    if name == "order" and isinstance(line, syntax.Tile) and len(line.axes) > 1:
        indices = [a.index for a in line.axes]
        out += [syntax.Modifier(name, words=(*indices[n:], *indices[:n])) for n in range(1, len(indices))]
    if name == "layout":
        for m in getattr(line, "modifiers", ()):
            if m.name == name and len(m.values) > 1:
                out += [syntax.Modifier(name, (*m.values[n:], *m.values[:n])) for n in range(1, len(m.values))]
    return out
