"""C text around emitted text: a header for callers, and one function for several variants of an op."""

from __future__ import annotations

from collections.abc import Sequence

from ..abi import arguments, symbol
from ..ir.program import Program
from ..name_mangling import NameSupply, mangle
from .c.c_expr import pointer_type
from .c.templates import environment

_STREAMS = {"cuda": "cudaStream_t", "hip": "hipStream_t"}


def header(program: Program, dialect: str, target: str, version: str) -> str:
    """The declarations of `program`'s library, for C and C++. `target` and `version` are for people."""
    names = NameSupply()
    for own in ("workspace", "stream", "threads", "args", "dims"):
        names.fresh(own)
    tensors = arguments(program)
    spoken = [names.fresh(b.name) for b in tensors]
    sizes = [names.fresh(v.name) for v in program.dims]
    pointers = [f"{pointer_type(b)} {n}" for b, n in zip(tensors, spoken, strict=True)]
    shown = [f"{b.name}: {b.dtype}[{', '.join(map(str, b.shape))}]" for b in tensors]
    ins = [s for s, b in zip(shown, tensors, strict=True) if b.kind == "input"]
    outs = [s for s, b in zip(shown, tensors, strict=True) if b.kind != "input"]
    return (
        environment("c")
        .get_template("header.h.j2")
        .render(
            signature=f"{program.name}({', '.join(ins)}) -> ({', '.join(outs)})",
            target=target,
            version=version,
            gpu=dialect in _STREAMS,
            stream=_STREAMS.get(dialect),
            guard=f"ANDIRON_{mangle(program.name).upper()}_H",
            symbol=symbol(program),
            call=symbol(program).replace("andiron_", "andiron_call_", 1),
            names=", ".join(spoken),
            sizes=", ".join(sizes) or "none",
            parameters=", ".join([*pointers, *(f"int64_t {n}" for n in sizes)]),
            arguments=", ".join(f"(void*){n}" for n in spoken),
            values=", ".join(sizes) or "0",
            conditions=[" ".join(text.split()).replace("*/", "* /") for _, text in program.conditions],
        )
    )


def dispatch_function(name: str, forms: Sequence[str], dialect: str) -> str:
    """C++ text of a function `name` that calls the first of the functions `forms` whose conditions hold."""
    gpu = dialect in _STREAMS
    last = "void* stream" if gpu else "int threads"
    return environment("c").get_template("several.cpp.j2").render(symbol=name, forms=forms, gpu=gpu, last=last)
