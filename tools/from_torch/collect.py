"""From the nodes of a graph to tasks with their numbers of calls, and to a list of what is not served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .arguments import NotServed
from .expand import Parts, expand
from .graph import Node
from .match import Match, library_op, match, moves_nothing

Decompose = Callable[[Node], Sequence[Node]]


@dataclass
class Served:
    """A task: an op of the library with its sizes.

    calls    how often the graph calls it
    targets  the operators of the graph that it computes
    """

    op: str
    sizes: dict[str, int]
    calls: int = 0
    targets: list[str] = field(default_factory=list)


@dataclass
class Unserved:
    """A call that no op of the library computes.

    text     the operator, with the types and shapes of its tensors
    part_of  the call that has it as a part; None for a node of the graph
    """

    target: str
    text: str
    reason: str
    part_of: str | None
    calls: int = 0


@dataclass
class GraphTasks:
    """What the library serves of a graph. Nodes that move nothing are in none of the numbers but `free`.

    served, partly, unserved, free   numbers of nodes
    """

    tasks: list[Served] = field(default_factory=list)
    rest: list[Unserved] = field(default_factory=list)
    served: int = 0
    partly: int = 0
    unserved: int = 0
    free: int = 0

    def as_dict(self) -> dict[str, Any]:
        nodes = {"served": self.served, "partly": self.partly, "unserved": self.unserved, "free": self.free}
        return {"tasks": [vars(t) for t in self.tasks], "unserved": [vars(u) for u in self.rest], "nodes": nodes}


@dataclass(frozen=True)
class _Outcome:
    """What became of a node: ops of the library and calls without one, each with its number of calls."""

    matches: tuple[tuple[Match, str, int], ...] = ()
    missing: tuple[tuple[Node, str, int], ...] = ()


def collect(nodes: Sequence[Node], decompose: Decompose = lambda node: ()) -> GraphTasks:
    """The tasks of a graph, in the order of its nodes.

    decompose  the parts of a call in core ATen; none where it has none
    """
    found = GraphTasks()
    tasks: dict[Any, Served] = {}
    rest: dict[Any, Unserved] = {}
    outcomes: dict[str, _Outcome | None] = {}
    for node in nodes:
        if moves_nothing(node):
            found.free += 1
            continue
        if node.key not in outcomes:
            outcomes[node.key] = _outcome(node, decompose)
        outcome = outcomes[node.key]
        assert outcome is not None
        for m, target, calls in outcome.matches:
            task = tasks.setdefault((m.op, *m.sizes.items()), Served(m.op, dict(m.sizes)))
            task.calls += calls
            if target not in task.targets:
                task.targets.append(target)
        for part, reason, calls in outcome.missing:
            part_of = None if part is node else node.target
            entry = rest.setdefault((str(part), reason, part_of), Unserved(part.target, str(part), reason, part_of))
            entry.calls += calls
        if not outcome.missing:
            found.served += 1
        elif outcome.matches:
            found.partly += 1
        else:
            found.unserved += 1
    found.tasks, found.rest = list(tasks.values()), list(rest.values())
    return found


def _outcome(node: Node, decompose: Decompose) -> _Outcome:
    try:
        return _Outcome(((match(node), node.target, 1),))
    except NotServed as reason:
        whole = _Outcome(missing=((node, str(reason), 1),))
    if node.symbols:
        return whole
    parts = _of_parts(expand(node), decompose, node.target)
    if parts.matches:
        return parts
    parts = _of_parts([(part, 1) for part in decompose(node)], lambda _: (), node.target)
    return parts if parts.matches and (not parts.missing or any(_contracts(m) for m, _, _ in parts.matches)) else whole


def _of_parts(parts: Parts, decompose: Decompose, target: str) -> _Outcome:
    matches, missing = [], []
    for part, calls in parts:
        if moves_nothing(part):
            continue
        outcome = _outcome(part, decompose)
        matches += [(m, target, n * calls) for m, _, n in outcome.matches]
        missing += [(p, reason, n * calls) for p, reason, n in outcome.missing]
    return _Outcome(tuple(matches), tuple(missing))


def _contracts(m: Match) -> bool:
    """Whether most of the work of a call is in such a part, so that it counts without the others."""
    op = library_op(m.op)
    return len(op.inputs) > 1 and any(s.reduction is not None and s.reduction.kind == "sum" for s in op.statements)
