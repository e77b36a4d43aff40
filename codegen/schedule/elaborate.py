"""From a schedule as written to lines for lowering: parameters and strategies expanded, roles resolved, sizes as numbers.

apply stage(A, 3)   -->   move A -> shared swizzle pipeline 3
tile m: BM          -->   tile m: 128
move A              -->   move X          (the schedule is for gemm, the op is linear, X plays A)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from ...dsl import syntax
from ...dsl.errors import Diagnostics, UserError, did_you_mean
from ...dsl.errors.base import Label
from ...dsl.errors.schedule import (
    BadArrange,
    BadParam,
    BadTileSize,
    NameClash,
    StrategyArguments,
    StrategyRecursion,
    TooManyLines,
    UnknownStrategy,
    UnusedParam,
)
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.ops.index_syntax import index_term
from ...dsl.support.fast_replace import replace

Env = dict[str, syntax.Expr]
MOST_LINES = 2000  # lines: of a schedule whose strategies are expanded [limit]
MOST_BELOW = 64  # lines: one below the other for one launch, because lowering recurses with each [limit]
MOST_NESTED = 20  # strategies: that apply each other [limit]
MOST_TILES = 12  # tiles: of one index, because each may have an edge inside those above [limit]


@dataclass(frozen=True)
class RoleNames:
    """How a schedule's names map to the op's: tensors and indices."""

    names: tuple[tuple[str, str], ...] = ()
    fuses: tuple[syntax.Fuse | syntax.Tile, ...] = ()  # where an index of the schedule is several of the op's; batches

    def of(self, name: str) -> str:
        return dict(self.names).get(name, name)


def elaborate(
    decl: syntax.ScheduleDecl,
    strategies: Mapping[str, syntax.StrategyDecl],
    roles: RoleNames = RoleNames(),
    params: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    taken: Mapping[str, str] | None = None,
    diagnostics: Diagnostics | None = None,
) -> tuple[syntax.Line, ...]:
    """The schedule's lines with everything resolved that does not need the device. `auto` stays.

    `params` chooses values of the schedule's own parameters; `sizes` gives sizes and op parameters that lines may name;
    `taken` says what the names are that a parameter would hide. Raises UserErrors, unless `diagnostics` is given to add to.
    """
    collected = diagnostics if diagnostics is not None else Diagnostics()
    env: Env = {k: syntax.Num(v) for k, v in (sizes or {}).items()}
    elaboration = _Elaboration(strategies, roles, dict(params or {}), collected)
    elaboration.taken = dict(taken or {})
    lines = elaboration.block(decl.lines, env, ())
    if elaboration.count > MOST_LINES and elaboration.top is not None:
        help = "leave lines to completion, which adds what is missing, or give parts of the op schedules of their own"
        message = f"`{decl.name}` has more than {MOST_LINES} lines after its strategies are expanded"
        collected.add(TooManyLines(message, elaboration.top.span, help=help))
        collected.raise_if_any()
    _refuse_many_tiles(lines, collected)
    nested = [x for x in lines if not (isinstance(x, syntax.Keep) and x.block is not None)]
    if len(nested) > MOST_BELOW:
        message = f"`{decl.name}` has more than {MOST_BELOW} lines one below the other"
        collected.add(
            TooManyLines(message, nested[MOST_BELOW].span, help="leave lines to completion, which adds what is missing")
        )
        collected.raise_if_any()
    elaboration.report_unused()
    if diagnostics is None:
        collected.raise_if_any()
    return (*roles.fuses, *lines)


def _refuse_many_tiles(
    lines: tuple[syntax.Line, ...], diagnostics: Diagnostics, above: Mapping[str, int] | None = None
) -> None:
    """Adds TooManyLines where one index is tiled more often than any hardware has levels. `above`: how often it is already."""
    tiled = dict(above or {})
    for line in lines:
        for axis in line.axes if isinstance(line, syntax.Tile) else ():
            tiled[axis.index] = tiled.get(axis.index, 0) + 1
            if tiled[axis.index] == MOST_TILES + 1:
                message = f"`{axis.index}` is tiled more than {MOST_TILES} times"
                diagnostics.add(
                    TooManyLines(message, line.span, help="a tile for each level of units and of memories is enough")
                )
        if isinstance(line, syntax.Keep | syntax.Move) and line.block:
            launch = above is None and isinstance(line, syntax.Keep)  # its block is a nest of its own
            _refuse_many_tiles(line.block, diagnostics, {} if launch else tiled)


class _Elaboration:
    def __init__(self, strategies, roles: RoleNames, params: dict[str, int], diagnostics: Diagnostics) -> None:
        self.strategies, self.roles, self.params, self.diagnostics = strategies, roles, params, diagnostics
        self.taken: dict[str, str] = {}
        self.declared: dict[str, syntax.Param] = {}
        self.used: set[str] = set()
        self.count = 0  # lines so far, strategies written out; an `apply` is one, so that those of nothing end, too
        self.top: syntax.Line | None = None  # the line of the schedule itself that is being worked on

    def report_unused(self) -> None:
        """Parameters that no line uses; silent where some line is wrong, which might have been the one."""
        if self.diagnostics.errors:
            return
        for name, line in self.declared.items():
            if name not in self.used:
                self.diagnostics.add(UnusedParam(f"no line uses `{name}`", line.span, help="use it, or leave the line out"))

    def declare(self, line: syntax.Param) -> None:
        before = self.declared.get(line.name)
        if before is not None:
            labels = [Label(before.span, "first here")] if before.span else []
            message = f"`{line.name}` is a parameter already"
            self.diagnostics.add(NameClash(message, line.span, labels=labels, help="rename one of them"))
        self.declared[line.name] = line
        if line.name in self.taken:
            help = "give the parameter a name of its own"
            self.diagnostics.add(NameClash(f"`{line.name}` is {self.taken[line.name]} already", line.span, help=help))

    def block(self, lines: tuple[syntax.Line, ...], env: Env, stack: tuple[str, ...]) -> tuple[syntax.Line, ...]:
        out: list[syntax.Line] = []
        env = dict(env)
        for line in lines:
            self.top = line if not stack else self.top
            self.count += 1
            if self.count > MOST_LINES:
                break
            try:
                match line:
                    case syntax.Param():
                        self.declare(line)
                        env[line.name] = syntax.Num(self.parameter(line, env))
                    case syntax.Apply():
                        out += self.apply(line, env, stack)
                    case _:
                        out.append(self.line(line, env, stack))
            except UserError as e:
                self.diagnostics.add(e)
        return tuple(out)

    def parameter(self, line: syntax.Param, env: Env) -> int:
        values = [self.size(v, env) for v in line.values]
        default = self.size(line.default, env) if line.default is not None else values[0]
        chosen = self.params.get(line.name, default)
        if chosen not in values:
            shown = ", ".join(map(str, values))
            message = f"{line.name} = {chosen} is not among its values"
            self.diagnostics.add(BadParam(message, line.span, help=f"they are {shown}"))
        return chosen

    def apply(self, line: syntax.Apply, env: Env, stack: tuple[str, ...]) -> tuple[syntax.Line, ...]:
        strategy = self.strategies.get(line.strategy)
        if strategy is None:
            known = did_you_mean(line.strategy, self.strategies)
            help = known or f"write one, `strategy {line.strategy}(...):`, or import the file that has it"
            raise UnknownStrategy(f"there is no strategy `{line.strategy}`", line.span, help=help)
        if line.strategy in stack:
            help = "write out the lines that are meant, where the circle closes"
            circle = " -> ".join((*stack, line.strategy))
            raise StrategyRecursion(f"`{line.strategy}` applies itself: {circle}", line.span, help=help)
        if len(stack) >= MOST_NESTED:
            message = f"more than {MOST_NESTED} strategies apply one another in a row"
            raise TooManyLines(message, line.span, help="write out the lines of some")
        names = [p for p, _ in strategy.params]
        given = dict(zip(names, line.args, strict=False))
        named = dict(line.named)
        unknown = [n for n in named if n not in names]
        missing = [p for p, d in strategy.params if p not in given and p not in named and d is None]
        twice = [n for n in named if n in given]
        if len(line.args) > len(names) or unknown or missing or twice:
            help = f"`apply {line.strategy}({', '.join(n if d is None else f'{n} = ...' for n, d in strategy.params)})`"
            what = f"it takes {', '.join(names) or 'nothing'}" + (f"; {missing[0]} is missing" if missing else "")
            raise StrategyArguments(f"`{line.strategy}` is applied to the wrong arguments: {what}", line.span, help=help)
        inner: Env = {}
        for p, default in strategy.params:
            value = named.get(p, given.get(p, default))
            assert value is not None
            inner[p] = self.argument(value, env)
        outer = {k: v for k, v in env.items() if k not in inner}
        return self.block(strategy.lines, {**outer, **inner}, (*stack, line.strategy))

    def argument(self, value: syntax.Expr, env: Env) -> syntax.Expr:
        """A name stays a name (of a tensor, an index, a memory) unless it is a parameter here; sizes are computed."""
        if isinstance(value, syntax.Name):
            self.used.add(value.id)
            return env.get(value.id, value)
        return syntax.Num(self.size(value, env))

    # ------------------------------------------------------------ lines

    def line(self, line: syntax.Line, env: Env, stack: tuple[str, ...]) -> syntax.Line:
        match line:
            case syntax.Tile():
                axes = tuple(self.axis(a, env) for a in line.axes)
                level = self.word(line.level, env) if line.level else None
                return replace(line, axes=axes, level=level, modifiers=self.modifiers(line, env))
            case syntax.Move():
                view = tuple(self.name(n, env) for n in line.view) if line.view is not None else None
                return replace(
                    line, tensor=self.name(line.tensor, env), memory=self.word(line.memory, env) if line.memory else None,
                    view=view, modifiers=self.modifiers(line, env), block=self.nested(line.block, env, stack),
                )  # fmt: skip
            case syntax.Keep():
                return replace(
                    line, tensors=tuple(self.name(t, env) for t in line.tensors),
                    memory=self.word(line.memory, env) if line.memory else None,
                    modifiers=self.modifiers(line, env), block=self.nested(line.block, env, stack),
                )  # fmt: skip
            case syntax.Inline():
                return replace(line, tensors=tuple(self.name(t, env) for t in line.tensors))
            case syntax.Fuse():
                return replace(line, indices=tuple(self.name(i, env) for i in line.indices), name=line.name)
            case syntax.Compute():
                instr = self.word(line.instr, env) if isinstance(line.instr, str) else line.instr
                return replace(line, instr=instr, modifiers=self.modifiers(line, env))
        return line

    def nested(self, block, env: Env, stack):
        return None if block is None else self.block(block, env, stack)

    def axis(self, a: syntax.TileAxis, env: Env) -> syntax.TileAxis:
        size = a.size if isinstance(a.size, syntax.Auto) else syntax.Num(self.size(a.size, env, a), span=a.span)
        every = None if a.every is None else syntax.Num(self.size(a.every, env, a), span=a.span)
        return replace(a, index=self.name(a.index, env), size=size, every=every)

    def modifiers(self, line: Any, env: Env) -> tuple[syntax.Modifier, ...]:
        return tuple(self.modifier(m, env) for m in line.modifiers)

    def modifier(self, m: syntax.Modifier, env: Env) -> syntax.Modifier:
        if m.name == "layout":
            maps = tuple((self.name(i, env), syntax.Num(self.size(e, env))) for i, e in m.maps)
            return replace(m, values=tuple(self.renamed(v, env) for v in m.values), maps=maps)
        if m.name == "arrange":
            return replace(m, maps=tuple((self.name(i, env), e) for i, e in m.maps))
        if m.name == "order":
            return replace(m, words=tuple(self.name(w, env) for w in m.words))
        if m.name == "with":
            return replace(m, words=tuple(self.word(w, env) for w in m.words))
        values = tuple(v if isinstance(v, syntax.Auto) else syntax.Num(self.size(v, env)) for v in m.values)
        return replace(m, values=values)

    def renamed(self, e: Any, env: Env) -> Any:
        """Names inside a layout's digits."""
        if isinstance(e, syntax.Name):
            found = env.get(e.id)
            self.used.add(e.id)
            return found if isinstance(found, syntax.Num) else replace(e, id=self.name(e.id, env))
        if is_dataclass(e) and not isinstance(e, type):
            kids = {f.name: self.renamed(getattr(e, f.name), env) for f in fields(e) if f.name in ("left", "right", "operand")}
            return replace(e, **kids) if kids else e
        return e

    # ------------------------------------------------------------ names and sizes

    def word(self, name: str, env: Env) -> str:
        """A level, memory or instruction, perhaps passed to a strategy."""
        found = env.get(name)
        self.used.add(name)
        return found.id if isinstance(found, syntax.Name) else name

    def name(self, name: str, env: Env) -> str:
        """A tensor or an index: a strategy's argument first, then the role it plays."""
        return self.roles.of(self.word(name, env))

    def size(self, e: Any, env: Env, at: Any = None) -> int:
        table = {k: as_expr(int(v.value)) for k, v in env.items() if isinstance(v, syntax.Num)}
        self.used |= _names(e)
        value = index_term(e, table).constant
        if value is None or value <= 0:
            span = getattr(e, "span", None) or getattr(at, "span", None)
            shown = value if value is not None else getattr(span, "text", "this")
            raise BadTileSize(f"`{shown}` is no size", span, help="sizes are integers from 1 on")
        if value >= 1 << 31:
            span = getattr(e, "span", None) or getattr(at, "span", None)
            raise BadTileSize(f"`{value}` is too large for a tile", span, help="sizes are below 2**31")
        return value


def _names(e: Any) -> set[str]:
    if isinstance(e, syntax.Name):
        return {e.id}
    if is_dataclass(e) and not isinstance(e, type):
        kids = [x for f in fields(e) for v in (getattr(e, f.name),) for x in (v if isinstance(v, tuple) else (v,))]
        return {n for k in kids if isinstance(k, syntax.Node) for n in _names(k)}
    return set()


def arranged(m: syntax.Modifier, index: str, number: Expr) -> Expr:
    """The tile of `index` that unit `number` takes, by an `arrange u: m = ..., n = ...`."""
    unit = m.words[0]
    for name, e in m.maps:
        if name == index:
            return index_term(e, {unit: as_expr(Var("$unit"))}).subs({Var("$unit"): number})
    raise BadArrange(f"`arrange` has no map for `{index}`", m.span, help=f"add `{index} = ...`")
