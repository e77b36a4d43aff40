"""The text of one launch as it grows: nested scopes of statements, and declarations that move to the scope they belong to.

A scope begins where variables get values: the launch itself, a loop body, a named Let. Pointers that depend on those
variables are declared at its top, once, however deep the access that needs them: HOIST_TO_OWNER. That keeps inner loops
free of index arithmetic and gives compilers plain strided accesses. A named value that a loop does not change is named before
it, so that pointers made of it are, too: BEFORE_LOOPS. It goes no further out, where it would take a register for longer.
Of a loop that compilers unroll wholly, pointers that depend on its variable are an array before the loops around it that do
not change them, one for each iteration: ARRAYS. Compilers keep the parts of a swizzled address and add them up in each turn.
So are quotients by sizes that are surely positive (`early_quotients`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from ....dsl.index.expr import Atom, Expr, Fn, Var
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ...name_mangling import NameSupply, stem
from .c_text import line_of
from .c_tree import Assign, Block, Declaration, Directive, ExprStatement, For, If, Statement
from .early_quotients import EarlyQuotients, is_risky
from .index_printer import IndexPrinter

_S = TypeVar("_S", bound=Statement)
MOST_SHORT = 100  # characters: of an `if` or a loop in one line, without its indentation [limit]
MOST_POINTERS = 4  # pointers: of an array, a register each; more leave too few to those that are in flight [limit]

Around = Callable[[list[Statement]], Statement]  # a statement around a body


@dataclass(frozen=True)
class UnrolledLoop:
    """A loop that compilers unroll wholly, from 0 in steps of 1; `directive` tells them to. `cells`: it numbers registers."""

    var: Var
    turns: int
    directive: Directive
    cells: bool


class TextScope:
    def __init__(self, tag: str, repeats: bool = False, unrolled: UnrolledLoop | None = None) -> None:
        self.tag = tag  # names the pointers declared here
        self.repeats = repeats  # the body of a loop of the program; BEFORE_LOOPS
        self.unrolled = unrolled  # which loop, if it is unrolled; ARRAYS
        self.decls: list[Statement] = []
        self.body: list[Statement] = []
        self.pointers: dict[tuple[str, tuple], str] = {}  # by what is added to which
        self.values: dict[tuple, Var] = {}  # names of values, by what they are
        self.names: list[str] = []
        self.inner: set[str] = set()  # names of blocks in it that have ended
        self.fetched: set[tuple] = set()  # lines that were asked for here
        self.quotients: dict[tuple[Fn, int], str] = {}  # names of quotients, and of arrays of so many


class SourceText:
    """Statements under construction. `outside(var)` declares a variable of the whole program where it is first used."""

    def __init__(
        self, outside: Callable[[Var], str], needs: Callable[[str], None], index: type[IndexPrinter] = IndexPrinter
    ) -> None:
        self.names = NameSupply()
        self.scopes = [TextScope("")]
        self.constants: set[Var] = set()  # same for all units and iterations: the sizes
        self.span: Span | None = None  # of the statement being printed
        self._outside = outside
        self._depth: dict[Var, int] = {}
        self._named: dict[Var, str] = {}
        self.temps = 0  # how many there are
        self.early = EarlyQuotients(self)
        self.index = index(self._name, needs, self.early.name)

    # ------------------------------------------------------------ statements and scopes

    def add(self, s: Statement) -> None:
        """A statement more, unless it assigns to a variable what that has, of which compilers warn."""
        if not (isinstance(s, Assign) and s.target == s.value and not s.op):
            self.scopes[-1].body.append(self.here(s))

    def here(self, s: _S) -> _S:
        """The statement, from the part of the schedule that is being printed."""
        return replace(s, span=self.span)

    @property
    def body(self) -> list[Statement]:
        """The statements of the innermost scope so far."""
        return self.scopes[-1].body

    def close(self) -> None:
        """Ends the text: reference cycles are broken, so that memory is freed at once, without the garbage collector."""
        self.index.close()
        self.scopes.clear()
        self.__dict__.pop("_outside")
        self.__dict__.pop("early")

    def declare(self, s: Statement, depth: int = -1) -> None:
        """A declaration at the top of a scope."""
        self.scopes[depth].decls.append(self.here(s))

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

    def begin(self, tag: str = "", *variables: Var, repeats: bool = False, unrolled: UnrolledLoop | None = None) -> int:
        """A new scope that knows `variables`, until the innermost enclosing `block` closes; how many scopes there were."""
        self.scopes.append(TextScope(tag, repeats, unrolled))
        if variables:
            again = not self._named.keys().isdisjoint(variables)
            for v in variables:
                self._depth[v] = len(self.scopes) - 1
                self._named[v] = self.fresh(v.name)
            if again:  # nothing was said of the others
                self.index.renamed()
        return len(self.scopes) - 1

    def _end(self, braces: bool = False) -> None:
        """Closes a scope; without braces of its own its names stay taken as long as the one around it."""
        scope = self.scopes.pop()
        if scope.quotients:
            self.index.renamed()
        self.scopes[-1].body += scope.decls + scope.body
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
    def block(
        self,
        around: Callable[[], Around] = lambda: Block,
        tag: str = "",
        *variables: Var,
        repeats: bool = False,
        unrolled: UnrolledLoop | None = None,
    ) -> Iterator[None]:
        """A statement around the statements that are added inside; `around` is asked for it when the variables have names."""
        saved = {v: (self._depth.get(v), self._named.get(v)) for v in variables}
        outer = self.begin(tag, *variables, repeats=repeats, unrolled=unrolled)
        made, span = around(), self.span
        yield
        self.end(outer + 1)
        scope = self.scopes[-1]
        scope.decls, scope.body = [], [replace(made(scope.decls + scope.body), span=span)]
        self._end(braces=True)
        for v, (depth, name) in saved.items():
            if depth is not None and name is not None:
                self._depth[v], self._named[v] = depth, name
                self.index.renamed()

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What is added inside is done where the `if` that was added last does not hold."""
        with self.block():
            yield
        last = self.body.pop()
        assert isinstance(last, Block)
        self.body[-1] = with_else(self.body[-1], last.body)

    def finish(self) -> list[Statement]:
        """All statements, at the end."""
        self.end(1)
        return self.scopes[0].decls + self.scopes[0].body

    # ------------------------------------------------------------ variables

    def _name(self, v: Var) -> str:
        if v not in self._named:
            self._named[v] = self._outside(v)
            self._depth[v] = 0
        return self._named[v]

    def known(self, v: Var) -> bool:
        return v in self._named

    def name_of(self, v: Var) -> str:
        """Of one that is known."""
        return self._named[v]

    def depth(self, atom: Atom | Expr) -> int:
        """The innermost scope one of whose variables the atom depends on."""
        if isinstance(atom, Var):
            return self._depth.get(atom, 0)
        return max([self._depth.get(v, 0) for v in atom.variables()], default=0)

    def constant(self, atom: Atom) -> bool:
        """Whether it consists of sizes only."""
        return atom in self.constants if type(atom) is Var else atom._variables <= self.constants  # type: ignore[union-attr]

    def same_value(self, v: Var, e: Expr) -> Var | None:
        """A variable of that meaning that has the value already: what has another name means something else."""
        key = _meaning(v, e)
        return next((found for x in reversed(self.scopes) if (found := x.values.get(key)) is not None), None)

    def name_value(self, v: Var, e: Expr, declared: Callable[[str], Statement]) -> None:
        """BEFORE_LOOPS: `v` is the name of `e` until the scope ends that it is declared in."""
        least = len(self.scopes) if any(is_risky(a) for a, _ in e.terms) else self.depth(e) + 1
        depth = next((at for at in range(least, len(self.scopes)) if self.scopes[at].repeats), len(self.scopes)) - 1
        if depth == len(self.scopes) - 1:
            depth = self.begin(self.scopes[-1].tag)
        self._set_name(v, self.fresh(v.name, depth), depth)
        self.scopes[depth].values[_meaning(v, e)] = v
        self.declare(declared(self._named[v]), depth)

    def name_again(self, v: Var, name: str) -> None:
        """`v` is what an outer scope has a name for, until the innermost enclosing block closes."""
        self._set_name(v, name, self.begin(self.scopes[-1].tag))

    def _set_name(self, v: Var, name: str, depth: int) -> None:
        again = v in self._named
        self._depth[v], self._named[v] = depth, name
        if again:
            self.index.renamed()

    # ------------------------------------------------------------ pointers

    def pointer(
        self, base: str, ctype: str, terms: Sequence[tuple[Atom, int]], arrays: bool = False
    ) -> tuple[str, list[tuple[Atom, int]]]:
        """(pointer, the rest of the terms): `base + terms`, built scope by scope, each part added where its variables become
        known. A plain multiple of one variable is left as the rest, for the index. `arrays`: pointers may be in one."""
        by_depth: dict[int, list[tuple[Atom, int]]] = {}
        here, risky = len(self.scopes) - 1, False
        for term in terms:
            atom = term[0]
            if type(atom) is Var:
                depth = self._depth.get(atom, 0)
            elif is_risky(atom) and not self.early.has_all_of(atom):
                # a symbolic divisor may be zero under the guard that stands around the access: never hoisted
                depth, risky = here, True
            else:
                depth = self.depth(atom)
            if depth in by_depth:
                by_depth[depth].append(term)
            else:
                by_depth[depth] = [term]
        name = self._of_array(base, ctype, by_depth) if arrays and not risky else base
        deepest = max(by_depth, default=0)
        last = by_depth.get(deepest, [])
        rest = by_depth.pop(deepest) if len(last) == 1 and type(last[0][0]) is Var else []
        for depth in sorted(by_depth):
            name = self._declared(base, ctype, depth, name, tuple(by_depth[depth]), risky and depth == here)
        return name, rest

    def _declared(
        self, base: str, ctype: str, depth: int, name: str, part: tuple[tuple[Atom, int], ...], late: bool = False
    ) -> str:
        """`name + part`, declared in a scope."""
        scope = self.scopes[depth]
        found = scope.pointers.get((name, part))
        if found is None:
            found = self.fresh(f"{base}_{scope.tag}" if scope.tag else base, depth)
            made = self.here(Declaration(ctype, found, self._plus(name, part)))
            # a scope that is still only declarations may grow; a risky part stands right before its use
            (scope.body if late else scope.decls).append(made)
            scope.pointers[name, part] = found
        return found

    def _of_array(self, base: str, ctype: str, by_depth: dict[int, list[tuple[Atom, int]]]) -> str:
        """ARRAYS: the element for this iteration, without what `by_depth` then still has; `base` if there is no such array."""
        deepest = max(by_depth)
        loop = self.scopes[deepest].unrolled
        moved = tuple((a, c) for a, c in by_depth[deepest] if not isinstance(a, Var))
        if loop is None or not loop.cells or not moved or loop.turns > MOST_POINTERS:
            return base
        own = max((self._depth.get(v, 0) for a, _ in moved for v in a.variables() if v != loop.var), default=0)
        first = next((at for at in range(own + 1, deepest) if self.scopes[at].repeats), None)
        if first is None:
            return base
        outer = [depth for depth in sorted(by_depth) if depth < first]
        rest = [t for depth, terms in by_depth.items() if depth >= first for t in terms if t not in moved]
        if len(rest) > 1 or not all(isinstance(a, Var) for a, _ in rest):
            return base  # the loops around it would add more to each pointer than they save
        name = base
        for depth in outer:
            name = self._declared(base, ctype, depth, name, tuple(by_depth[depth]))
        by_depth.clear()
        if rest:
            by_depth[deepest] = rest
        return f"{self._array(base, ctype, first - 1, name, moved, loop)}[{self._named[loop.var]}]"

    def _array(
        self, base: str, ctype: str, depth: int, name: str, part: tuple[tuple[Atom, int], ...], loop: UnrolledLoop
    ) -> str:
        """`name + part` for each iteration of a loop, in a scope around it."""
        scope, i, value = self.scopes[depth], self._named[loop.var], self._plus(name, part)
        key = name, (value, i, loop.turns)
        if key not in scope.pointers:
            made = scope.pointers[key] = self.fresh(f"{base}_{i}", depth)
            scope.decls += map(self.here, self.filled(ctype, made, depth, value, loop))
        return scope.pointers[key]

    def filled(self, ctype: str, name: str, depth: int, value: str, loop: UnrolledLoop) -> tuple[Statement, ...]:
        """An array with a value for each iteration, in a scope around the loop."""
        i = self._named[loop.var]
        self.scopes[depth].inner.add(i)
        fill = For("int", i, "0", str(loop.turns), "1", [Assign(f"{name}[{i}]", value)])
        return Declaration(ctype, name, sizes=(str(loop.turns),)), loop.directive, join_short(fill)

    def drop_pointers(self, gone: Sequence[Statement]) -> None:
        """Pointers that these statements declare are unknown from here on: they were thrown away, or stand in a block."""
        scope = self.scopes[-1]
        declared = {s.name for s in gone if isinstance(s, Declaration)}
        if not declared.isdisjoint(scope.pointers.values()):
            scope.pointers = {key: name for key, name in scope.pointers.items() if name not in declared}

    def _plus(self, name: str, part: tuple[tuple[Atom, int], ...]) -> str:
        text = self.index.terms(part, 0)
        return f"{name} - {text[1:]}" if text.startswith("-") and " " not in text else f"{name} + {text}"


def _meaning(v: Var, e: Expr) -> tuple:
    return stem(v.name), v.lo, v.hi, e


def with_else(s: Statement, orelse: Sequence[Statement]) -> If:
    """The `if` with what is done where it does not hold: a block alone is its statements."""
    assert isinstance(s, If)
    assert not s.orelse
    match orelse:
        case [Block(head="", footer="}") as alone]:
            orelse = alone.body
    return replace(s, orelse=orelse)


def join_short(s: Statement) -> Statement:
    """An `if` or a loop of one short statement: in one line."""
    match s:
        case If(body=[(Assign() | ExprStatement(brief=True)) as only], orelse=()):
            return replace(s, short=len(f"if ({s.condition})") + len(line_of(only)) < MOST_SHORT)
        case For(body=[Assign() | ExprStatement(note="")]):
            short = replace(s, short=True)
            return short if len(line_of(short)) <= MOST_SHORT else s
    return s
