"""`pictures/*.svg`: of the recipes of cookbook.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from andiron.runtime.compile import compile as compile_kernel
from andiron.tools.pictures.bank_accesses import staged_buffers
from andiron.tools.pictures.banks import banks
from andiron.tools.pictures.roofline import roofline
from andiron.tools.pictures.tiles import tiles
from andiron.tools.pictures.traffic import traffic
from andiron.tools.repl.view import draft_report

from .page import DOCS

# name -> what is drawn, the recipe's file, its schedule, the target, sizes
PICTURES: dict[str, tuple[str, str, str, str, dict[str, int]]] = {
    "gemm-tiles": ("tiles", "gemm", "packed", "cpu:avx2", {"M": 512, "N": 512, "K": 512}),
    "hgemm-banks": ("banks", "hgemm", "ampere", "cuda:sm_80", {"M": 512, "N": 512, "K": 512}),
    "layer-traffic": ("traffic", "layer", "ampere", "cuda:sm_80", {"M": 512, "N": 512, "K": 512}),
    "softmax-traffic": ("traffic", "softmax", "rows", "cuda:sm_80", {"M": 1024, "N": 1024}),
    "layernorm-roofline": ("roofline", "layernorm", "rows", "cuda:sm_80", {"M": 1024, "N": 1024}),
    "turn-padded": ("banks", "turn", "padded", "cuda:sm_80", {"M": 512, "N": 512}),
    "turn-plain": ("banks", "turn", "plain", "cuda:sm_80", {"M": 512, "N": 512}),
    "split-traffic": ("traffic", "split", "split", "cuda:sm_80", {"M": 32, "N": 32, "K": 4096}),
    "stencil-tiles": ("tiles", "stencil", "staged", "cuda:sm_80", {"M": 256, "N": 256}),
    "attention-roofline": ("roofline", "attention", "rows", "cpu:avx2", {"H": 8, "Q": 512, "T": 512, "D": 64}),
}


def pages() -> dict[str, Callable[[], str]]:
    return {f"pictures/{name}.svg": partial(drawn, *recipe) for name, recipe in PICTURES.items()}


def drawn(kind: str, file: str, schedule: str, target: str, sizes: dict[str, int]) -> str:
    """The picture, on white, for pages of any colour."""
    (text,) = re.findall(rf'^```sched title="{file}.sched"\n(.*?)^```$', (DOCS / "cookbook.md").read_text("utf-8"), re.M | re.S)
    threads = 2 if target.startswith("cpu") else None  # not as many as this machine happens to have
    kernel = compile_kernel(text, schedule=schedule, target=target, threads=threads, **sizes)
    report, device = draft_report(kernel), kernel.program.device
    made = {
        "tiles": lambda: tiles(kernel.op, kernel.trace, report.sizes),
        "traffic": lambda: traffic(report, device),
        "roofline": lambda: roofline(report, device),
        "banks": lambda: banks(staged_buffers(kernel.program, report.sizes)[0], rows=8, columns=16),
    }[kind]()
    assert made is not None, (kind, file)
    return made.replace('style="', 'style="background:#fff;color:#1f2328;', 1) + "\n"
