"""Which productions of the grammar a text is made of, as the parser's own tables have them: each alternative of each rule, with
and without each of its optional parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.resources import files

from andiron import grammar
from andiron.dsl.source import Source
from andiron.dsl.text.indentation import LineLayout

# Productions that no case is drawn with, each with the reason. By `shown`, and a part of it is enough.
EXCEPTIONS: Mapping[str, str] = {
    "start: ": "a text without declarations is no case",
    "__start_star_0: __start_star_0 _NL": "the end of a declaration takes the blank lines below it",
    "import_text": "a case is one text, and this one reads another file",
    "op: OP NAME params _ARROW tensors where": "an op without sizes has none to state conditions of",
    "params: LPAR RPAR": "a kernel without inputs has nothing to be compared on",
    "tensors: LPAR RPAR": "an op without outputs is refused (no-outputs)",
    "AS NAME": "sparse formats are refused (sparse-format), and a schedule for a list of ops, of which these are parts",
    "subscripts: _LSQB _ELSE expr RSQB": "a scalar has no axis to leave",
    "target_else": "`else` on a left side is refused (target-subscript)",
    "call: NAME LPAR RPAR": "no function takes nothing (wrong-arity)",
    "size_call: NAME LPAR RPAR": "no function takes nothing (wrong-arity)",
    "assign: NAME domain ": "a scalar has no index that a condition restricts (bad-domain)",
    "domain ADD_EQ": "an instruction computes all elements (bad-domain)",
    "device: DEVICE DEVICE_NAME _NL": "a device without levels computes nothing",
    "counted: INT _BY_COUNT INT": "a count of what has no unit (unknown-unit)",
    "counted: INT _BY_COUNT FLOAT": "a count of what has no unit (unknown-unit)",
    "_instr_lines: instr_line": "an instruction has an op and places: more than a line",
}


class Productions:
    """A parser without actions that counts what it reduces by."""

    def __init__(self) -> None:
        from lark import Lark

        self.layout, self.seen = LineLayout(), Counter()
        text = files(grammar).joinpath("sched.lark").read_text(encoding="utf-8")
        self.lark = Lark(text, parser="lalr", postlex=self.layout)  # type: ignore[arg-type]
        rules, tables = set(self.lark.rules), self.lark.parser.parser.parser  # type: ignore[attr-defined]
        tables.callbacks = {r: self._counting(r, f) if r in rules else f for r, f in tables.callbacks.items()}

    def _counting(self, rule, action):
        def counted(children):
            self.seen[shown(rule)] += 1
            return action(children)

        return counted

    def read(self, text: str) -> None:
        text = text.replace("\r\n", "\n")
        self.layout.begin(Source("", text), text, 0)
        self.lark.parse(text + "\n")

    @property
    def all(self) -> list[str]:
        """Every production; those that lark makes of `*` and `+` among them."""
        return list(dict.fromkeys(map(shown, self.lark.rules)))


def shown(rule) -> str:
    return f"{rule.alias or rule.origin.name}: {' '.join(s.name for s in rule.expansion)}"


def excepted(production: str) -> bool:
    return any(production == x or (x != "start: " and x in production) for x in EXCEPTIONS)
