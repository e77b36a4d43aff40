"""Functions of several vectors at once, step by step.

    store(e, m_exp(x_0)); store(e + 8, m_exp(x_1));
    -->  f32x8 t[2]; t[0] = x_0; t[1] = x_1; m_exp_of_2(t); store(e, t[0]); store(e + 8, t[1]);

Each step of such a function waits for the one before. The next vector's steps are further on than processors look ahead, and
compilers leave them there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ....dsl.values import Apply, Masked, Value, walk
from ...ir.tile_ir import Store
from ..c.c_expr import CExpr
from ..c.c_tree import Assign, Declaration, ExprStatement
from ..emission_context import EmissionContext
from ..lane_analysis import value_varies

_FUNCTIONS = ("exp", "exp2")  # whose text is a line for each step
# vectors: at most, at once. Of 2 half is gained, 8 do not fit 16 registers [measured: vector-functions;
# test_functions_of_several_vectors]
MOST = 4


def store_by_steps(ctx: EmissionContext, value: Callable[[Value], CExpr], s: Store, store: Callable[[Store], None]) -> bool:
    """Prints a store of all vectors of lanes, if one such function is in it; says whether it did.

    value  prints a value in all lanes of one vector
    store  prints the store of one vector
    """
    call = _call(ctx, s)
    if call is None:
        return False
    count = min(MOST, ctx.sub_vectors)
    ctx.copies_only = False
    for first in range(0, ctx.sub_vectors, count):
        together = ctx.text.temp()
        for n in range(count):
            with ctx.in_sub_vector(first + n):
                if n == 0:
                    ctx.need(f"m_{call.fn}_of_{count}", call.dtype.name, True)
                    ctx.text.add(Declaration(ctx.ctype(call.dtype, True), together, sizes=(str(count),)))
                ctx.text.add(Assign(f"{together}[{n}]", value(call.args[0]).text))
        ctx.text.add(ExprStatement(f"m_{call.fn}_of_{count}({together})"))
        for n in range(count):
            with ctx.in_sub_vector(first + n):
                ctx.ready = {id(call): CExpr(f"{together}[{n}]", call.dtype, True)}
                store(s)
        ctx.ready = {}
    return True


def _call(ctx: EmissionContext, s: Store) -> Apply | None:
    """The only such function of a store, where all lanes of all vectors take part."""
    if ctx.sub_vectors == 1 or ctx.sub_vector is not None or ctx.in_lane or ctx.mask is not None:
        return None
    parts = list(walk(s.value))
    calls = [v for v in parts if isinstance(v, Apply) and v.fn in _FUNCTIONS and v.dtype.name == "f32"]
    if len(calls) != 1 or any(isinstance(v, Masked) for v in parts):
        return None
    differs = {name for name, r in ctx.lanes.registers.items() if not r.uniform}
    return calls[0] if value_varies(calls[0].args[0], ctx.lanes.varying, differs) else None


def step_by_step(text: str, count: int) -> str:
    """The text of a function of one vector, `x`, as that of `count`: each step in a loop over them, each name an array."""
    head, *lines, end = text.split("\n")
    inline, kind, name = re.findall(r"\w+", head)[:3]
    step = re.compile(rf"    (?:const )?({kind} )?(?:(\w+) = |return )(.*)")
    steps = [step.fullmatch(line) for line in lines]
    arrays = [m[2] for m in steps if m is not None and m[1]]
    names = re.compile(rf"\b({'|'.join(('x', *arrays))})\b(?!\()")
    out = [f"// of {count} vectors, a step of each before the next step"]
    out.append(f"{inline} void {name}_of_{count}({kind} (&x)[{count}]) {{")
    out.append(f"    {kind} {', '.join(f'{a}[{count}]' for a in arrays)};")
    for line, m in zip(lines, steps, strict=True):
        told = "" if m is None else names.sub(r"\1[v]", f"{m[2] or 'x'} = {m[3]}")
        out.append(f"    for (int v = 0; v < {count}; v++) {told}" if told else line)
    return "\n".join((*out, end))
