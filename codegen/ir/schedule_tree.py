"""The schedule tree: the lines of a launch with all names and numbers resolved. Its grammar, on one screen:

    Node  = Tile(axes, level, below)              tiles: one after another, or distributed over the units of a level
          | Fuse(indices, name, below)            one index in place of several
          | Move(tensor, memory, block, below)    a copy of the tensor's footprint; below, the name means the copy
          | Keep(tensors, memory, block, below)   accumulators or intermediates live in the memory from here on
          | Leaf(instr, order, unroll, named_at)  what remains, by an instruction or element by element
          | FragmentLeaf(fragment)                elements in the order of an instruction's fragment
          | CopyLeaf(instr, fragment, move)       a copy by an instruction that fills the fragment
          | ShareOut(keep)                        results that the block of `keep` leaves to be distributed
    axes  = Axis(index, size, every) ...          in the order of visiting: outermost first, on units slowest first
    block = Node | None                           how the copy is made, or how the results are written back; None: chosen

A tree is a path: each node has the one `below` it, down to a leaf. `schedule_tree` makes it from lines. Lowering adds nodes of
its own (the last four leaves, and tiles without a line). A node is compared by identity. Its `key` survives changes of other
fields: nodes with one key come from one line of the schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from dataclasses import replace as _replace
from typing import Any, TypeVar

from ...dsl import syntax
from ...dsl.errors import InternalError
from ...dsl.source import Span
from ...dsl.support.cached import cached_property

_N = TypeVar("_N", bound="Node")


@dataclass(frozen=True)
class Axis:
    """Tiles of `size` elements of an index; `every`: one chunk of that size in each run of so many elements."""

    index: str
    size: int
    every: int | None = None


@dataclass(frozen=True)
class Unroll:
    """`count` None: the whole loop."""

    count: int | None = None


@dataclass(frozen=True)
class Pipeline:
    """`depth` buffers rotate; `through`: copies go on across iterations of the loops outside."""

    depth: int
    through: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """`line`: the line of the schedule that the node comes from; None for what lowering adds."""

    line: syntax.Line | None = None
    key: object = field(default_factory=object, repr=False)

    @property
    def span(self) -> Span | None:
        return self.line.span if self.line is not None else None

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that this node moves or keeps."""
        return ()

    def but(self: _N, **changes: Any) -> _N:
        """The node with other fields; it keeps its key."""
        return _replace(self, **changes)

    def path(self) -> Iterator[Node]:
        """This node and those below it, the leaf last."""
        node = self
        while isinstance(node, Step):
            yield node
            node = node.below
        yield node

    @cached_property
    def leaf(self) -> Node:
        *_, leaf = self.path()
        return leaf

    @cached_property
    def staged(self) -> frozenset[str]:
        """The tensors that this node and those below it move or keep."""
        return frozenset(t for x in self.path() for t in x.tensors)


@dataclass(frozen=True, eq=False, kw_only=True)
class Step(Node):
    """A node with another below it."""

    below: Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Tile(Step):
    """`level` None: one tile after another.

    split    `by`: how units combine their parts of a reduction
    arrange  the tile of a unit from its number
    raster   rows of tiles that are walked together
    within   a memory in each of whose slices units have neighbouring tiles
    online   reductions read each other's running values in the loop
    carry    totals of what one tile adds go on to the next
    equal_trips   all units make the same number of iterations, those with fewer tiles too
    """

    axes: tuple[Axis, ...]
    level: str | None = None
    unroll: Unroll | None = None
    peel: bool = False
    pipeline: Pipeline | None = None
    split: str | None = None
    arrange: syntax.Modifier | None = None
    raster: int | None = None
    within: str | None = None
    online: bool = False
    carry: bool = False
    equal_trips: bool = False

    def __post_init__(self) -> None:
        _check(all(a.size > 0 and (a.every is None or a.every > 0) for a in self.axes), self, "sizes are more than 0")
        _check(len({a.index for a in self.axes}) == len(self.axes), self, "an index has one axis")

    @property
    def is_plain(self) -> bool:
        """Without modifiers."""
        modifiers = (self.unroll, self.pipeline, self.split, self.arrange, self.raster, self.within)
        return not any(m is not None for m in modifiers) and not (self.peel or self.online or self.carry)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fuse(Step):
    indices: tuple[str, ...]
    name: str

    def __post_init__(self) -> None:
        _check(bool(self.indices), self, "something is fused")


@dataclass(frozen=True, eq=False, kw_only=True)
class Materialise(Step):
    """What `move` and `keep` have in common: a tile that lives in `memory` (None: the innermost).

    layout, pad, swizzle   of the tile, as they were written
    instr                  `with`: the instruction that copies or stores
    """

    memory: str | None
    layout: syntax.Modifier | None = None
    pad: syntax.Modifier | None = None
    swizzle: syntax.Modifier | None = None
    instr: str | None = None
    block: Node | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Move(Materialise):
    """`view`: the indices of the copy, where they were written."""

    tensor: str
    view: tuple[str, ...] | None = None
    pipeline: Pipeline | None = None

    @property
    def tensors(self) -> tuple[str, ...]:
        return (self.tensor,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Keep(Materialise):
    """`open_block`: its block is `auto` alone: what it is, and whether there is one, is decided where it is lowered."""

    names: tuple[str, ...]
    open_block: bool = False

    def __post_init__(self) -> None:
        _check(bool(self.names), self, "something is kept")

    @property
    def tensors(self) -> tuple[str, ...]:
        return self.names

    @property
    def has_block(self) -> bool:
        """Whether a block was written, if only `auto`."""
        return self.block is not None or self.open_block


@dataclass(frozen=True, eq=False, kw_only=True)
class Leaf(Node):
    """`instr`: an instruction or a family; `unroll`: iterations of the outermost loop, 0 for all of them; `named_at`: the line
    that names the instruction of a leaf that was filled in."""

    instr: str | None = None
    order: tuple[str, ...] = ()
    unroll: int = 1
    named_at: Span | None = None

    @property
    def is_implied(self) -> bool:
        """Whether no line says it."""
        return self.line is None


@dataclass(frozen=True, eq=False, kw_only=True)
class FragmentLeaf(Node):
    fragment: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class CopyLeaf(Node):
    """`fragment` None: any will do."""

    instr: str
    fragment: Any
    move: Move


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareOut(Node):
    keep: Keep


def _check(holds: bool, node: Node, rule: str) -> None:
    if not holds:
        raise InternalError(f"{rule}: {node}")


# ---------------------------------------------------------------- changes


def chain(*steps: Step, below: Node) -> Node:
    """The steps, one below the other, above a node."""
    for x in reversed(steps):
        below = x.but(below=below)
    return below


def steps_of(node: Node) -> list[Step]:
    """The node and those below it, without the leaf."""
    return [x for x in node.path() if isinstance(x, Step)]


def with_leaf(node: Node, leaf: Node) -> Node:
    """The same steps above another leaf."""
    return chain(*steps_of(node), below=leaf)


def all_nodes(node: Node) -> Iterator[Node]:
    """The node, those below it, and those of their blocks."""
    for x in node.path():
        yield x
        if isinstance(x, Materialise) and x.block is not None:
            yield from all_nodes(x.block)


def fragment_of(node: Node | None) -> Any:
    """The fragment of the leaf; None where elements are visited in another order."""
    leaf = node.leaf if node is not None else None
    return leaf.fragment if isinstance(leaf, FragmentLeaf | CopyLeaf) else None
