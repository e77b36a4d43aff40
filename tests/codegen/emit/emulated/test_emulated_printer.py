"""The emulated text: the kernel letter for letter that of the GPU's dialect, complete, and accepted without a warning."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from andiron.codegen.emit.emulated.emulated_printer import describe_text, emulated_dialect
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import load, loads
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.compile import compile
from andiron.runtime.native.cxx_compiler import find_compiler

from ....support.library.cases import library
from ....support.paths import DEVICES

KERNEL = re.compile(r"^// [^\n]*\n^constexpr int \w+__THREADS.*?^}\n", re.MULTILINE | re.DOTALL)
SKETCHES = DEVICES / "gpu_sketches.sched"
OPS = ("gemm", "softmax", "row_argmax", "conv2d", "transpose", "dot")


@lru_cache(maxsize=1)
def sketches():
    return load(SKETCHES)


@lru_cache(maxsize=64)
def program(op: str, device: str):
    return compile_program(library(), bind_params(library().ops[op]), None, library().device(device)).program


@pytest.mark.every_second
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("device", "dialect"), [("sm_80", "cuda"), ("gfx90a", "hip"), ("gfx1100", "hip")])
def test_the_kernel_is_unchanged(op: str, device: str, dialect: str) -> None:
    theirs, ours = (KERNEL.findall(emit(program(op, device), d)) for d in (dialect, "emulate"))
    assert theirs
    assert ours == theirs


@pytest.mark.parametrize("name", ["ampere", "mfma_half", "rdna3", "dp4a"])
def test_the_kernel_of_a_sketch_is_unchanged(name: str) -> None:
    module = sketches()
    schedule = module.schedules[name]
    device = module.device(schedule.device)
    p = compile_program(module, module.ops[schedule.op], schedule, device).program
    theirs, ours = (KERNEL.findall(emit(p, d)) for d in (emulated_dialect(device), "emulate"))
    assert theirs
    assert ours == theirs


def test_the_dialect_of_a_device() -> None:
    """That which its instructions have texts for; without any, one that can name its lanes."""
    assert [emulated_dialect(library().device(d)) for d in ("sm_75", "sm_120a", "gfx908", "gfx1201")] == [
        "cuda",
        "cuda",
        "hip",
        "hip",
    ]
    text = "device {}:\n    level grid: finite 1, siblings nothing\n    level block: open, siblings nothing\n"
    text += "    level thread: shaped, siblings lockstep, at most 64 units, width {}\n"
    text += "    memory global of grid: 1 GB/s\n    memory register of thread: 64 x 4 B\n"
    assert emulated_dialect(loads(text.format("narrow", 32)).device("narrow")) == "cuda"
    assert emulated_dialect(loads(text.format("wide", 64)).device("wide")) == "hip"


@pytest.mark.parametrize(("op", "device"), [("gemm", "sm_80"), ("gemm_f16_f32", "gfx90a"), ("softmax", "gfx1100")])
def test_compiles_by_itself_without_a_warning(op: str, device: str, tmp_path: Path) -> None:
    file = tmp_path / "kernel.cpp"
    file.write_text(emit(program(op, device), "emulate"), encoding="utf-8")
    flags = [
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unknown-pragmas",
        "-fno-strict-aliasing",
        "-c",
        "-o",
        str(tmp_path / "k.o"),
    ]
    done = subprocess.run([*find_compiler().command, *flags, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_source_is_the_emulated_text() -> None:
    kernel = compile(library(), op="gemm", target="emulate:sm_80")
    assert kernel.source == emit(kernel.program, "emulate")
    assert "__launch_bounds__" in kernel.source


def test_lines_know_their_part_of_the_schedule() -> None:
    module = sketches()
    p = compile_program(module, module.ops["hgemm"], module.schedules["vec"], module.device("sm_80")).program
    lines = emit(p, "emulate").splitlines()
    schedule = SKETCHES.read_text(encoding="utf-8").splitlines()
    said: dict[str, set[str]] = {"i__mma": set(), "i__load_global": set(), "i__store_shared": set(), "for (int64_t k1": set()}
    for n, span in describe_text(p).spans.items():
        for part in said:
            if part in lines[n - 1]:
                said[part].add(schedule[span.line - 1].strip())
    assert {part: sorted(texts) for part, texts in said.items()} == {
        "i__mma": ["compute with mma_m16n8k16_f16"],
        "i__load_global": ["move A -> register with load_global", "move B -> shared"],
        "i__store_shared": ["compute with store_shared", "move B -> shared"],
        "for (int64_t k1": ["tile k: 32"],
    }


def test_copies_of_a_pipeline_know_their_line() -> None:
    module = sketches()
    p = compile_program(module, module.ops["hgemm"], module.schedules["ampere"], module.device("sm_80")).program
    lines = emit(p, "emulate").splitlines()
    schedule = SKETCHES.read_text(encoding="utf-8").splitlines()
    said = {schedule[s.line - 1].strip() for n, s in describe_text(p).spans.items() if "i__cp_async" in lines[n - 1]}
    assert said == {"move A -> shared swizzle with cp_async", "move B -> shared swizzle with cp_async"}
