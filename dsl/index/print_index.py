"""Index expressions as text, as people write them: with the parentheses that are needed."""

from __future__ import annotations

from .expr import Expr, Fn, Var

_INFIX = {"div": "/", "mod": " % ", "mul": "*"}


def linear(e: Expr) -> str:
    """`2*i + j - 1`."""
    out = ""
    for atom, c in e.terms:
        text = str(atom) if isinstance(atom, Var) or abs(c) == 1 or atom.kind not in ("div", "mod") else f"({atom})"
        out += (" - " if c < 0 else " + ") + (f"{abs(c)}*" if abs(c) != 1 else "") + text
    if e.const or not out:
        out += (" - " if e.const < 0 else " + ") + str(abs(e.const))
    return out[3:] if out.startswith(" + ") else "-" + out[3:]


def function(f: Fn) -> str:
    """`i / 4`, `min(i, j)`."""
    if f.kind in _INFIX:
        left, right = f.args
        return f"{_factor(left, f.kind == 'mul')}{_INFIX[f.kind]}{_factor(right, False)}"
    return f"{f.kind}({', '.join(map(str, f.args))})"


def _factor(e: Expr, product: bool) -> str:
    """An operand of an infix operator, in parentheses unless it binds at least as tightly."""
    text = str(e)
    if not e.terms:
        return text if e.const >= 0 else f"({text})"
    atom, c = e.terms[0]
    simple = len(e.terms) == 1 and not e.const and c == 1
    bare = simple and (isinstance(atom, Var) or atom.kind not in _INFIX or (product and atom.kind == "mul"))
    return text if bare else f"({text})"
