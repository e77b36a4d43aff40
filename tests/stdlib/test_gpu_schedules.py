"""The library's schedules for GPUs: right under the emulator with no report, compiled without a word or a spill, and what each
is praised for in its comments is counted."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import Module
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile
from andiron.runtime.emulator.report import EmulationReport

from ..support.gpu.compilers import accepted, toolchain
from ..support.library.ops import values
from ..support.library.schedules import SCHEDULES
from ..support.paths import STDLIB

ROOT = STDLIB / "schedules"
GEMM = ["M=137,N=131,K=69", "M=1,N=3,K=1", "M=5,N=2,K=0", "M=130,N=136,K=72"]
CONV = ["N=2,C=7,H=7,W=9,O=5,R=3,S=2", "N=3,C=40,H=9,W=8,O=136,R=3,S=3", "N=1,C=1,H=1,W=1,O=1,R=1,S=1"]
ROWS = ["M=3,N=1000", "M=2,N=5003", "M=1,N=1", "M=2,N=16384"]
TURN = ["M=97,N=33", "M=1,N=70", "M=64,N=128"]
# schedule -> devices, ops, sizes
CASES = {
    "sgemm_maxwell": (["sm_75"], ["gemm", "linear_gelu"], GEMM),
    "hgemm_ampere": (["sm_80"], ["gemm_f16", "gemm_f16_nt", "linear_gelu_f16"], GEMM),
    "hgemm_ampere_f32": (["sm_86"], ["gemm_f16_f32"], GEMM),
    "hgemm_w4_ampere": (["sm_80"], ["gemm_f16_i4"], [f"{x},G=3" for x in GEMM]),
    "tf32gemm_ampere": (["sm_86"], ["gemm_tf32"], GEMM),
    "sgemm_mfma": (["gfx90a"], ["gemm"], GEMM),
    "hgemm_mfma": (["gfx942"], ["gemm_f16_nt"], GEMM),
    "hgemm_wmma": (["gfx1100"], ["gemm_f16_nt", "linear_f16"], GEMM),
    "conv_igemm_ampere": (["sm_80"], ["conv2d_nhwc_f16"], CONV),
    "softmax_nvidia": (["sm_80"], ["softmax"], ROWS),
    "softmax_amd": (["gfx942", "gfx1100"], ["softmax"], ROWS),
    "layernorm_nvidia": (["sm_80"], ["layernorm"], ROWS),
    "layernorm_amd": (["gfx90a"], ["layernorm"], ROWS),
    "transpose_nvidia": (["sm_80"], ["transpose"], TURN),
    "transpose_cdna": (["gfx90a"], ["transpose"], TURN),
    "transpose_rdna": (["gfx1100"], ["transpose"], TURN),
}
ALL = [(name, op, device) for name, (devices, ops, _) in CASES.items() for device in devices for op in ops]


@lru_cache(maxsize=20)
def library(schedule: str) -> Module:
    return next(m for m in SCHEDULES.values() if schedule in m.schedules)


def sized(text: str) -> dict[str, int]:
    return {name: int(n) for name, n in (x.split("=") for x in text.split(","))}


def arguments(op, sizes: dict[str, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [values(rng, t.dtype, tuple(e.evaluate(sizes) for e in t.shape), t.name == "eps") for t in op.inputs]


def test_every_schedule_is_tested() -> None:
    written = {n for f in ROOT.glob("*_*.sched") for n in re.findall(r"^schedule (\w+)", f.read_text(), flags=re.MULTILINE)}
    assert written == set(CASES)


@pytest.mark.parametrize(("name", "op_name", "device"), ALL)
def test_right(name: str, op_name: str, device: str) -> None:
    mod = library(name)
    kernel = compile(mod, op=op_name, schedule=name, target=f"emulate:{device}")
    again = compile(mod, op=op_name, schedule=kernel.schedule, target=f"emulate:{device}")
    assert again.schedule == kernel.schedule  # what it prints means the same
    op = bind_params(mod.ops[op_name])
    for text in CASES[name][2]:
        arrays = arguments(op, sized(text))
        out = kernel(*arrays, threads=2)
        verdict = check(op, arrays, [out])
        assert verdict.ok, (text, verdict)


@pytest.mark.parametrize(("name", "op_name", "device"), ALL)
def test_accepted_without_spills(name: str, op_name: str, device: str, tmp_path: Path) -> None:
    dialect = "cuda" if device.startswith("sm") else "hip"
    found = toolchain(dialect, device)
    if isinstance(found, str):
        pytest.skip(found)
    mod = library(name)
    program = compile_program(mod, bind_params(mod.ops[op_name]), mod.schedules[name], mod.device(device)).program
    text = emit(program, dialect)
    if found.version.startswith("nvcc") or dialect == "cuda":
        made = found.make(text, device, "cubin", tmp_path)
        assert not made.words, made.words
    else:
        made = accepted(dialect, text, tmp_path, device)
    assert made.usage
    for usage in made.usage:
        assert (usage.spills, usage.stack) == (0, 0), usage


# ---------------------------------------------------------------- what is counted


@lru_cache(maxsize=20)
def counted(name: str, op_name: str, device: str, sizes: str) -> EmulationReport:
    mod = library(name)
    kernel = compile(mod, op=op_name, schedule=name, target=f"emulate:{device}")
    kernel.counting = True
    kernel(*arguments(bind_params(mod.ops[op_name]), sized(sizes)), threads=2)
    assert kernel.report.counts is not None
    return kernel.report.counts


@pytest.mark.parametrize("op_name", ["gemm_f16", "gemm_f16_nt", "linear_gelu_f16"])
def test_ampere_moves_what_its_tiles_say(op_name: str) -> None:
    """A block reads its 128 rows and its 128 columns once, and writes its results once."""
    m, n, k = 256, 384, 96
    r = counted("hgemm_ampere", op_name, "sm_80", f"M={m},N={n},K={k}")
    read = {s.buffer: s.bytes for s in r.sites if (s.memory, s.access) == ("global", "read")}
    left, right = ("X", "W") if op_name.startswith("linear") else ("A", "B")
    assert read[left] == 2 * m * k * (n // 128)
    assert read[right] == 2 * n * k * (m // 128)
    assert r.moved["global"]["written"] == 2 * m * n
    blocks = (m // 128) * (n // 128)
    # a tile is stored once; two columns of warps read A's, two rows of warps B's; the results go in and out once
    assert r.moved["shared"]["written"] == blocks * (2 * 2 * 128 * k + 2 * 128 * 128)
    # and the last tile's first 16 of k are read once more, for nothing: no branch stands around what is read ahead
    assert r.moved["shared"]["read"] == blocks * (2 * 128 * (k + 16) * (2 + 2) + 2 * 128 * 128)
    assert r.instrs["mma_m16n8k16_f16"] == (m // 16) * (n // 8) * (k // 16)
    assert r.launches[0]["barriers"] == blocks * (k // 32 + 3)  # a tile; first fragments; results


FREE = [  # no bank conflict, and every transaction of global memory full
    ("sgemm_maxwell", "gemm", "sm_75", "M=256,N=128,K=32"),
    ("hgemm_ampere", "gemm_f16", "sm_80", "M=256,N=384,K=96"),
    ("hgemm_ampere", "gemm_f16_nt", "sm_80", "M=256,N=384,K=96"),
    ("hgemm_ampere_f32", "gemm_f16_f32", "sm_80", "M=128,N=128,K=64"),
    ("tf32gemm_ampere", "gemm_tf32", "sm_80", "M=256,N=128,K=32"),
    ("sgemm_mfma", "gemm", "gfx90a", "M=128,N=128,K=32"),
    ("hgemm_mfma", "gemm_f16_nt", "gfx90a", "M=128,N=128,K=64"),
    ("hgemm_wmma", "gemm_f16_nt", "gfx1100", "M=128,N=128,K=64"),
    ("conv_igemm_ampere", "conv2d_nhwc_f16", "sm_80", "N=2,C=32,H=10,W=10,O=128,R=3,S=3"),
    ("softmax_nvidia", "softmax", "sm_80", "M=3,N=4096"),
    ("softmax_amd", "softmax", "gfx90a", "M=3,N=4096"),
    ("layernorm_nvidia", "layernorm", "sm_80", "M=3,N=4096"),
    ("transpose_nvidia", "transpose", "sm_80", "M=128,N=96"),
    ("transpose_cdna", "transpose", "gfx90a", "M=128,N=128"),
    ("transpose_rdna", "transpose", "gfx1100", "M=128,N=128"),
]


@pytest.mark.parametrize(("name", "op_name", "device", "sizes"), FREE)
def test_free_of_conflicts(name: str, op_name: str, device: str, sizes: str) -> None:
    r = counted(name, op_name, device, sizes)
    assert r.conflicts == {"shared": 0}
    for s in r.sites:
        assert s.memory != "global" or s.transactions == s.least or s.buffer in ("eps", "mean"), s


@pytest.mark.parametrize(("name", "op_name"), [("softmax_nvidia", "softmax"), ("layernorm_nvidia", "layernorm")])
def test_rows_are_read_once(name: str, op_name: str) -> None:
    r = counted(name, op_name, "sm_80", "M=3,N=4096")
    found = [(s.bytes, s.requests) for s in r.sites if s.buffer == "X"]
    assert tuple(map(sum, zip(*found, strict=True))) == (4 * 3 * 4096, 3 * 4096 // (32 * 4))
    assert r.moved["global"]["written"] == 4 * 3 * 4096
