"""The schedules of `devices/simt_sketches.sched`: sizes for each, its program, and inputs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params

from .paths import DEVICES

# schedule (None: nothing written), op, parameters, sizes; the error allowed
CASES = {
    "maxwell": ("gemm", {}, [dict(M=150, N=131, K=21), dict(M=1, N=1, K=1), dict(M=3, N=4, K=0)], 1e-4),
    "ampere": ("hgemm", {}, [dict(M=150, N=136, K=56), dict(M=37, N=19, K=21), dict(M=2, N=3, K=0)], 2e-2),
    "tall": ("gemm", {}, [dict(M=13, N=17, K=150), dict(M=2, N=3, K=0), dict(M=1, N=1, K=65)], 1e-4),
    "igemm": ("conv2d", {}, [dict(N=2, C=7, H=7, W=9, O=5, R=3, S=2), dict(N=1, C=1, H=1, W=1, O=1, R=1, S=1)], 1e-4),
    "igemm_padded": ("conv2d", {"pad": 1, "stride": 2}, [dict(N=2, C=2, H=7, W=9, O=5, R=3, S=3)], 1e-4),
    "row": ("softmax", {}, [dict(M=3, N=1500), dict(M=2, N=1), dict(M=0, N=7)], 1e-6),
    "tiled": ("transpose", {}, [dict(M=37, N=45), dict(M=1, N=1), dict(M=0, N=3)], 0),
    "strips": ("transpose", {}, [dict(M=37, N=45)], 0),
    "auto attention": ("attention", {}, [dict(H=2, Q=5, T=7, D=6), dict(H=1, Q=1, T=1, D=1)], 1e-2),
    "auto softmax": ("softmax", {}, [dict(M=5, N=70)], 1e-6),
    "auto gemm": ("gemm", {}, [dict(M=37, N=45, K=12)], 1e-4),
}


@lru_cache(maxsize=1)
def module():
    return loads((DEVICES / "simt.sched").read_text() + (DEVICES / "simt_sketches.sched").read_text())


@lru_cache(maxsize=20)
def program(name: str) -> tuple:
    mod = module()
    op = bind_params(mod.ops[CASES[name][0]], CASES[name][1])
    return op, compile_program(mod, op, mod.schedules.get(name.split("_")[0]), mod.devices["simt"]).program


def inputs(op, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {t.name: rng.standard_normal([e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
