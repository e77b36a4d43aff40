"""Statements as text: the walk over a launch's body that all dialects share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...dsl.device import Operand
from ...dsl.errors import InternalError
from ...dsl.index.expr import Expr, Var, as_expr, maximum, minimum
from ...dsl.source import Span
from ...dsl.support.fast_replace import replace
from ...dsl.values import Load
from ..ir.tile_ir import Alloc, AllReduce, Barrier, Call, Commit, For, If, Let, Piece, Stmt, Store, Wait
from .atomic_stores import store_atomic
from .c.c_expr import COMPARE
from .c.c_text import printable
from .c.c_tree import Block, Comment, Declaration, Directive, ExprStatement, Statement
from .c.c_tree import For as CFor
from .c.c_tree import If as CIf
from .c.text_builder import Around, TextScope, UnrolledLoop, join_short, with_else
from .c.unrolling import constant_trips, unroll_factor
from .cpu.lane_reduction import all_reduce
from .cpu.masked_access import can_be_masked, lane_count, store_first_lanes
from .cpu.steps_of_vectors import store_by_steps
from .emission_context import EmissionContext, PrintedLoop
from .instr_operands import instr_name, operand_arguments
from .lane_analysis import LaneRegister, any_varies, value_varies
from .load_store import store
from .partial_lanes import FirstLanes
from .register_declarations import declarations, declare_where_set
from .value_printer import ValuePrinter


class StatementPrinter:
    """`barrier(level)` gives the statements of a barrier; `local(buffer)` declares the pointer of a local buffer in memory."""

    def __init__(
        self, ctx: EmissionContext, barrier: Callable[[Barrier], list[Statement]], local: Callable[[Alloc], None]
    ) -> None:
        self.ctx = ctx
        self.values = ValuePrinter(ctx)
        self._barrier, self._local = barrier, local
        self._instrs = {i.name: i for i in ctx.program.instrs}
        self._shown: set[tuple[int, int]] = set()
        self._inside: set[str] = set()  # registers made where only a part of the lanes goes
        self._repeats = 1  # iterations of the unrolled loops around: what is being printed has so many copies

    def block(self, stmts: Sequence[Stmt]) -> None:
        text = self.ctx.text
        around = text.span
        for s in stmts:
            # what stands below an allocation is not all of its part of the schedule
            text.span = around if isinstance(s, Alloc) else s.span or around
            self._statement(s)
        text.span = around

    def _statement(self, s: Stmt) -> None:
        match s:
            case For():
                self._for(s)
            case Let():
                self._let(s)
            case If():
                self._if(s)
            case Alloc():
                self._alloc(s)
            case Store():
                shared = self.ctx.sub_vectors > 1 and self._varies(s)
                if not shared:
                    self._store(s)
                elif not store_by_steps(self.ctx, lambda v: self.values.splat(self.values.value(v)), s, self._store):
                    self._by_shares(lambda s=s: self._store(s))
            case Call():
                self._call(s)
            case AllReduce():
                self._all_reduce(s)
            case Barrier():
                for one in self._barrier(s):
                    self.ctx.text.add(one)
            case Commit():
                self._commit(s)
            case Wait():
                self._wait(s)

    # ------------------------------------------------------------ what a dialect may do otherwise

    def _all_reduce(self, s: AllReduce) -> None:
        all_reduce(self.ctx, s)

    def _commit(self, s: Commit) -> None:
        raise InternalError(f"asynchronous copies of kind {s.kind} have no meaning here")

    def _wait(self, s: Wait) -> None:
        raise InternalError(f"asynchronous copies of kind {s.kind} have no meaning here")

    def _is_written_out(self, s: For) -> bool:
        """Whether the iterations of a loop of constant trip count are printed one by one."""
        return s.var in self.ctx.lanes.unrolled

    def _unroll_count(self, s: For) -> int | None:
        """How often compilers shall unroll a loop, 0: wholly; None if they may choose."""
        count = unroll_factor(self.ctx, s, self._repeats)
        return None if count == 1 else count

    def _unroll_directive(self, count: int) -> Directive:
        """The line before a loop that tells them."""
        self.ctx.need("unroll")
        return Directive(f"m_unroll({min(count, 64)})")

    # ------------------------------------------------------------ where it comes from

    def _comment(self, span: Span | None) -> None:
        """The line of the schedule, once."""
        if span is None:
            return
        at = (id(span.source), span.start)  # lines that were filled in twice, for two kernels, have one name
        if at not in self._shown:
            self._shown.add(at)
            # Neither its file nor its number: an explicit schedule, fed back, gives this very text.
            said = span.said or " ".join(span.text.split("\n")[0].split("#")[0].split())
            self.ctx.text.add(Comment(printable(said.removesuffix(":"))))

    # ------------------------------------------------------------ loops and names

    def _for(self, s: For) -> None:
        ctx, text = self.ctx, self.ctx.text
        start, stop, step = ctx.substitute(s.start), ctx.substitute(s.stop), ctx.substitute(s.step)
        trips = constant_trips(start, stop, step)
        if trips == 0:
            return
        self._comment(s.span)
        if trips == 1 or (trips is not None and self._is_written_out(s)):
            first = [start + step * i for i in range(trips)] if start.terms else None
            return self._iterations(s, first or [as_expr(start.const + i * step.const) for i in range(trips)])
        if any(ctx.varies(e) for e in (start, stop, step)):
            return self._by_shares(lambda: self._varying_for(s))
        mark = len(text.body)
        count = self._unroll_count(s)
        directive = None if count is None else self._unroll_directive(count)
        if directive is not None:
            text.add(directive)

        def head() -> Around:
            i = text.index.atom(s.var, 0)
            by = text.index.text(step)
            last = as_expr(s.var) if step.constant is None else s.var + step
            kind = ctx.int_type(s.var, last)
            return partial(CFor, kind, i, text.index.text(start), text.index.text(stop), by)

        old = ctx.known.values.pop(s.var, None)
        ctx.loops.append(PrintedLoop(s.var, step.constant or 0, stop, {s.var}))
        copies = trips if trips is not None and s.var in ctx.lanes.unrolled else 1
        self._repeats *= copies
        unrolled = None
        if directive is not None and count in (0, trips) and trips is not None and start.constant == 0 and step.constant == 1:
            unrolled = UnrolledLoop(s.var, trips, directive, s.var in ctx.lanes.unrolled)
        with ctx.known.assuming_unknown(s.var), text.block(head, s.var.name, s.var, repeats=True, unrolled=unrolled):
            self.block(s.body)
        self._repeats //= copies
        ctx.loops.pop()
        match text.body[-1]:
            case CFor(body=[]):
                del text.body[mark:]
        if old is not None:
            ctx.known.values[s.var] = old

    def _iterations(self, s: For, values: list[Expr]) -> None:
        """A loop that is unrolled."""
        env, var = self.ctx.known.values, s.var
        old = env.get(var)
        self._repeats *= len(values)
        for value in values:
            env[var] = value
            self._scoped(s.body)
        self._repeats //= len(values)
        if old is None:
            del env[var]
        else:
            env[var] = old

    def _varying_for(self, s: For) -> None:
        """for (i = start(lane); i < stop; i += step)  -->  for (b = first start; b < stop; b += step) { if (i < stop) ... }
        with i = b + (start(lane) - first start); the other loops over unit numbers are like it."""
        ctx, width = self.ctx, self.ctx.width
        start, stop = ctx.substitute(s.start), ctx.substitute(s.stop)
        if ctx.varies(ctx.substitute(s.step)):
            raise InternalError(f"the step of the loop over {s.var} differs between lanes")
        first = minimum(*(ctx.at_lane(start, i) for i in range(width)))
        last = maximum(*(ctx.at_lane(stop, i) for i in range(width)))
        base = Var(f"{s.var.name}_first", s.var.lo, s.var.hi)
        here = base + (s.start - first)
        inner = For(base, first, last, s.step, (Let(s.var, here), If((s.stop - 1 - here,), s.body)), s.unroll)
        self._for(inner)

    def _let(self, s: Let) -> None:
        """Sums are substituted where they are used, so that addresses contain their terms; other names become variables."""
        ctx, text = self.ctx, self.ctx.text
        e = ctx.substitute(s.value)
        if ctx.varies(e) or self._seen_through(s, e):
            ctx.known.values[s.var] = ctx.known.substitute(s.value)  # the lane as the program counts it
            return
        ctx.known.values.pop(s.var, None)
        if (same := text.same_value(s.var, e)) is not None:
            if same != s.var:
                ctx.known.values[s.var] = as_expr(same)
            return
        ctx.name_in_loops(s.var, e)
        # a declaration like the pointers of this scope, before those that use it
        shown, kind = text.index.text(e), ctx.int_type(s.var, e)
        text.name_value(s.var, e, lambda name: Declaration(kind, name, shown, const=True))

    def _seen_through(self, s: Let, e: Expr) -> bool:
        return all(isinstance(a, Var) for a, _ in e.terms)

    # ------------------------------------------------------------ choices

    def _if(self, s: If) -> None:
        ctx, text = self.ctx, self.ctx.text
        conds = ctx.live(s.conds)
        if not conds:
            return self._scoped(s.body)
        if not conds[0].terms and conds[0].const < 0:
            return self._scoped(s.orelse)
        if not any(ctx.varies(e) for e in conds):
            return self._plain_if(conds, s)
        if store_first_lanes(ctx, s, conds, self._store):
            return None
        same = [e for e in conds if not ctx.varies(e)]
        if same and not s.orelse:
            with text.block(lambda: partial(CIf, ctx.condition(same))):
                self._varying_if(s)
        else:
            self._varying_if(s)

    def _plain_if(self, conds: list[Expr], s: If) -> None:
        text = self.ctx.text
        with text.block(lambda: partial(CIf, self.ctx.condition(conds))):
            self.block(s.body)
        if s.orelse:
            with self.ctx.known.assuming_false(conds), text.otherwise():
                self.block(s.orelse)
            return
        last = text.body.pop()
        if isinstance(last, CIf) and last.body:
            text.body.append(join_short(last))

    def _varying_if(self, s: If) -> None:
        """Whole vectors if all lanes take part, as is common; else the first lanes, if only those do, or lane by lane."""
        ctx, text = self.ctx, self.ctx.text
        conds = ctx.live([e for e in s.conds if s.orelse or ctx.varies(ctx.substitute(e))])
        whole = ctx.in_all_lanes(conds)
        count = ctx.prefix(conds) if not s.orelse else None
        if count is not None and count.constant == 1:  # what lane 0 does for all
            with ctx.one_lane(0):
                return self._scoped(s.body)
        count = count if can_be_masked(ctx, self.values.has_masked_value, s.body) else None
        if whole is not None and not whole:
            return self._scoped(s.body)
        if ctx.sub_vectors > 1 and ctx.sub_vector is None:
            return self._if_by_shares(s, whole, ctx.prefix(conds) if not s.orelse else None)
        if whole and not whole[0].terms:  # never in all lanes
            whole = None
        if whole:
            with text.block(lambda: partial(CIf, ctx.condition(whole))):
                self.block(s.body)
        if count is not None:
            part = lane_count(ctx, count)
            with ctx.masked(FirstLanes(part)), text.block(lambda: partial(CIf, f"{part.at(COMPARE + 1)} > 0")):
                self.block(s.body)
            if whole:
                other = text.body.pop()
                text.body[-1] = with_else(text.body[-1], [other])
        elif whole:
            with text.otherwise():
                self._lane_by_lane(s)
        else:
            self._lane_by_lane(s)

    def _if_by_shares(self, s: If, whole: list[Expr] | None, count: Expr | None) -> None:
        """As `_varying_if`, if the lanes need several vectors: each of them by itself, unless all lanes take part."""
        ctx, text = self.ctx, self.ctx.text
        if count is not None and count.constant == 1:
            with ctx.one_lane(0):
                return self._scoped(s.body)
        rest = s if s.orelse else replace(s, conds=tuple(e for e in s.conds if ctx.varies(ctx.substitute(e))))
        if not whole or not whole[0].terms:
            return self._by_shares(lambda: self._if(rest))
        with text.block(lambda: partial(CIf, ctx.condition(whole))):
            self.block(s.body)
        with ctx.known.assuming_false(whole), text.otherwise():
            self._by_shares(lambda: self._if(rest))

    def _by_shares(self, f: Callable[[], None]) -> None:
        """For each vector of lanes, one after another; once, if there is one, or one is being printed, or one lane."""
        if self.ctx.sub_vectors == 1 or self.ctx.sub_vector is not None or self.ctx.in_lane:
            return f()
        for share in range(self.ctx.sub_vectors):
            with self.ctx.in_sub_vector(share):
                f()

    def _lane_by_lane(self, s: If) -> None:
        with self.ctx.each_lane():
            self._if(s)

    def _scoped(self, stmts: Sequence[Stmt]) -> None:
        outer = self.ctx.text.begin()
        self.block(stmts)
        self.ctx.text.end(outer)

    # ------------------------------------------------------------ buffers

    def _alloc(self, s: Alloc) -> None:
        ctx, text = self.ctx, self.ctx.text
        register = ctx.lanes.registers.get(s.buffer.name)
        if register is None:
            self._local(s)
            return self._scoped(s.body)
        match s.body:
            case (If(orelse=()) as choice,) if register.named and not ctx.in_lane:  # what only lanes inside have
                return self._if(replace(choice, body=(replace(s, body=choice.body),)))
        if s.outlined:
            ctx.need("outlined")
            with text.block(lambda: partial(Block, head="[=]() m_outlined", footer="}();")):
                return self._register(s, register)
        self._register(s, register)

    def _register(self, s: Alloc, register: LaneRegister) -> None:
        ctx, text = self.ctx, self.ctx.text
        if ctx.mask is not None:
            self._inside.add(s.buffer.name)
        at = text.begin()
        scope = text.scopes[at]
        ctx.declare_register(s.buffer)
        if not register.named:
            with ctx.in_sub_vector(0):
                kind = ctx.register_type(s.buffer, not register.uniform)
            size = ctx.substitute(s.buffer.size) * (1 if register.uniform else ctx.sub_vectors)
            scope.decls.append(Declaration(kind, ctx.emitted_names[s.buffer.name], sizes=(text.index.text(size),)))
        self.block(s.body)
        loop = ctx.lane_loop
        if register.named and loop is not None and loop.fixed is None and not register.uniform:
            loop.declare(ctx.cells[s.buffer.name].values())
        elif register.named:
            self._declare_cells(s.buffer.name, text.scopes[at:])
        text.end(at)

    def _declare_cells(self, name: str, scopes: Sequence[TextScope]) -> None:
        """The declarations of a named register's cells that were used, in the first of the scopes that know them."""
        declare_where_set(self.ctx, name, scopes)
        scopes[0].decls[:0] = declarations(self.ctx, name)

    def _varies(self, s: Store) -> bool:
        """Whether lanes store different values, or to different addresses."""
        lanes = self.ctx.lanes
        differs = {name for name, r in lanes.registers.items() if not r.uniform}
        coords = any_varies(s.coords, lanes.varying)
        return coords or s.buffer in differs or value_varies(s.value, lanes.varying, differs)

    def _store(self, s: Store) -> None:
        ctx = self.ctx
        register = ctx.lanes.registers.get(s.buffer)
        dtype = register.buffer.dtype if register else ctx.buffers[s.buffer].dtype
        ctx.copies_only = isinstance(s.value, Load)
        value = self.values.stored(s.value, dtype, register is not None)
        if register is not None and ctx.mask is not None and s.buffer not in self._inside:
            value = self.values.first_lanes(value, Load(s.buffer, s.coords, dtype))
        if s.atomic is None:
            return store(ctx, s.buffer, s.coords, value, s.using)
        if register or dtype.compute != dtype:
            raise InternalError(f"an atomic store to {s.buffer}, which is {dtype}{' in registers' if register else ''}")
        store_atomic(ctx, s, s.atomic, value)

    # ------------------------------------------------------------ instructions

    def _call(self, s: Call) -> None:
        ctx = self.ctx
        instr = self._instrs[s.instr]
        if ctx.in_lane:
            raise InternalError(f"{s.instr} stands in divergent control flow, but all lanes share its operands")
        args: list[str] = []
        after: list[Statement] = []
        for piece, operand in zip(s.pieces, instr.operands, strict=True):
            args += self._arguments(piece, operand, after)
        ctx.need(f"instr:{instr.name}", "", True)
        for one in (ExprStatement(f"{instr_name(instr)}({', '.join(args)})"), *after):
            ctx.text.add(one)

    def _arguments(self, piece: Piece, operand: Operand, after: list[Statement]) -> list[str]:
        """An operand as arguments; `after`: what stores results that cannot be passed by reference."""
        return operand_arguments(self.ctx, piece, operand)
