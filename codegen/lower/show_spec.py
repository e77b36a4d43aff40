"""The spec in focus, on one line: its ranges, its level, and the memory of each tensor.

    C[128, 128] += A[128, 32] * B[32, 128]  @block  A: shared  B: shared  C: register

An extent is the focus's, or the last tile's size if that is a number. For a subscript other than a plain index it is the extent
of the box hull. An operand that is read through a fused index is shown over the indices of the focus.
`| * c`: the partial result so far is multiplied by c first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...dsl.device import Device
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.support.fast_replace import replace
from ...dsl.values import Load, Masked, Value, loads, transform
from ..ir.printer import show_value
from ..ir.tile_ir import Buffer
from ..plan.computations import Computation
from ..plan.derived_names import shown_name
from .reductions.accumulator_computations import RunningUpdate, TotalOfTile
from .spec import ONE, Focus

_SIGN = {"sum": "+=", "prod": "*=", None: "="}


class SpecContext(Protocol):
    """What there is when a spec is shown: a lowering's context, or what was kept of it."""

    @property
    def device(self) -> Device: ...

    @property
    def buffers(self) -> Sequence[Buffer]: ...


def show_spec(ctx: SpecContext, focus: Focus) -> str:
    """All computations of the focus, separated by `;`, the level, and the memory of each tensor. One line of text."""
    if not focus.computations:
        return "nothing left"
    corrections = {w.corrects: w.shown for w in focus.computations if isinstance(w, RunningUpdate)}
    computations = "; ".join(_show_computation(focus, w, corrections.get(w.name, "")) for w in _own(focus))
    places = "  ".join(f"{shown_name(t)}: {memory}" for t, memory in places_of(ctx, focus).items())
    return f"{computations}  @{focus.level}  {places}".rstrip()


def _own(focus: Focus) -> list[Computation]:
    """The computations without those that the compiler adds for running values and totals: a correction stands beside what it
    corrects, and a total beside what goes on from it."""
    return [w for w in focus.computations if not isinstance(w, RunningUpdate | TotalOfTile)]


def places_of(ctx: SpecContext, focus: Focus) -> dict[str, str]:
    """The memory in which the newest copy of each tensor of the focus is: what is read first, then what is computed."""
    names: dict[str, None] = {}
    for w in _own(focus):
        values = [w.value, *(o.value for o in w.outputs)]
        names |= dict.fromkeys(ld.tensor for v in values for ld in loads(v) if ld.tensor != w.name)
    out: dict[str, str] = {}
    for t in names:
        out[t] = memory_of(ctx, focus, t)
    for w in _own(focus):
        mine = [w.name] if w.name in focus.views or not w.outputs else list(w.targets)
        for t in mine:
            out.setdefault(t, memory_of(ctx, focus, t))
    return out


def memory_of(ctx: SpecContext, focus: Focus, tensor: str) -> str:
    """The memory where the focus finds the tensor."""
    view = focus.views.get(tensor)
    if view is None or view.form == "global":
        return ctx.device.memories[0].name
    found = next((b for b in ctx.buffers if b.name == view.buffer), None)
    return found.memory if found is not None else ctx.device.memories[-1].name


def shown_extent(focus: Focus, index: str) -> Expr:
    """What the focus covers of an index, partial tiles aside: the last tile's size, strided runs counted."""
    r = focus.ranges[index]
    whole = r.whole_capacity
    return as_expr(whole) if whole is not None and r.size.constant is not None else r.size


def _show_computation(focus: Focus, w: Computation, correction: str) -> str:
    kind = w.reduction.kind if w.reduction else None
    sign = _SIGN.get(kind, f"{kind}=")
    plain = len(w.outputs) == 1 and isinstance(w.outputs[0].value, Load) and w.outputs[0].value.tensor == w.name
    target = w.targets[0] if plain else w.name
    text = f"{shown_name(target)}{_extents(focus, w.indices)} {sign} {_value(focus, w, w.value)}"
    if not plain:
        for o in w.outputs:
            text += f", {shown_name(o.tensor)}{_extents(focus, o.indices)} = {_value(focus, w, o.value)}"
    return f"{text} | * {correction}" if correction else text


def _extents(focus: Focus, indices: tuple[str, ...]) -> str:
    return f"[{', '.join(str(shown_extent(focus, i)) if i in focus.ranges else i for i in indices)}]"


def _value(focus: Focus, w: Computation, value: Value) -> str:
    """The value with extents in place of subscripts; masks of partial tiles are left out."""

    def step(v: Value) -> Value | None:
        if isinstance(v, Masked):
            return _value_of(v.value)
        if not isinstance(v, Load):
            return None
        return replace(v, tensor=shown_name(v.tensor), indices=tuple(_box(focus, w, v)), otherwise=None)

    def _value_of(v: Value) -> Value:
        return transform(v, step)

    return show_value(_value_of(value))


def _box(focus: Focus, w: Computation, load: Load) -> list[Expr]:
    alias = w.alias
    names = list(dict.fromkeys(v.name for e in load.indices for v in sorted(e.variables(), key=str)))
    if any(n in alias for n in names):
        return [shown_extent(focus, i) for i in dict.fromkeys(alias.get(n, n) for n in names) if i in focus.ranges]
    return [_hull(focus, e) for e in load.indices]


def _hull(focus: Focus, e: Expr) -> Expr:
    """The extent of the values of a subscript; of quotients and remainders, that of the whole expression's interval."""
    size: Expr = ONE
    for atom, c in e.terms:
        if not isinstance(atom, Var):
            lo, hi = e.interval
            return as_expr(hi - lo + 1) if lo is not None and hi is not None else e
        if atom.name in focus.ranges:
            size = size + (shown_extent(focus, atom.name) - 1) * abs(c)
    return size
