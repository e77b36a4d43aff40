"""Kernels as operators of PyTorch, which stay single nodes in the graphs of `torch.compile` and `torch.export`.

PyTorch is imported when an operator is created, and only then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..dsl.errors.run import NoPackage
from .arrays.bind_sizes import tensor_text
from .gpu.arrays import TORCH

if TYPE_CHECKING:
    from .kernel import Kernel


def torch_op(kernel: Kernel, name: str | None = None) -> Any:
    """Makes a kernel an operator of PyTorch, which `torch.compile` and `torch.export` keep whole in their graphs.

    kernel  the kernel
    name    the operator's name with its namespace; None is `andiron::OP`. It holds for the whole process: a second operator of
            a name takes the place of the first

    PyTorch knows the shapes of the results without running the operator, also while sizes are symbols. The operator has no
    gradient of its own: `register_autograd` of the result gives it one.

    Returns a `torch.library.CustomOpDef`. It is called with tensors in the order of the op's inputs, and returns one tensor, or
    a tuple of tensors.

    Raises NoPackage if PyTorch is not installed.
    """
    try:
        import torch  # type: ignore[import-not-found]
    except ImportError:
        raise NoPackage("PyTorch is not installed", help="pip install 'andiron[torch]'") from None
    op = kernel.op
    qualified = name or f"andiron::{op.name}"

    def run(*tensors: Any) -> Any:
        return kernel(*[t.detach() for t in tensors])

    def shapes(*tensors: Any) -> Any:
        sizes = _sizes(torch, kernel, tensors)
        made = [
            tensors[0].new_empty([e.evaluate(sizes) for e in t.shape], dtype=getattr(torch, TORCH[t.dtype.name]))
            for t in op.outputs
        ]
        return made[0] if len(made) == 1 else tuple(made)

    inputs = ", ".join(f"Tensor {t.name}" for t in op.inputs)
    outputs = "Tensor" if len(op.outputs) == 1 else f"({', '.join(['Tensor'] * len(op.outputs))})"
    made = torch.library.custom_op(qualified, run, mutates_args=(), schema=f"({inputs}) -> {outputs}")
    made.register_fake(shapes)
    return made


def _sizes(torch: Any, kernel: Kernel, tensors: Sequence[Any]) -> Mapping[str, Any]:
    """Sizes by name, numbers or symbols; what shapes must fulfil becomes a condition of the graph."""
    sizes: dict[str, Any] = dict(kernel.sizes)
    for tensor, x in zip(kernel.op.inputs, tensors, strict=True):
        torch._check(x.dim() == len(tensor.shape), lambda t=tensor: f"{tensor_text(t)} has another number of axes here")
        for expr, extent in zip(tensor.shape, x.shape, strict=True):
            if str(expr).isidentifier():
                sizes.setdefault(str(expr), extent)
    sizes = kernel.op.all_sizes(sizes)
    for tensor, x in zip(kernel.op.inputs, tensors, strict=True):
        for expr, extent in zip(tensor.shape, x.shape, strict=True):
            torch._check(expr.evaluate(sizes) == extent, lambda t=tensor: f"{tensor_text(t)} has another shape here")
    return sizes
