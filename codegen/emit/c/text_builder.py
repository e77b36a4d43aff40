"""The text of one launch as it grows: nested scopes of lines, and declarations that move to the scope they belong to.

A scope begins where variables get values: the launch itself, a loop body, a named Let. Pointers that depend on those
variables are declared at its top, once, however deep the access that needs them: HOIST_TO_OWNER. That keeps inner loops
free of index arithmetic and gives compilers plain strided accesses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ....dsl.index.expr import Atom, Expr, Var
from ....dsl.source import Span
from ...name_mangling import NameSupply
from .index_printer import IndexPrinter

INDENT = "    "
_STATEMENT = re.compile(r"[\w.\[\]+*() -]+ = |(store|store_part|scatter|atomic_\w+)\(")
_DECLARATION = re.compile(r"(const )?\w+\*? \w+ = ")


class Line(str):
    """A line that knows which part of the schedule it was printed for. Text put before it leaves it one."""

    __slots__ = ("span",)
    span: Span | None

    @staticmethod
    def of(text: str, span: Span | None) -> Line:
        line = Line(text)
        line.span = span
        return line

    def __radd__(self, before: str) -> Line:
        line = Line(f"{before}{self}")
        line.span = self.span
        return line

    def without(self, prefix: str) -> Line:
        return Line.of(self.removeprefix(prefix), self.span)


class TextScope:
    def __init__(self, tag: str) -> None:
        self.tag = tag  # names the pointers declared here
        self.decls: list[str] = []
        self.lines: list[str] = []
        self.pointers: dict[tuple[str, tuple], str] = {}  # by what is added to which
        self.names: list[str] = []
        self.inner: set[str] = set()  # names of blocks in it that have ended
        self.fetched: set[tuple] = set()  # lines that were asked for here


@dataclass(frozen=True)
class KnownPointer:
    """Where the last part of a pointer is known: while a scope is open and has it. `here`: not in scopes in it."""

    depth: int
    pointers: dict[tuple[str, tuple], str] | None
    here: bool = False

    def still(self, scopes: Sequence[TextScope]) -> bool:
        if self.depth >= len(scopes) or (self.here and self.depth + 1 != len(scopes)):
            return False
        return self.pointers is None or scopes[self.depth].pointers is self.pointers


NOWHERE = KnownPointer(0, None)  # there is no such part


class SourceText:
    """Lines under construction. `outside(var)` declares a variable of the whole program where it is first used."""

    def __init__(
        self, outside: Callable[[Var], str], needs: Callable[[str], None], index: type[IndexPrinter] = IndexPrinter
    ) -> None:
        self.names = NameSupply()
        self.scopes = [TextScope("")]
        self.constants: set[Var] = set()  # same for all units and iterations: the sizes
        self.span: Span | None = None  # of the statement being printed
        self._outside = outside
        self._depth: dict[Var, int] = {}
        self._depths: dict[int, tuple[int, Atom | Expr]] = {}  # of atoms, until a variable's is another one
        self._named: dict[Var, str] = {}
        self.temps = 0  # how many there are
        self.index = index(self._name, needs)

    # ------------------------------------------------------------ lines and scopes

    def line(self, text: str) -> None:
        self.scopes[-1].lines.append(Line.of(text, self.span))

    def close(self) -> None:
        """Ends the text: reference cycles are broken, so that memory is freed at once, without the garbage collector."""
        self.index.close()
        self.scopes.clear()
        self.__dict__.pop("_outside")

    def declare(self, text: str, depth: int = -1) -> None:
        """A declaration at the top of a scope."""
        self.scopes[depth].decls.append(Line.of(text, self.span))

    def fresh(self, wish: str, depth: int = -1) -> str:
        """NO_SHADOW: a name at the top of a scope is that of no block in it, nor of one that has ended."""
        depth %= len(self.scopes)
        inside = [scope.inner for scope in self.scopes[depth:]]
        name = self.names.fresh(wish, inside[0].union(*inside[1:]) if len(inside) > 1 else inside[0])
        self.scopes[depth].names.append(name)
        return name

    def temp(self) -> str:
        self.temps += 1
        return f"t{self.temps}"

    def begin(self, tag: str = "", *variables: Var) -> int:
        """A new scope that knows `variables`, until the innermost enclosing `block` closes; how many scopes there were."""
        self.scopes.append(TextScope(tag))
        if variables:
            again = not self._named.keys().isdisjoint(variables)
            for v in variables:
                self._depth[v] = len(self.scopes) - 1
                self._named[v] = self.fresh(v.name)
            if again:  # nothing was said of the others
                self._depths.clear()
                self.index.renamed()
        return len(self.scopes) - 1

    def _end(self, braces: bool = False) -> None:
        """Closes a scope; without braces of its own its names stay taken as long as the one around it."""
        scope = self.scopes.pop()
        self.scopes[-1].lines += scope.decls + scope.lines
        if braces:
            self.names.release(scope.names)
            self.scopes[-1].inner.update(scope.names)
        else:
            self.scopes[-1].names += scope.names
        self.scopes[-1].inner |= scope.inner

    def end(self, outer: int) -> None:
        """Closes the scopes that were begun since there were `outer` ones."""
        while len(self.scopes) > outer:
            self._end()

    @contextmanager
    def block(self, header: Callable[[], str], tag: str = "", *variables: Var, footer: str = "}") -> Iterator[None]:
        """`header {` lines `}`, indented; the header is printed when the variables have names."""
        saved = {v: (self._depth.get(v), self._named.get(v)) for v in variables}
        outer = self.begin(tag, *variables)
        head, span = header(), self.span
        yield
        self.end(outer + 1)
        scope = self.scopes[-1]
        body = scope.decls + scope.lines
        scope.decls = []
        opened = [Line.of(f"{head} {{", span)] if head else []  # an `else` continues the line before
        scope.lines = [*opened, *[INDENT + x if x else x for x in body], footer]
        self._end(braces=True)
        for v, (depth, name) in saved.items():
            if depth is not None and name is not None:
                self._depth[v], self._named[v] = depth, name
                self._depths.clear()
                self.index.renamed()

    def finish(self) -> list[str]:
        """All lines, at the end."""
        self.end(1)
        return self.scopes[0].decls + self.scopes[0].lines

    # ------------------------------------------------------------ variables

    def _name(self, v: Var) -> str:
        if v not in self._named:
            self._named[v] = self._outside(v)
            self._depth[v] = 0
        return self._named[v]

    def known(self, v: Var) -> bool:
        return v in self._named

    def depth(self, atom: Atom | Expr) -> int:
        """The innermost scope one of whose variables the atom depends on."""
        if type(atom) is Var:
            return self._depth.get(atom, 0)
        known = self._depths.get(id(atom))
        if known is None:
            found = [self._depth.get(v, 0) for v in atom.variables()]  # type: ignore[union-attr]
            known = self._depths[id(atom)] = max(found, default=0), atom  # what the key names stays alive
        return known[0]

    def constant(self, atom: Atom) -> bool:
        """Whether it consists of sizes only."""
        return atom in self.constants if type(atom) is Var else atom._variables <= self.constants  # type: ignore[union-attr]

    # ------------------------------------------------------------ pointers

    def pointer(
        self, base: str, ctype: str, terms: Sequence[tuple[Atom, int]]
    ) -> tuple[str, list[tuple[Atom, int]], KnownPointer]:
        """(pointer, the rest of the terms, where it is known): `base + terms`, built scope by scope, each part added where its
        variables become known. A plain multiple of one variable is left as the rest, for the index."""
        by_depth: dict[int, list[tuple[Atom, int]]] = {}
        here, risky = len(self.scopes) - 1, False
        for term in terms:
            atom = term[0]
            if type(atom) is Var:
                depth = self._depth.get(atom, 0)
            elif is_risky(atom):
                # a symbolic divisor may be zero under the guard that stands around the access: never hoisted
                depth, risky = here, True
            else:
                depth = self.depth(atom)
            if depth in by_depth:
                by_depth[depth].append(term)
            else:
                by_depth[depth] = [term]
        deepest = max(by_depth)
        last = by_depth[deepest]
        rest = by_depth.pop(deepest) if len(last) == 1 and type(last[0][0]) is Var else []
        name = base
        for depth in sorted(by_depth):
            part = tuple(by_depth[depth])
            scope = self.scopes[depth]
            found = scope.pointers.get((name, part))
            if found is None:
                found = self.fresh(f"{base}_{scope.tag}" if scope.tag else base, depth)
                text = f"{ctype} {found} = {self._plus(name, part)};"
                # a scope that is still only declarations may grow; a risky part stands right before its use
                (scope.lines if risky and depth == here else scope.decls).append(Line.of(text, self.span))
                scope.pointers[name, part] = found
            name = found
        if not by_depth:
            return name, rest, NOWHERE
        depth = max(by_depth)
        return name, rest, KnownPointer(depth, self.scopes[depth].pointers, risky)

    def drop_pointers(self, gone: list[str]) -> None:
        """Pointers that these lines declare are unknown from here on: the lines were thrown away, or stand in a block."""
        scope = self.scopes[-1]
        declared = {x.partition(" = ")[0].rpartition(" ")[2] for x in gone if " = " in x}
        if not declared.isdisjoint(scope.pointers.values()):
            scope.pointers = {key: name for key, name in scope.pointers.items() if name not in declared}

    def _plus(self, name: str, part: tuple[tuple[Atom, int], ...]) -> str:
        text = self.index.terms(part, 0)
        return f"{name} - {text[1:]}" if text.startswith("-") and " " not in text else f"{name} + {text}"


def is_risky(atom: Atom) -> bool:
    """Whether it may divide by zero; computed once for each."""
    if isinstance(atom, Var):
        return False
    if atom._risky is None:
        inner = (a for e in atom.args for a, _ in e.terms)
        atom._risky = (atom.kind in ("div", "mod") and bool(atom.args[1].terms)) or any(map(is_risky, inner))
    return atom._risky


def tidy_else(lines: list[str], at: int) -> None:
    """The else that `lines` end with, opened in line `at`: with nothing in it, it goes; of one if alone it is an `else if`."""
    inside = lines[at + 1 : -1]
    if not inside:
        lines[at:] = ["}"]
        return
    if inside[0] == f"{INDENT}{{" and inside.index(f"{INDENT}}}") == len(inside) - 1:  # a block in a block
        lines[at + 1 : -1] = [_out(x) for x in inside[1:-1]]
        return
    alone = inside[0].startswith(f"{INDENT}if (") and inside.count(f"{INDENT}}}") == 1 and inside[-1] == f"{INDENT}}}"
    if alone and all(x.startswith((f"{INDENT} ", f"{INDENT}}}")) for x in inside[1:]):
        lines[at:] = [Line.of(f"}} else {inside[0].strip()}", _span(inside[0])), *(_out(x) for x in inside[1:])]


def _out(line: str) -> str:
    """A level less indented."""
    return line.without(INDENT) if isinstance(line, Line) else line.removeprefix(INDENT)


def _span(line: str) -> Span | None:
    return line.span if isinstance(line, Line) else None


def tidy_if(lines: list[str], at: int) -> None:
    """An if that `lines` end with, opened in line `at`, of one short statement: in one line."""
    if len(lines) != at + 3:
        return
    head, inside = lines[at].removesuffix(" {"), lines[at + 1].strip()
    if _STATEMENT.match(inside) and not _DECLARATION.match(inside) and inside.endswith(";") and len(head) + len(inside) < 100:
        lines[at:] = [Line.of(f"{head} {inside}", _span(lines[at + 1]))]
