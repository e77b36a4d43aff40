"""Syntax tree to text: `format_node(node)`, with as few parentheses as the grammar needs.

`parse(format_node(tree)) == tree` for declarations; `complete` prints schedules with it. For a file with its comments, see
`dsl.text.format.format_source`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import groupby

from .. import syntax as s
from .builder_base import unquote

_WIDE = 110  # characters; a longer header breaks before `->` and `where`

# How tightly the grammar binds: a part printed where something tighter must stand gets parentheses.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_BINARY = {"or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def format_node(node: s.Node, depth: int = 0) -> str:
    """The text of a file, a declaration, a line, a modifier or an expression, indented by `depth` levels."""
    if isinstance(node, s.Num | s.Name | s.Access | s.Unary | s.Binary | s.Call | s.Reduce | s.Auto):
        return _expr(node)
    match node:
        case s.File():
            return _file(node)
        case s.Modifier():
            return _modifier(node)
        case s.TileAxis():
            return _axis(node)
        case s.TensorDecl() | s.IntParam():
            return _parameter(node)
        case s.Fact():
            return _fact(node)
        case s.SizeCondition() | s.DomainCondition():
            return _where(node)
    return "\n".join("    " * depth + line if line else "" for line in _lines(node))


def _file(file: s.File) -> str:
    out = _lines(file.language) if file.language else []
    before: s.Node | None = file.language
    for declaration in file.declarations:
        if before is not None and not (isinstance(before, s.Import) and isinstance(declaration, s.Import)):
            out.append("")
        out += _lines(declaration)
        before = declaration
    return "".join(line + "\n" for line in out)


# ---------------------------------------------------------------- expressions


def _expr(e: s.Expr | s.Auto, least: int = _OR) -> str:
    text, binds = _bound(e)
    return f"({text})" if binds < least else text


def _bound(e: s.Expr | s.Auto) -> tuple[str, int]:
    """The text of an expression and how tightly its outermost operator binds."""
    match e:
        case s.Num():
            return _number(e.value)
        case s.Auto():
            return "auto", _ATOM
        case s.Name():
            return e.id, _ATOM
        case s.Access():
            inside = ", ".join(_expr(x) for x in e.subscripts)
            if e.otherwise is not None:
                inside += (" " if inside else "") + f"else {_expr(e.otherwise)}"
            return f"{e.tensor}[{inside}]", _ATOM
        case s.Call():
            return f"{e.function}({', '.join(_expr(a) for a in e.args)})", _ATOM
        case s.Unary(op="not"):
            return f"not {_expr(e.operand, _NOT)}", _NOT
        case s.Unary():
            return f"-{_expr(e.operand, _SIGN)}", _SIGN
        case s.Reduce():
            return f"{e.kind}({_ranged(e.indices, e.extents)}{_domain(e.where)}) {_body(e.body)}", _ATOM
    binds = _BINARY.get(e.op, _COMPARE)
    # The operators associate to the left, comparisons not at all.
    left = _left(e.left) if binds == _PRODUCT else _expr(e.left, binds + (binds == _COMPARE))
    return f"{left} {e.op} {_expr(e.right, binds + 1)}", binds


def _number(value: int | float | bool) -> tuple[str, int]:
    if isinstance(value, bool):
        return str(value).lower(), _ATOM
    if isinstance(value, float) and math.isnan(value):
        return "nan", _ATOM
    return repr(value), _SIGN if value < 0 or (value == 0 and str(value)[0] == "-") else _ATOM


def _left(e: s.Expr) -> str:
    """The left side of a product: a reduction at its right end would take the rest of the product along."""
    return f"({_expr(e)})" if _ends_open(e) else _expr(e, _PRODUCT)


def _ends_open(e: s.Expr) -> bool:
    while True:
        match e:
            case s.Reduce():
                return True
            case s.Binary(op="*" | "/" | "%"):
                e = e.right
            case s.Unary(op="-"):
                e = e.operand
            case _:
                return False


def _ranged(indices: tuple[str, ...], extents: tuple[s.Expr | None, ...]) -> str:
    """Indices, each with its range where one is written."""
    pairs = zip(indices, extents or (None,) * len(indices), strict=True)
    return ", ".join(i if x is None else f"{i}: {_expr(x)}" for i, x in pairs)


def _body(e: s.Expr) -> str:
    """What a reduction reduces: a product that does not begin with a minus."""
    if isinstance(e, s.Binary) and _BINARY.get(e.op) == _PRODUCT:
        left = f"({_expr(e.left)})" if _ends_open(e.left) else _body(e.left)
        return f"{left} {e.op} {_expr(e.right, _SIGN)}"
    return _expr(e, _ATOM)


def _list(items: Iterable[s.Expr | s.Auto]) -> str:
    return ", ".join(_expr(x) for x in items)


def _maps(maps: Iterable[tuple[str, s.Expr]], sign: str = " =") -> str:
    return ", ".join(f"{name}{sign} {_expr(e)}" for name, e in maps)


# ---------------------------------------------------------------- declarations


def _lines(node: s.Node) -> list[str]:
    match node:
        case s.Language():
            return [f"language {node.version}"]
        case s.Import():
            return [f"import {node.path}" if node.std else f"import {quote(node.path)}"]
        case s.OpDecl():
            return [*_op_header(node), *_indent([_assign(a) for a in node.body])]
        case s.Assign():
            return [_assign(node)]
        case s.DeviceDecl():
            extends = f" extends {node.extends}" if node.extends else ""
            return [f"device {node.name}{extends}{':' if node.items else ''}", *_nested(node.items)]
        case s.LevelDecl():
            return [f"level {node.name}: {_facts(node.facts)}"]
        case s.MemoryDecl():
            return [f"memory {node.name} of {node.level}: {_facts(node.facts)}"]
        case s.LimitDecl():
            return [_facts(node.facts)]
        case s.InstrDecl():
            return _instr(node)
        case s.OperandPlace():
            return [_place(node)]
        case s.Emit():
            return _emit(node)
        case s.ScheduleDecl():
            return [_schedule_header(node), *_nested(node.lines)]
        case s.StrategyDecl():
            params = ", ".join(name if e is None else f"{name} = {_expr(e)}" for name, e in node.params)
            return [f"strategy {node.name}({params}):", *_nested(node.lines)]
    return _line(node)


def _indent(lines: Iterable[str]) -> list[str]:
    return ["    " + line if line else "" for line in lines]


def _nested(nodes: Iterable[s.Node]) -> list[str]:
    return _indent(line for node in nodes for line in _lines(node))


def _op_header(op: s.OpDecl) -> list[str]:
    dims = f"[{', '.join(op.dims)}]" if op.dims else ""
    head = f"op {op.name}{dims}({', '.join(map(_parameter, op.inputs))})"
    results = f"-> ({', '.join(map(_parameter, op.outputs))})"
    where = f"where {', '.join(map(_where, op.where))}" if op.where else ""
    parts = [p for p in (head, results, where) if p]
    if sum(map(len, parts)) + len(parts) <= _WIDE:
        return [" ".join(parts) + ":"]
    return [head, *("        " + p for p in parts[1:-1]), "        " + parts[-1] + ":"]


def _parameter(p: s.TensorDecl | s.IntParam) -> str:
    if isinstance(p, s.IntParam):
        return f"{p.name}: int" + ("" if p.default is None else f" = {_expr(p.default)}")
    return f"{p.name}: {p.dtype}[{_list(p.shape)}]" + (f" as {p.format}" if p.format else "")


def _where(w: s.SizeCondition | s.DomainCondition) -> str:
    return f"{_expr(w.left, _SUM)} {w.op} {_expr(w.right, _SUM)}"


def _domain(where: tuple[s.DomainCondition, ...]) -> str:
    return f" where {', '.join(map(_where, where))}" if where else ""


def _assign(a: s.Assign) -> str:
    sign = "+=" if a.accumulate else "="
    return f"{a.target}[{_ranged(a.indices, a.extents)}]{_domain(a.where)} {sign} {_expr(a.value)}"


def _facts(facts: Iterable[s.Fact]) -> str:
    return ", ".join(map(_fact, facts))


def _fact(fact: s.Fact) -> str:
    return " ".join(p if isinstance(p, str) else _quantity(p) for p in fact.parts)


def _quantity(q: s.Quantity) -> str:
    count = "" if q.count is None else f"{q.count} x "
    return f"{count}{q.value!r}{' ' if q.unit else ''}{q.unit}"


def _instr(i: s.InstrDecl) -> list[str]:
    family = f" in {i.family}" if i.family else ""
    results = f" -> ({', '.join(map(_parameter, i.results))})" if i.results else ""
    valued = any(k.values for k in i.kinds)
    out = [line for kinds, values in _kind_lines(i.kinds) if valued for line in f"for {kinds}: {values}".split("\n")]
    out += [f"op ({', '.join(map(_parameter, i.operands))}){results}:", *_indent(map(_assign, i.body))]
    for part in (*i.places, *i.emits):
        out += _lines(part)
    if i.facts:
        out.append(_facts(i.facts))
    if i.awaits:
        out.append(f"await {_fact(i.awaits)}")
    kinds = "" if valued else ", ".join(map(_kind, i.kinds))
    return [f"instr {i.name} on {i.level}{family}{f' for {kinds}' if kinds else ''}:", *_indent(out)]


def _kind(k: s.Kind) -> str:
    return f"{k.count} B" if k.dtype is None else k.dtype if k.count is None else f"{k.dtype} x {k.count}"


def _kind_lines(kinds: Iterable[s.Kind]) -> list[tuple[str, str]]:
    """Those that follow each other and have the same values, and the values."""
    return [
        (", ".join(map(_kind, same)), ", ".join(f"{v.name} = {quote(str(v.value)) if v.quoted else v.value}" for v in values))
        for values, same in groupby(kinds, key=lambda k: k.values)
    ]


def _place(p: s.OperandPlace) -> str:
    maps = f": {_maps(p.maps)}" if p.maps else ""
    return f"{p.operand} in {p.memory} at ({', '.join(p.coords)}){maps}"


def _emit(e: s.Emit) -> list[str]:
    return f"emit {e.dialect}: {quote(e.text)}".split("\n")


def quote(text: str) -> str:
    """A string of the language that says `text`: as it is in triple quotes where it can stand so, else with escapes."""
    if not any(ch in text for ch in '"\\\n\t'):
        return f'"{text}"'
    if '"""' not in text:
        lines = "\n".join("    " + line if line else "" for line in text.split("\n"))
        for quoted in (f'"""{text}"""', f'"""\n{lines}\n"""'):
            if ("\n" not in text) == ("\n" not in quoted) and quoted[-4] != '"' and unquote(quoted)[0] == text:
                return quoted
    for raw, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(raw, escape)
    return f'"{text}"'


# ---------------------------------------------------------------- schedules


def _schedule_header(d: s.ScheduleDecl) -> str:
    role = f" as {d.role}" if d.role else ""
    if d.role and d.bindings:
        role += f"({', '.join(f'{a} = {b}' for a, b in d.bindings)})"
    device = f" on {d.device}" if d.device else ""
    where = f" where {', '.join(map(_where, d.where))}" if d.where else ""
    return f"schedule {d.name} for {d.op}{role}{device}{where}:"


def _line(node: s.Node) -> list[str]:
    match node:
        case s.Tile():
            level = f" -> {node.level}" if node.level else ""
            return [f"tile {', '.join(map(_axis, node.axes))}{level}{_modifiers(node.modifiers)}"]
        case s.Move():
            view = f" as ({', '.join(node.view)})" if node.view else ""
            return _opening(f"move {node.tensor}{view} -> {node.memory or 'auto'}{_modifiers(node.modifiers)}", node.block)
        case s.Keep():
            names = ", ".join(node.tensors)
            return _opening(f"keep {names} in {node.memory or 'auto'}{_modifiers(node.modifiers)}", node.block)
        case s.Inline():
            return [f"inline {', '.join(node.tensors)}"]
        case s.Fuse():
            return [f"fuse {', '.join(node.indices)} as {node.name}"]
        case s.Compute():
            instr = "" if node.instr is None else f" with {'auto' if isinstance(node.instr, s.Auto) else node.instr}"
            return [f"compute{instr}{_modifiers(node.modifiers)}"]
        case s.Apply():
            args = [_list(node.args)] if node.args else []
            args += [_maps(node.named)] if node.named else []
            return [f"apply {node.strategy}({', '.join(args)})"]
        case s.Param():
            default = "" if node.default is None else f" = {_expr(node.default)}"
            return [f"param {node.name} in {_list(node.values)}{default}"]
        case s.AutoLine():
            return ["auto"]
    raise TypeError(f"{type(node).__name__} has no text")


def _opening(head: str, block: tuple[s.Line, ...] | None) -> list[str]:
    return [f"{head}:", *_nested(block)] if block else [head]


def _axis(axis: s.TileAxis) -> str:
    every = "" if axis.every is None else f" every {_expr(axis.every)}"
    return f"{axis.index}: {_expr(axis.size)}{every}"


def _modifiers(modifiers: Iterable[s.Modifier]) -> str:
    return "".join(" " + _modifier(m) for m in modifiers)


def _modifier(m: s.Modifier) -> str:
    match m.name:
        case "arrange":
            return f"arrange {m.words[0]}: {_maps(m.maps)}"
        case "layout" if m.words:
            return f"layout {m.words[0]}" + (f"({_maps(m.maps, ':')})" if m.maps else "")
        case "layout" | "swizzle" if m.values:
            return f"{m.name}{' ' if m.name == 'layout' else ''}({_list(m.values)})"
    rest = [_list(m.values)] if m.values else []
    rest += [", ".join(m.words)] if m.words else []
    return " ".join([m.name, *rest])
