"""What colours the language: every library file is lexed without an error, keywords count only where they are ones."""

from __future__ import annotations

import re

import pytest
from andiron.grammar.textmate import HOME, text, textmate
from andiron.grammar.words import GRAMMAR, words
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Error, Keyword, Name, String

from ..support.paths import ROOT, TESTS

FILES = sorted(
    [*(ROOT / "stdlib").rglob("*.sched"), *(ROOT / "examples").glob("*.sched"), TESTS / "dsl" / "text" / "sketches.sched"]
)


def tokens(source: str) -> list:
    return [(kind, value) for kind, value in get_lexer_by_name("sched").get_tokens(source) if value.strip()]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_character_has_a_meaning(path):
    found = tokens(path.read_text(encoding="utf-8"))
    assert not [value for kind, value in found if kind is Error]
    assert any(kind in Keyword for kind, _ in found)


def test_every_keyword_of_the_grammar_is_sorted():
    w = words()
    sorted_ones = {*w.declarations, *w.lines, *w.device_lines, *w.inner, *w.reserved}
    literals = set(re.findall(r'"([a-z]+)"', GRAMMAR.read_text(encoding="utf-8")))
    assert literals - sorted_ones == set()
    assert {"tile", "move", "keep"} <= set(w.lines)
    assert {"pipeline", "swizzle"} <= set(w.inner)


def test_the_version_of_the_language():
    found = tokens("# c\nlanguage 1\nop language[N](language: f32[N]) -> (y: f32[N]):\n    y[i] = language[i]\nlanguage 1\n")
    assert [value for kind, value in found if kind in Keyword] == ["language", "op", "f32", "f32", "language"]


def test_keywords_count_only_where_they_are_ones():
    found = tokens("op order[in](tile: f32[in]) -> (y: f32[in]):\n    y[i] = exp(tile[i])\n")
    assert [value for kind, value in found if kind in Keyword] == ["op", "f32", "f32"]
    found = tokens("schedule s for order:\n    tile i: 4 -> core\n    move tile -> l1 pad 2 with copy\n    auto\n")
    names = [value for kind, value in found if kind in Keyword]
    assert names == ["schedule", "for", "tile", "move", "pad", "with", "auto"]
    assert (Name.Function, "copy") in found


def test_text_of_an_instruction_is_a_string():
    found = tokens(
        'device d extends cpu:avx2:\n    instr f on core:\n        emit cpp: """\n            tile(x);\n        """\n'
    )
    assert [kind in String for kind, value in found if "tile" in value] == [True]


def test_an_instruction_that_comes_in_several_kinds():
    found = tokens("device d:\n    instr mma_${SHAPE}_${T} on warp in mma:\n        for f16: SHAPE = m16n8k16, K = 16\n")
    assert (Name.Function, "mma_${SHAPE}_${T}") in found
    assert [value for kind, value in found if kind in Keyword] == ["device", "instr", "on", "in", "for", "f16"]


def test_the_lexer_is_found_by_file_name():
    assert get_lexer_for_filename("gemm.sched").name == "Andiron"


def test_the_editors_grammar_is_up_to_date():
    assert HOME.read_text(encoding="utf-8") == text(), "run `python grammar/textmate.py`"


def test_the_editors_patterns_are_regular_expressions():
    def patterns(rules):
        for rule in rules:
            yield from (rule[key] for key in ("match", "begin", "end") if key in rule)
            yield from patterns(rule.get("patterns", []))

    grammar = textmate()
    every = [*patterns(grammar["patterns"]), *patterns(grammar["repository"]["values"]["patterns"])]
    assert len(every) > 20
    for pattern in every:
        re.compile(pattern)
