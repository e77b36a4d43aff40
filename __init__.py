"""Andiron: a hardware-agnostic scheduling language for tensor kernels in which data movement is visible.

    import andiron
    k = andiron.compile("gemm.sched", M=512)
    C = k(A, B)

Names are loaded at their first use, so importing this costs nothing that is not needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .dsl.errors import AndironError
    from .dsl.module import Module, load, loads
    from .dsl.schedule_builder import Schedule
    from .dsl.semantics.reference import reference
    from .runtime.compile import compile
    from .runtime.decorators import kernel, op
    from .runtime.kernel import Kernel
    from .runtime.storage.load import load_kernel
    from .runtime.torch_op import torch_op

_HOMES = {
    "AndironError": ".dsl.errors",
    "Kernel": ".runtime.kernel",
    "Module": ".dsl.module",
    "Schedule": ".dsl.schedule_builder",
    "compile": ".runtime.compile",
    "kernel": ".runtime.decorators",
    "load": ".dsl.module",
    "load_kernel": ".runtime.storage.load",
    "load_ipython_extension": ".tools.notebook",
    "loads": ".dsl.module",
    "op": ".runtime.decorators",
    "reference": ".dsl.semantics.reference",
    "torch_op": ".runtime.torch_op",
}

__all__ = [
    "AndironError",
    "Kernel",
    "Module",
    "Schedule",
    "compile",
    "kernel",
    "load",
    "load_kernel",
    "loads",
    "op",
    "reference",
    "torch_op",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
