"""Colours for `.sched` text: a lexer for Pygments, found by its name `sched` wherever Andiron is installed.

A keyword counts only where the grammar can take it, so that a tensor called `in` or an index called `order` is no keyword:
each declaration has a state of its own, left at the next line that begins at the margin.
"""

from __future__ import annotations

import re
from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, include
from pygments.lexer import words as any_of
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from .words import words

NAME = r"[A-Za-z_]\w*"
INSTR = r"(?:\w|\$\{[^{}\n]*\})+"  # a name that may hold those of values, `mma_${SHAPE}`
TYPE = r"(?:(?:bf|tf|f|i|u)\d+(?:e\dm\d)?|bool)\b"
UNIT = r"(?:[kKMGTP]i?)?(?:B|bit|Hz|FLOP|OP)(?:/(?:s|cycle))?(?!\w)|[num]?s(?!\w)"
_W = words()


def _words(kind: tuple[str, ...]) -> any_of:
    return any_of(kind, prefix=r"(?<![\w.])", suffix=r"\b(?!\.)")


class SchedLexer(RegexLexer):
    """Andiron's language: ops, devices, schedules, strategies."""

    name = "Andiron"
    url = "https://pypi.org/project/andiron"
    aliases: ClassVar = ["sched", "andiron"]
    filenames: ClassVar = ["*.sched"]
    mimetypes: ClassVar = ["text/x-andiron"]
    version_added = ""
    flags = re.MULTILINE

    tokens: ClassVar = {
        "root": [
            (r"(language)([ \t]+)(\d+)", bygroups(Keyword.Namespace, Whitespace, Number)),
            (rf"(import)([ \t]+)({NAME}(?:\.{NAME})*)", bygroups(Keyword.Namespace, Whitespace, Name.Namespace)),
            (r"import\b", Keyword.Namespace),
            (rf"(op)([ \t]+)({NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Function), "op"),
            (rf"(device)([ \t]+)({NAME}(?::{NAME})?)", bygroups(Keyword.Declaration, Whitespace, Name.Class), "device"),
            (rf"(schedule|strategy)([ \t]+)({NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Function), "schedule"),
            include("values"),
        ],
        "op": [
            (rf"^(?=(?:{'|'.join(_W.declarations)})\b)", Whitespace, "#pop"),
            (r"\b(?:where)\b(?!\()", Keyword),
            (r"\bas\b", Keyword),
            include("values"),
        ],
        "device": [
            (rf"^(?=(?:{'|'.join(_W.declarations)})\b)", Whitespace, "#pop"),
            (rf"^([ \t]+)(instr)([ \t]+)({INSTR})", bygroups(Whitespace, Keyword, Whitespace, Name.Function)),
            (rf"^([ \t]+)({'|'.join((*_W.device_lines, 'op'))})\b", bygroups(Whitespace, Keyword)),
            (r"\b(?:extends|of|on|in|at|for)\b", Keyword),
            (rf"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)([ \t]*)({UNIT})", bygroups(Number, Whitespace, Keyword.Type)),
            include("values"),
        ],
        "schedule": [
            (rf"^(?=(?:{'|'.join(_W.declarations)})\b)", Whitespace, "#pop"),
            (rf"(?:^|(?<=:))([ \t]+)({'|'.join(_W.lines)})\b(?=[ \t\n#])", bygroups(Whitespace, Keyword)),
            (rf"(->)([ \t]*)({NAME})", bygroups(Operator, Whitespace, Name.Builtin)),
            (rf"\b(for|on|as)([ \t]+)({NAME}(?::{NAME})?)", bygroups(Keyword, Whitespace, Name.Class)),
            (rf"\b(in)([ \t]+)({NAME})", bygroups(Keyword, Whitespace, Name.Builtin)),
            (rf"\b(with|by|apply)([ \t]+)({NAME})", bygroups(Keyword, Whitespace, Name.Function)),
            (_words(_W.inner), Keyword.Pseudo),
            include("values"),
        ],
        "values": [
            (r"#.*$", Comment.Single),
            (r'"""[\s\S]*?"""', String.Doc),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (_words(_W.reserved), Keyword.Constant),
            (rf"(?<=[: ]){TYPE}", Keyword.Type),
            (rf"{TYPE}(?=\()", Keyword.Type),
            (rf"{NAME}(?=\()", Name.Function),
            (NAME, Name),
            (r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", Number),
            (r"->|\+=|[-+*/%<>=!]=?", Operator),
            (r"[\[\](),.:]", Punctuation),
            (r"\n|[^\S\n]+", Whitespace),
        ],
    }


__all__ = ["SchedLexer"]
