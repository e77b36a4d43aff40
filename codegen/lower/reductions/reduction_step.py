"""One step of a reduction: the combination of the partial result with one more value."""

from __future__ import annotations

from ....dsl.types import TYPES, DType
from ....dsl.values import Apply, Value
from ...ir.tile_ir import Store


def combine_step(kind: str, now: Value, value: Value, dtype: DType) -> Value:
    """One step of a reduction; a product under a float sum is fused into a multiply-add (docs/numbers.md)."""
    fn = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}[kind]
    if fn == "add" and dtype.kind == "float" and isinstance(value, Apply) and value.fn == "mul":
        return Apply("fma", (*value.args, now), dtype)
    return Apply(fn, (now, value), dtype)


def argreduce_step(kind: str, held, place, value: Value, index: Value, grows: bool = False) -> list[Store]:
    """(value, index) replaces what is held if it is better, or as good with a smaller index; NaN is best, the first of them.

    `held` and `place` are (buffer, coords, load). Both stores compare with what was held before: the value is stored last, and
    the comparison comes out the same after the index was. `grows`: the index is larger than that of all that was held.
    """
    boolean = TYPES["bool"]
    register, coords, now = held
    where, here, best = place
    fn, beaten = ("gt", "le") if kind == "argmax" else ("lt", "ge")
    better: Value = Apply(fn, (value, now), boolean)
    floating = value.dtype.kind == "float"
    if grows and floating:
        sound, as_good = Apply("eq", (now, now), boolean), Apply(beaten, (value, now), boolean)
        better = Apply("and", (sound, Apply("not", (as_good,), boolean)), boolean)  # not as good: better, or NaN
    elif not grows:
        earlier = Apply("lt", (index, best), boolean)
        better = Apply("or", (better, Apply("and", (Apply("eq", (value, now), boolean), earlier), boolean)), boolean)
        if floating:
            nan, had = (Apply("ne", (v, v), boolean) for v in (value, now))
            first = Apply("or", (Apply("not", (had,), boolean), earlier), boolean)
            sound = Apply("and", (better, Apply("not", (had,), boolean)), boolean)
            better = Apply("or", (sound, Apply("and", (nan, first), boolean)), boolean)
    return [
        Store(where, here, Apply("where", (better, index, best), index.dtype)),
        Store(register, coords, Apply("where", (better, value, now), value.dtype)),
    ]
