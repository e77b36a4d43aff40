"""Value expressions as C text, for one unit or for all lanes at once.

Each node becomes a `CExpr` of its compute type. Uniform operands stay scalar as long as possible: `x * 2.0f` broadcasts by
itself. A value that some lanes must not evaluate (`Masked`) becomes a conditional expression, or a statement before the one
being printed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...dsl.errors import InternalError
from ...dsl.index.expr import Expr
from ...dsl.support.fast_replace import replace
from ...dsl.types import DType
from ...dsl.values import COMPARISONS, Apply, Cast, Const, IndexValue, Load, Masked, Value, walk
from .c.c_expr import (
    AND,
    ATOM,
    BOOL,
    COMPARE,
    I64,
    OR,
    PRODUCT,
    SUM,
    TERNARY,
    UNARY,
    CExpr,
    is_converted,
    literal,
    storage,
)
from .c.c_tree import Assign, Declaration, If
from .c.conversions import Conversions, in_64_bits, is_int_in_c
from .c.text_builder import with_else
from .cpu.lane_masks import compare_lanes, compare_with_zero, is_maskable, lane_mask
from .cpu.masked_access import (
    first_lane_count,
    is_zero,
    lane_bounds,
    lane_count,
    loads_each_lane,
    loads_one_element,
    merge_conditions,
)
from .lane_analysis import compares_indices
from .load_store import has_masked_form, lane_step, load, splat
from .partial_lanes import ChosenLanes, FirstLanes, LaneRange

_OVERFLOWING = ("add", "sub", "mul", "neg")
_INFIX = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
_LOGIC = {"and": ("&&", "&", AND), "or": ("||", "|", OR)}


class ValuePrinter(Conversions):
    # ------------------------------------------------------------ entry points

    def value(self, v: Value) -> CExpr:
        """A value in its compute type."""
        match v:
            case Const():
                text = literal(v.value, v.dtype.compute)
                return CExpr(text, v.dtype.compute, precedence=UNARY if text[0] == "-" else ATOM)
            case IndexValue():
                return self._index(v)
            case Load():
                text, vector = load(self.ctx, v.tensor, v.indices)
                return self.from_storage(text, vector, self._dtype(v), v.tensor in self.ctx.lanes.registers)
            case Cast():
                return self._cast(v)
            case Apply():
                return self.ctx.ready.get(id(v)) or self._apply(v)
            case Masked():
                return self._masked(v, self.value)
        raise InternalError(f"{type(v).__name__} has no C text")

    def stored(self, v: Value, dtype: DType, register: bool) -> CExpr:
        """A value as the bits that a buffer of `dtype` holds; no detour where they are at hand already."""
        match v:
            case Load() if self._dtype(v) == dtype and is_converted(dtype) and dtype.kind != "bool":
                text, vector = load(self.ctx, v.tensor, v.indices)
                return CExpr(text, dtype, vector)
            case Masked() if is_converted(dtype) and dtype.kind != "bool":
                return self._masked(v, lambda x: self.stored(x, dtype, register))
            case Cast() if v.dtype == dtype and _plain_cast(v):
                if v.arg.dtype == dtype:
                    return self.stored(v.arg, dtype, register)
                if isinstance(v.arg, Load) and _widens(self._dtype(v.arg), dtype):
                    text, vector = load(self.ctx, v.arg.tensor, v.arg.indices)
                    wide = f"__builtin_convertvector({text}, {self.ctx.element(storage(dtype), True)})" if vector else text
                    return CExpr(wide, dtype, vector)
                return self.to_storage(self.value(v.arg), dtype, register)
        return self.to_storage(self.value(v), dtype, register)

    def _dtype(self, v: Load) -> DType:
        register = self.ctx.lanes.registers.get(v.tensor)
        return register.buffer.dtype if register else self.ctx.buffers[v.tensor].dtype

    # ------------------------------------------------------------ nodes

    def _cast(self, v: Cast) -> CExpr:
        arg = self.value(v.arg)
        c = self.convert(arg, v.dtype)
        if v.dtype.compute == v.dtype or v.dtype.kind == "bool" or v.arg.dtype == v.dtype:
            return c
        if v.dtype.kind == "float":
            stored = self.to_storage(c, v.dtype, False)
            return self.from_storage(stored.text, stored.vector, v.dtype, False)
        return c if arg.dtype.kind == "float" else self._wrap(c, v.dtype)

    def _index(self, v: IndexValue) -> CExpr:
        ctx = self.ctx
        e = ctx.substitute(v.expr)
        if not ctx.varies(e):
            return self.convert(CExpr(f"(int64_t){ctx.index_text(v.expr)}", I64, False, 0, UNARY), v.dtype)
        dtype = v.dtype if v.dtype.name == "i32" else I64  # what wraps may wrap at any time
        vector = ctx.element(dtype.name, True)
        step = lane_step(ctx, e)
        if step is None or step.constant is None:
            pieces = [ctx.text.index.text(ctx.at_lane(e, i)) for i in range(ctx.width)]
            return self.convert(CExpr(f"({vector}){{{', '.join(pieces)}}}", dtype, True), v.dtype)
        first = ctx.at_lane(e, 0)
        counted = f"({vector}){{{', '.join(str(first.const + step.constant * i) for i in range(ctx.width))}}}"
        rest = first - first.const
        if not rest.terms:
            return self.convert(CExpr(counted, dtype, True), v.dtype)
        start = ctx.text.index.text(rest) if dtype is I64 else f"(int32_t){ctx.text.index.text(rest, ATOM)}"
        return self.convert(CExpr(f"{splat(ctx, dtype.name, CExpr(start, dtype))} + {counted}", dtype, True, 0, SUM), v.dtype)

    def _apply(self, v: Apply) -> CExpr:
        fn, ctx = v.fn, self.ctx
        if compares_indices(v) and (told := compare_lanes(ctx, v)) is not None:
            return told
        args = [self.value(a) for a in v.args]
        vector = any(a.vector for a in args)
        if fn in _LOGIC:
            return self._logic(fn, args, vector)
        if fn == "not":
            a = args[0]
            return CExpr(f"~{a.at(UNARY)}" if vector else f"!{a.at(UNARY)}", BOOL, vector, a.mask, UNARY)
        if fn == "where":
            return self._where(args, vector)
        kind = args[0].dtype
        if fn in COMPARISONS:
            if kind.kind == "bool":
                a, b = (self.mask(x, 32) if vector else x for x in args)
            else:
                a, b = (self.splat(x) if vector else x for x in args)
            bits = (32 if kind.kind == "bool" else kind.bits) if vector else 0
            return CExpr(f"({a.at(COMPARE + 1)} {COMPARISONS[fn]} {b.at(COMPARE + 1)})", BOOL, vector, bits)
        out = v.dtype.compute
        as_function = fn in _OVERFLOWING and out.kind == "int" and not vector and not ctx.overflow_wraps
        if out == I64 and not vector and (as_function or fn not in _INFIX or all(map(is_int_in_c, v.args))):
            args = [in_64_bits(a) if is_int_in_c(x) else a for a, x in zip(args, v.args, strict=True)]
        if fn in _INFIX and (fn != "div" or out.kind == "float") and not as_function:
            sign, p = _INFIX[fn]
            a, b = args
            return CExpr.infix(a, sign, b, out, vector, p)
        if fn == "neg" and not as_function:
            return CExpr(f"-{args[0].at(ATOM)}", out, vector, 0, UNARY)
        name = "fma" if fn == "fma" else f"m_{fn}"
        ctx.need(name, (out if as_function else kind).name, vector)
        texts = [(self.splat(a) if vector else a).text for a in args]
        while fn in ("min", "max") and len(texts) > 2:
            texts[:2] = [f"{name}({texts[0]}, {texts[1]})"]
        return CExpr(f"{name}({', '.join(texts)})", out, vector)

    def _logic(self, fn: str, args: list[CExpr], vector: bool) -> CExpr:
        plain, bitwise, p = _LOGIC[fn]
        if not vector:
            return CExpr(f"({args[0].at(p)} {plain} {args[1].at(p + 1)})", BOOL)
        bits = max(a.mask for a in args)
        a, b = (self.mask(x, bits) for x in args)
        return CExpr(f"({a.at(COMPARE + 1)} {bitwise} {b.at(COMPARE + 1)})", BOOL, True, bits)

    def _where(self, args: list[CExpr], vector: bool) -> CExpr:
        c, a, b = args
        if not vector:
            return CExpr(f"{c.at(TERNARY + 1)} ? {a.at(TERNARY + 1)} : {b.text}", a.dtype, False, 0, TERNARY)
        if a.dtype.kind == "bool":
            bits = max(a.mask, b.mask, c.mask)
            a, b, c = self.mask(a, bits), self.mask(b, bits), self.mask(c, bits)
            return CExpr(f"(({c.text} & {a.text}) | (~{c.text} & {b.text}))", BOOL, True, bits)
        m = self.mask(c, a.dtype.bits) if c.vector else c
        a, b = self.splat(a), self.splat(b)
        return CExpr(f"{m.at(TERNARY + 1)} ? {a.at(TERNARY + 1)} : {b.at(TERNARY + 1)}", a.dtype, True, 0, TERNARY)

    # ------------------------------------------------------------ values behind conditions

    def _masked(self, v: Masked, show: Callable[[Value], CExpr]) -> CExpr:
        ctx = self.ctx
        if (both := merge_conditions(v)) is not v:
            live = ctx.live(both.conds)
            apart = any(ctx.varies(ctx.substitute(e)) for e in both.conds)
            if not apart or lane_bounds(ctx, both, live) or is_maskable(ctx, both, live):
                return self._masked(both, show)
        conds = ctx.live(v.conds)
        if not conds:
            return show(v.value)
        if not conds[0].terms and conds[0].const < 0:
            return show(v.otherwise)
        if any(ctx.varies(e) for e in conds):
            if v.anywhere and (mask := compare_with_zero(ctx, v.conds)) is not None:
                return self._where([mask, show(v.value), show(v.otherwise)], vector=True)
            for load_some in (self._load_first, self._load_between, self._load_within, self._load_where):
                if (loaded := load_some(v, conds, show)) is not None:
                    return loaded
            return self._masked_lanes(v, show)
        body = ctx.text.body
        mark = len(body)
        condition = ctx.condition(conds)
        then = show(v.value)
        inner, body[mark:] = body[mark:], []
        ctx.text.drop_pointers(inner)
        other = show(v.otherwise)
        then, other = self._alike(then, other)
        if not inner:
            head = condition if " " not in condition else f"({condition})"
            shown = f"{head} ? {then.at(TERNARY + 1)} : {other.at(TERNARY + 1)}"
            return CExpr(shown, then.dtype, then.vector, then.mask, TERNARY)
        t = ctx.text.temp()
        ctx.text.add(Declaration(self._ctype(then), t, other.text))
        ctx.text.add(If(condition, [*inner, Assign(t, then.text)]))
        return CExpr(t, then.dtype, then.vector, then.mask)

    def _alike(self, a: CExpr, b: CExpr) -> tuple[CExpr, CExpr]:
        if not (a.vector or b.vector):
            return a, b
        if a.dtype.kind == "bool":
            bits = max(a.mask, b.mask)
            return self.mask(a, bits), self.mask(b, bits)
        stored = a.dtype != a.dtype.compute
        if stored:
            element = storage(a.dtype)
            a, b = (x if x.vector else CExpr(splat(self.ctx, element, x), x.dtype, True) for x in (a, b))
            return a, b
        return self.splat(a), self.splat(b)

    def _ctype(self, c: CExpr) -> str:
        if c.mask or c.dtype == c.dtype.compute:
            return self.ctx.ctype(c.dtype, c.vector, c.mask)
        return self.ctx.element(storage(c.dtype), c.vector)

    def _masked_lanes(self, v: Masked, show: Callable[[Value], CExpr]) -> CExpr:
        """Lanes apart: the whole vector if it may, as is common; else the first lanes, if it is those, or lane by lane."""
        ctx, text = self.ctx, self.ctx.text
        conds = ctx.live(v.conds)
        t = text.temp()
        body = text.body
        mark = len(body)
        sample = self._sample(v.value, show)
        kind = self._ctype(sample)
        whole = ctx.in_all_lanes(conds)
        if whole and not whole[0].terms:  # never in all lanes
            whole = None
        if whole:
            with text.block(lambda: partial(If, ctx.condition(whole))):
                text.add(Assign(t, self._wide(show(v.value), sample).text))
        start = len(body)
        count = ctx.prefix(conds)
        if count is not None and is_zero(v.otherwise) and not sample.mask and self.has_masked_value(v.value):
            self._in_part(v.value, show, t, lane_count(ctx, count), sample)
        else:
            self._each_masked(v, show, t, kind, sample)
        if whole:
            body[start - 1 :] = [with_else(body[start - 1], body[start:])]
        body.insert(mark, text.here(Declaration(kind, t)))
        return CExpr(t, sample.dtype, True, sample.mask)

    def _in_part(self, v: Value, show: Callable[[Value], CExpr], t: str, count: CExpr, sample: CExpr) -> None:
        """Sets the first lanes of `t`, and zeros elsewhere. What all lanes read is there only if some lane takes part."""
        ctx, text = self.ctx, self.ctx.text
        zeros = CExpr(f"({self._ctype(sample)}){{}}", sample.dtype, True)
        with ctx.masked(FirstLanes(count)):
            if loads_one_element(ctx, v):
                text.add(Assign(t, zeros.text))
                with text.block(lambda: partial(If, f"{count.at(COMPARE + 1)} > 0")):
                    text.add(Assign(t, self._first_lanes(self._wide(show(v), sample), zeros).text))
            else:
                value = self._wide(show(v), sample)
                text.add(Assign(t, value.text if loads_each_lane(ctx, v) else self._first_lanes(value, zeros).text))

    def _load_first(self, v: Masked, conds: list[Expr], show: Callable[[Value], CExpr]) -> CExpr | None:
        """A load of the first lanes, and what the others have instead."""
        ctx = self.ctx
        count = first_lane_count(ctx, v, conds)
        if count is None:
            return None
        with ctx.masked(FirstLanes(count)):
            loaded = show(v.value)
            if is_zero(v.otherwise):
                return loaded
            return self._first_lanes(*self._alike(loaded, show(v.otherwise)))

    def _load_between(self, v: Masked, conds: list[Expr], show: Callable[[Value], CExpr]) -> CExpr | None:
        """A load of lanes that follow each other, and what those around them have instead."""
        ctx = self.ctx
        lanes = lane_bounds(ctx, v, conds)
        if lanes is None:
            return None
        with ctx.masked(LaneRange(lanes)):
            loaded = show(v.value)
        if is_zero(v.otherwise):
            return loaded
        loaded, other = self._alike(loaded, show(v.otherwise))
        return self._chosen_lanes("lanes_between", lanes, loaded, other)

    def _load_within(self, v: Masked, conds: list[Expr], show: Callable[[Value], CExpr]) -> CExpr | None:
        """The same where some of the first lanes have one thing instead, and those after them another."""
        ctx, inner = self.ctx, v.value
        if not (isinstance(inner, Masked) and isinstance(v.otherwise, Const)) or ctx.mask is not None:
            return None
        both = replace(inner, conds=(*v.conds, *inner.conds))
        count = ctx.prefix([e for e in conds if ctx.varies(e)])
        loaded = self._load_between(both, ctx.live(both.conds), show) if count is not None else None
        if count is None or loaded is None:
            return None
        shown = ctx.text.index.text(count)
        same = [e for e in conds if not ctx.varies(e)]
        loaded, other = self._alike(loaded, show(v.otherwise))
        return self._chosen_lanes("first_lanes", f"{ctx.condition(same)} ? {shown} : 0" if same else shown, loaded, other)

    def _load_where(self, v: Masked, conds: list[Expr], show: Callable[[Value], CExpr]) -> CExpr | None:
        """A load of lanes that any conditions tell apart, zeros elsewhere."""
        ctx = self.ctx
        if not is_maskable(ctx, v, conds):
            return None
        with ctx.masked(ChosenLanes(lane_mask(ctx, conds))):
            return show(v.value)

    def first_lanes(self, c: CExpr, other: Value) -> CExpr:
        """A value in the lanes that take part, another elsewhere."""
        return self._first_lanes(*self._alike(c, self.value(other)))

    def _first_lanes(self, c: CExpr, other: CExpr) -> CExpr:
        """One value in the lanes that take part, another elsewhere."""
        part = self.ctx.first_lanes
        assert part is not None
        return self._chosen_lanes("first_lanes", part.text, c, other)

    def _chosen_lanes(self, which: str, lanes: str, c: CExpr, other: CExpr) -> CExpr:
        """One value in the lanes that a helper tells, another elsewhere."""
        name = self.ctx.element(f"i{8 * c.dtype.bytes}", True)
        self.ctx.need(which, f"i{8 * c.dtype.bytes}", True)
        return CExpr(f"{which}_{name}({lanes}) ? {c.at(TERNARY + 1)} : {other.at(TERNARY + 1)}", c.dtype, True, 0, TERNARY)

    def has_masked_value(self, v: Value) -> bool:
        """Whether a value can be had for a part of the lanes."""
        return all(
            has_masked_form(self.ctx, n.tensor, n.indices)
            if isinstance(n, Load)
            else not isinstance(n, Masked)
            or not any(self.ctx.varies(self.ctx.substitute(e)) for e in n.conds)
            or self._is_range(merge_conditions(n))
            for n in walk(v)
        )

    def _is_range(self, v: Masked) -> bool:
        """Whether it is a load of lanes that follow each other."""
        return lane_bounds(self.ctx, v, self.ctx.live(v.conds)) is not None

    def _each_masked(self, v: Masked, show: Callable[[Value], CExpr], t: str, kind: str, sample: CExpr) -> None:
        ctx, text = self.ctx, self.ctx.text
        with ctx.each_lane(t):
            inner = ctx.live(v.conds)
            element = ctx.lane_of(t, kind, write=True)
            with text.block(lambda: partial(If, ctx.condition(inner))):
                text.add(Assign(element, self._laned(show(v.value), sample)))
            with text.otherwise():
                text.add(Assign(element, self._laned(show(v.otherwise), sample)))

    def _sample(self, v: Value, show: Callable[[Value], CExpr]) -> CExpr:
        """What kind of code a value makes; the text is thrown away."""
        body = self.ctx.text.body
        mark = len(body)
        c = show(v)
        self.ctx.text.drop_pointers(body[mark:])
        del body[mark:]
        return self._wide(c, c)

    def _wide(self, c: CExpr, like: CExpr) -> CExpr:
        if c.vector:
            return c if not like.mask else self.mask(c, like.mask)
        if c.dtype.kind == "bool":
            return self.mask(self.splat(c), like.mask or 32)
        return CExpr(splat(self.ctx, storage(c.dtype), c), c.dtype, True)

    def _laned(self, c: CExpr, like: CExpr) -> str:
        return f"-(int{like.mask}_t){c.at(ATOM)}" if like.mask else c.text


def _plain_cast(v: Cast) -> bool:
    """Whether storing the argument rounds it just as the cast would: floats, and integers from integers."""
    return v.dtype.kind == "float" or v.arg.dtype.kind in ("int", "uint")


def _widens(source: DType, target: DType) -> bool:
    """Does a wider integer type hold each value as it is?"""
    return target.kind == "int" and source.kind in ("int", "uint") and source.bits < target.bits
