"""A resolved op: typed tensors and single-assignment statements over named indices.

`dsl.ops.resolve_op.resolve_op(decl) -> Op` builds it from the syntax tree and checks it; `dsl.semantics.reference`
evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import syntax
from .index.expr import Expr, Var
from .source import Span
from .support.cached import cached_property
from .text.format import format_node
from .types import DType
from .values import Value


@dataclass(frozen=True)
class Tensor:
    """A tensor of an op.

    name   its name
    dtype  its element type
    shape  its extents, as expressions over the sizes of the op
    role   `input`, `output` or `intermediate`
    span   its place in the text, or None
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    role: str  # input | output | intermediate
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Reduction:
    """kind: sum prod max min any all argmax argmin. The identity of an empty one: 0 1 -inf inf false true; argmax refused."""

    kind: str
    indices: tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """`target[indices] = reduction(...) value`, at most one reduction, at the root.

    Statements with reductions inside an expression were split: the inner one is a statement of its own whose target is
    named `Y.sum1`. `ranges` maps every index, free and reduced, to its extent. Index names are unique per statement and
    shared between statements when they name one axis (a producer's axis and the plain index that subscripts it).
    For argmax/argmin the target holds the winning index (i64), flattened row-major over the reduced indices.
    """

    target: str
    indices: tuple[str, ...]
    value: Value
    reduction: Reduction | None
    ranges: tuple[tuple[str, Expr], ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    def extent(self, index: str) -> Expr:
        return dict(self.ranges)[index]


@dataclass(frozen=True)
class Op:
    """A named computation: typed tensors, and statements over named indices.

    name        its name
    dims        the sizes that the shapes of the inputs bind
    derived     the sizes that `where` defines, in order, each with its definition
    params      the integer parameters, each with its default or None. `bind_params` replaces them by numbers
    conditions  expressions that must be at least 0, from comparisons in `where`, each with its text
    tensors     inputs, outputs and intermediates
    statements  the statements, in order; each defines one tensor
    decl        the syntax tree, or None
    """

    name: str
    dims: tuple[Var, ...]
    derived: tuple[tuple[Var, Expr], ...]
    params: tuple[tuple[str, int | None], ...]
    conditions: tuple[tuple[Expr, str], ...]
    tensors: tuple[Tensor, ...]
    statements: tuple[Statement, ...]
    decl: syntax.OpDecl | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return format_node(self.decl).rstrip("\n") if self.decl else repr(self)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, some)) for some in (self.inputs, self.outputs))
        return f"<op {self.name}({inputs}) -> ({outputs})>"

    @cached_property
    def memos(self) -> dict[Callable[..., Any], Any]:
        """What functions keep of it, see `memoised`."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Another process has its own `memos`."""
        return {name: x for name, x in self.__dict__.items() if name != "memos"}

    def all_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Computes the derived sizes.

        sizes  the value of each of `dims`, by name

        Returns all sizes by name, the derived ones too.

        Raises KeyError if a size is missing.
        """
        known = dict(sizes)
        for var, e in self.derived:
            known[var.name] = e.evaluate(known)
        return known

    def tensor(self, name: str) -> Tensor:
        """Looks up a tensor.

        name  its name

        Returns the `Tensor`.

        Raises StopIteration if the op has no tensor of the name.
        """
        return next(t for t in self.tensors if t.name == name)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs, in the order of the declaration."""
        return tuple(t for t in self.tensors if t.role == "input")

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs, in the order of the declaration."""
        return tuple(t for t in self.tensors if t.role == "output")
