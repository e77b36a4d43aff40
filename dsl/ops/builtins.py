"""The scalar functions and the reductions of the language: the number and kinds of their arguments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Function:
    """`takes`: float (an integer size is converted, other integers need a cast), number (any but bool). `least`, `most`:
    how many arguments."""

    name: str
    least: int = 1
    most: int | None = 1
    takes: str = "float"


_FLOAT = (
    "exp exp2 log log2 log1p expm1 sqrt rsqrt sin cos tan tanh sinh cosh asin acos atan erf "
    "floor ceil round trunc sigmoid gelu silu"
)

FUNCTIONS: dict[str, Function] = {
    **{name: Function(name) for name in _FLOAT.split()},
    "abs": Function("abs", takes="number"),
    "relu": Function("relu", takes="number"),
    "min": Function("min", 2, None, "number"),
    "max": Function("max", 2, None, "number"),
    "pow": Function("pow", 2, 2),
    "atan2": Function("atan2", 2, 2),
    "fma": Function("fma", 3, 3),
    "where": Function("where", 3, 3, "any"),
}

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
