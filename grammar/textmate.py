"""Colours for editors that read TextMate grammars, made from the same words: `python grammar/textmate.py` writes them anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if __package__:
    from .words import words
else:  # as a script
    sys.path.insert(0, str(Path(__file__).parent))
    from words import words

HOME = Path(__file__).parent / "vscode" / "syntaxes" / "sched.tmLanguage.json"
NAME = r"[A-Za-z_]\w*"
INSTR = r"(?:\w|\$\{[^{}\n]*\})+"  # a name that may hold those of values, `mma_${SHAPE}`
TYPE = r"(?:(?:bf|tf|f|i|u)\d+(?:e\dm\d)?|bool)\b"
UNIT = r"(?:[kKMGTP]i?)?(?:B|bit|Hz|FLOP|OP)(?:/(?:s|cycle))?(?!\w)|[num]?s(?!\w)"


def textmate() -> dict[str, Any]:
    """The grammar, as the JSON that editors read."""
    w = words()
    values = [
        _match(r"#.*$", "comment.line.number-sign"),
        {"name": "string.quoted.triple", "begin": '"""', "end": '"""'},
        {"name": "string.quoted.double", "begin": '"', "end": '"|$', "patterns": [_match(r"\\.", "constant.character.escape")]},
        _match(rf"(?<![\w.])(?:{'|'.join(w.reserved)})\b", "constant.language"),
        _match(rf"(?<=[: ]){TYPE}|\b{TYPE}(?=\()", "storage.type"),
        _match(rf"{NAME}(?=\()", "entity.name.function.call"),
        _match(r"\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", "constant.numeric"),
        _match(r"->|\+=|[-+*/%<>=!]=?", "keyword.operator"),
    ]
    inside = {"include": "#values"}
    return {
        "name": "Andiron",
        "scopeName": "source.sched",
        "fileTypes": ["sched"],
        "patterns": [
            _match(r"^(language)\s+(\d+)", None, "keyword.control", "constant.numeric"),
            _match(rf"^(import)\s+({NAME}(?:\.{NAME})*)", None, "keyword.control.import", "entity.name.namespace"),
            _match(r"^import\b", "keyword.control.import"),
            _declaration("op", NAME, "entity.name.function", [_match(r"\b(?:where|as)\b(?!\()", "keyword.other"), inside]),
            _declaration(
                "device",
                rf"{NAME}(?::{NAME})?",
                "entity.name.type",
                [
                    _match(rf"^\s+(instr)\s+({INSTR})", None, "keyword.control", "entity.name.function"),
                    _match(rf"^\s+({'|'.join((*w.device_lines, 'op'))})\b", None, "keyword.control"),
                    _match(r"\b(?:extends|of|on|in|at|for)\b", "keyword.other"),
                    _match(rf"\b(\d+(?:\.\d+)?)\s*({UNIT})", None, "constant.numeric", "keyword.other.unit"),
                    inside,
                ],
            ),
            _declaration(
                "schedule|strategy",
                NAME,
                "entity.name.function",
                [
                    _match(rf"(?:^|(?<=:))\s+({'|'.join(w.lines)})(?=\s|$|#)", None, "keyword.control"),
                    _match(rf"(->)\s*({NAME})", None, "keyword.operator", "support.class"),
                    _match(rf"\b(for|on|as)\s+({NAME}(?::{NAME})?)", None, "keyword.other", "entity.name.type"),
                    _match(rf"\b(in)\s+({NAME})", None, "keyword.other", "support.class"),
                    _match(rf"\b(with|by|apply)\s+({NAME})", None, "keyword.other", "entity.name.function.call"),
                    _match(rf"(?<![\w.])(?:{'|'.join(w.inner)})\b(?!\.)", "keyword.other"),
                    inside,
                ],
            ),
            inside,
        ],
        "repository": {"values": {"patterns": values}},
    }


def _match(pattern: str, name: str | None, *groups: str) -> dict[str, Any]:
    out: dict[str, Any] = {"match": pattern}
    if name:
        out["name"] = f"{name}.sched"
    if groups:
        out["captures"] = {str(i): {"name": f"{g}.sched"} for i, g in enumerate(groups, 1)}
    return out


def _declaration(word: str, name: str, scope: str, patterns: list[dict[str, Any]]) -> dict[str, Any]:
    """From its first word to the next declaration at the margin."""
    return {
        "begin": rf"^({word})\s+({name})",
        "end": rf"^(?=(?:{'|'.join(words().declarations)})\b)",
        "beginCaptures": {"1": {"name": "storage.type.declaration.sched"}, "2": {"name": f"{scope}.sched"}},
        "patterns": patterns,
    }


def text() -> str:
    """The file's text."""
    return json.dumps(textmate(), indent=2) + "\n"


if __name__ == "__main__":
    HOME.write_text(text(), encoding="utf-8")
