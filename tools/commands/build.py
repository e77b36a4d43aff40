"""Build a kernel to files: device code for a GPU, or a library with a C header. No GPU is needed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...dsl.errors.target import WrongFormat
from ...dsl.index.condition_text import condition_text
from ...runtime.storage.files import write_bytes, write_text
from ..options import add_choice, add_file, add_json, kernel_of
from ..terminal import say_json

if TYPE_CHECKING:
    from ...codegen.ir.program import Program
    from ...runtime.kernel import Kernel

NAME = "build"
HELP = "build code, or a library with a C header"
EXAMPLES = ("andiron build examples/gemm.sched -o gemm.so",)

# The formats by the endings of files; the first of a format is what it gets by default.
_ENDINGS = {".cubin": "cubin", ".ptx": "ptx", ".hsaco": "hsaco", ".co": "hsaco", ".so": "lib", ".dylib": "lib", ".dll": "lib"}
_ENDINGS |= {".a": "archive"}
_FORMATS = tuple(dict.fromkeys(_ENDINGS.values()))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_choice(parser)
    parser.add_argument(
        "--format", choices=_FORMATS, help="the format; default: by the ending of OUT, otherwise the target's own"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="the file to write; default: named after the op")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    form = _format(kernel, args)
    out = Path(args.output or kernel.op.name + next(e for e, f in _ENDINGS.items() if f == form))
    if sys.stderr.isatty():
        print(f"building {kernel.op.name} for {kernel.target} ...", file=sys.stderr)
    answer = {"op": kernel.op.name, "target": kernel.target, "format": form}
    answer |= _library(kernel, form, out) if form in ("lib", "archive") else _code(kernel, form, out)
    if args.json:
        say_json(answer)
    else:
        _show(answer)
    return 0


def _format(kernel: Kernel, args: argparse.Namespace) -> str:
    from ...runtime.gpu.device_code import FORMATS

    own = FORMATS.get(kernel.variants[0].target.family.dialect, ())
    ending = Path(args.output).suffix if args.output else ""
    form = args.format or _ENDINGS.get(ending) or (own or ("lib",))[0]
    if form not in (*own, "lib", *(() if own else ("archive",))):
        known = ", ".join([*own, "lib", *([] if own else ["archive"])])
        raise WrongFormat(f"code for {kernel.target} cannot be `{form}`", help=f"it can be {known}")
    return form


def _library(kernel: Kernel, form: str, out: Path) -> dict[str, Any]:
    from ...codegen.abi import symbol
    from ...runtime.native.export import export_library

    made = export_library(kernel, form)
    write_bytes(out, made.data)
    write_text(out.with_suffix(".h"), made.header)
    files = [{"file": str(out), "bytes": len(made.data)}, {"file": str(out.with_suffix(".h")), "bytes": len(made.header)}]
    return {"compiler": made.compiler, "cached": made.cached, "symbol": symbol(kernel.program), "files": files}


def _code(kernel: Kernel, form: str, out: Path) -> dict[str, Any]:
    from ...codegen.abi import programs
    from ...codegen.emit.printers import launches
    from ...runtime.gpu.toolchains import build_code

    files, compiler, cached = [], "", True
    for i, v in enumerate(kernel.variants):
        code = build_code(v.source, v.target, form, v.program.name)
        path = out if i == 0 else out.with_suffix(f".{i}{out.suffix}")
        write_bytes(path, code.data)
        compiler, cached = code.compiler, cached and code.cached
        kernels = [
            {
                "name": k.name,
                "blocks": str(k.blocks),
                "threads": k.threads,
                "shared": k.shared,
                "parameters": [b.name for b in k.buffers] + [v.name for v in k.sizes],
                "needs": _needs(p),
            }
            for p in programs(v.program)
            for k in launches(p, v.target.family.dialect)
        ]
        files.append(
            {"file": str(path), "bytes": len(code.data), "needs": [t for _, t in v.program.conditions], "kernels": kernels}
        )
    return {"compiler": compiler, "cached": cached, "files": files}


def _needs(program: Program) -> list[str]:
    """What a program takes for granted of a call; without it, the kernels of the next program are for it."""
    needs = program.needs
    if needs is None:
        return []
    return [condition_text(e) for e in needs.conds] + [f"{name} at a multiple of {n} bytes" for name, n in needs.aligned]


def _show(answer: dict[str, Any]) -> None:
    print(f"{answer['op']} for {answer['target']}, {answer['format']}, by {answer['compiler']}")
    for file in answer["files"]:
        needs = f", for {' and '.join(file['needs'])}" if file.get("needs") else ""
        print(f"  {file['file']}: {file['bytes']:,} bytes{needs}")
        for k in file.get("kernels", ()):
            print(f"    {k['name']}({', '.join(k['parameters'])})")
            for need in k["needs"]:
                print(f"      where {need}")
            print(f"      {k['blocks']} blocks of {k['threads']} threads, {k['shared']:,} bytes of shared memory")
