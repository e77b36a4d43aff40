"""Many kernels for CPUs in one text, since compilers take longer for the start of a text than for a kernel.

Each kernel's text stands in a namespace of its own; includes come first. Kernels run in a process of their own, so that
one that faults is known by its seed. What lies around inputs may not be read, nor may inputs be written.
"""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import re
import subprocess
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from andiron.codegen.abi import FLAGS, symbol
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.program import Program

from ..support.cpp.build import MACHINES, call, folder, machine_has
from ..support.guarded_arrays import before_guard_page
from .case import Case, inputs
from .execute import LONG, Outcome, Refused, compared, compiled, failure

MACHINE_OF = {"cpu:generic": "baseline", "cpu:avx2": "avx2", "cpu:avx512": "avx512"}
QUICK = ("-O1", *(f for f in FLAGS if f != "-O3"))
_EXTENDS = re.compile(r"^device \w+ extends (cpu:\w+)", re.MULTILINE)
_INCLUDE = re.compile(r"^\s*#include\b.*\n", re.MULTILINE)


def unit(texts: Sequence[str]) -> str:
    """One text of several."""
    includes = dict.fromkeys(x.strip() for t in texts for x in _INCLUDE.findall(t))
    bodies = (f"namespace k{n} {{\n{_INCLUDE.sub('', t)}\n}}\n" for n, t in enumerate(texts))
    return "\n".join([*includes, *bodies])


def built(text: str, machine: str, flags: Sequence[str] = QUICK) -> ctypes.CDLL | str:
    """The loaded library, or what the compiler says against the text."""
    stem = folder() / hashlib.sha256(f"{machine} {flags}\n{text}".encode()).hexdigest()[:16]
    source, library = Path(f"{stem}.cpp"), Path(f"{stem}.so")
    source.write_text(text, encoding="utf-8")
    march = MACHINES[machine][0]
    command = [
        "g++",
        *flags,
        "-Wall",
        "-Werror",
        "-Wno-tautological-compare",
        f"-march={march}",
        "-shared",
        "-fPIC",
        str(source),
        "-o",
        str(library),
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    source.unlink()
    if done.returncode:
        return done.stderr[:3000]
    loaded = ctypes.CDLL(str(library))
    library.unlink()
    return loaded


def machine_of(case: Case) -> str | None:
    """The machine that runs a case: a device of its own is one of the library's if it extends that."""
    if not case.device_text:
        return MACHINE_OF.get(case.device)
    parent = _EXTENDS.search(case.device_text)
    return MACHINE_OF.get(parent[1]) if parent else None


def outcomes(cases: Sequence[Case], flags: Sequence[str] = QUICK) -> dict[int, Outcome]:
    """What comes of each case, by its seed; of those for machines that this one is not, nothing."""
    out: dict[int, Outcome] = {}
    ready: dict[str, list[tuple[Case, Program, str]]] = {}
    for case in cases:
        machine = machine_of(case)
        if machine is None or not machine_has(machine):
            continue
        try:
            program = compiled(case).program
            text = emit(program)
        except Refused as refused:
            out[case.seed] = refused.outcome
        except Exception as error:
            out[case.seed] = failure(error)
        else:
            if len(text) > LONG:
                out[case.seed] = Outcome("long")
            else:
                ready.setdefault(machine, []).append((case, program, text))
    for machine, some in ready.items():
        out |= _ran(some, machine, flags)
    return out


def _ran(some: list[tuple[Case, Program, str]], machine: str, flags: Sequence[str]) -> dict[int, Outcome]:
    library = built(unit([t for _, _, t in some]), machine, flags)
    if isinstance(library, str):
        if len(some) == 1:
            return {some[0][0].seed: Outcome("compiler", "", library)}
        half = len(some) // 2
        return _ran(some[:half], machine, flags) | _ran(some[half:], machine, flags)
    functions = {}
    for case, program, _ in some:
        functions[case.seed] = getattr(library, symbol(program))
        functions[case.seed].restype = ctypes.c_int
    return _apart([(c, p) for c, p, _ in some], functions)


def _apart(some: list[tuple[Case, Program]], functions: Mapping[int, object]) -> dict[int, Outcome]:
    """Calls them in a child, and in another one those after a call that ended it."""
    out: dict[int, Outcome] = {}
    context = multiprocessing.get_context("fork")
    while some:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_call_all, args=(some, functions, theirs), daemon=True)
        child.start()
        theirs.close()
        try:
            for case, _ in some:
                if not ours.poll(120):
                    out[case.seed] = Outcome("hang")
                    break
                out[case.seed] = ours.recv()
        except EOFError:
            lost = some[sum(c.seed in out for c, _ in some)][0]
            child.join()
            out[lost.seed] = Outcome("crash", str(child.exitcode))
        child.kill()
        child.join()
        some = [(c, p) for c, p in some if c.seed not in out]
    return out


def _call_all(some: list[tuple[Case, Program]], functions: Mapping[int, object], pipe: Connection) -> None:
    for case, program in some:
        sizes = {v.name: dict(case.sizes)[v.name] for v in program.dims}
        try:
            given = {name: before_guard_page(a, case.seed % 4 != 0) for name, a in inputs(case).items()}
            found = compared(case, call(functions[case.seed], program, given, sizes, case.cores))
        except BaseException as error:
            found = failure(error)
        pipe.send(found)


def one(case: Case) -> Outcome:
    """What comes of one case."""
    return outcomes([case]).get(case.seed, Outcome("long", "another machine"))
