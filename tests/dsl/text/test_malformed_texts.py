"""Malformed and hostile texts: a named mistake at the right place, quickly, and never a traceback.

The messages themselves are in `errors/syntax/`, one case for each kind of mistake.
"""

import random
from pathlib import Path

import pytest
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.errors.syntax import Malformed
from andiron.dsl.source import Source
from andiron.dsl.text.parser import decode, parse_text, parser_machine
from andiron.dsl.text.recover import MOST_ERRORS
from lark.exceptions import UnexpectedToken

from ...support.count_calls import calls

HERE = Path(__file__).parent
OP = "op f[M](A: f32[M]) -> (Y: f32[M]):\n    Y[m] = "
SCHEDULE = "schedule s for f:\n    "


def faults(text: str) -> tuple[UserError, ...]:
    with pytest.raises(UserError) as caught:
        parse_text(text)
    error = caught.value
    return error.errors if isinstance(error, UserErrors) else (error,)


def ids(text: str) -> list[str]:
    return [e.id for e in faults(text)]


def test_several_are_reported_each_at_its_place():
    text = """\
schedule s for f:
    tyle m: 4
    move A shared:
        tile n: 4
        tile n 4
    tile m: 4 vectr 4
    auto

ops g(A: f32) -> (Y: f32):
    Y = A

schedule t f:
    tyle m: 4
schedule u for f:
    tile m: 400000000000000000000
    keep C in register:
        compute wiht x
"""
    found = [(e.id, e.span.line, e.span.text) for e in faults(text)]
    assert found == [
        ("unknown-line", 2, "tyle"),
        ("missing-arrow", 3, "shared"),
        ("unknown-modifier", 6, "vectr"),
        ("unknown-declaration", 9, "ops"),
        ("missing-for", 12, "f"),
        ("number-too-large", 15, "4" + 20 * "0"),
        ("unknown-modifier", 17, "wiht"),
    ]


def test_a_faulty_line_does_not_make_its_block_empty():
    assert ids(SCHEDULE + "keep C in register:\n        tyle m: 4\n") == ["unknown-line"]
    assert ids(SCHEDULE + "tyle m: 4\n") == ["unknown-line"]


def test_reports_stop_after_enough():
    assert len(faults("schedule s for f:\n" + "    tyle m: 4\n" * 100)) == MOST_ERRORS


def test_the_margin_of_an_embedded_text_counts():
    text = "\n    schedule s for f:\n        tyle m: 4\n    schedul t for f:\n        auto\n"
    assert [(e.id, e.span.line, e.span.column) for e in faults(text)] == [("unknown-line", 3, 9), ("unknown-declaration", 4, 5)]


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (OP + "(" * 3000 + "1" + ")" * 3000, "nested-too-deep"),
        (OP + "A[" * 3000, "nested-too-deep"),
        (OP + "-" * 3000 + "1", "nested-too-deep"),
        (OP + "not " * 3000 + "1", "nested-too-deep"),
        (OP + "1" + " + 1" * 3000, "nested-too-deep"),
        (OP + "sum(k) " * 2000 + "1", "nested-too-deep"),
        ("schedule s for f:\n" + "".join("    " * i + "move A -> x:\n" for i in range(1, 200)), "nested-too-deep"),
        (OP + "(" * 50 + "1", "unclosed-bracket"),
        ("(" * 100_000, "line-too-long"),
        ("(\n" * 100_000, "unknown-declaration"),
        (OP + "9" * 400, "number-too-large"),
        (OP + "9" * 15_000, "number-too-large"),
        (OP + "1e400", "number-too-large"),
        (OP + "\0", "strange-character"),
        ("# \0", "strange-character"),
        ("# shown \N{RIGHT-TO-LEFT OVERRIDE} otherwise", "strange-character"),
        ("\0" * 1000, "strange-character"),
        (OP + "a" * 1_900_000, "line-too-long"),
        ("x" * 5_000_000, "text-too-large"),
        ("y\n" * 900_000, "unknown-declaration"),
        ("\n" * 300_000 + "x", "unknown-declaration"),
        (SCHEDULE + "tyle m\n    " * 100_000, "unknown-line"),
        (":\n" * 100_000, "unknown-declaration"),
        ('"' * 19_999, "unknown-declaration"),
        (OP + '"""' + "\n" * 100_000, "missing-value"),
        (OP + "{{ cycler.__init__.__globals__ }}", "strange-character"),
        ('op f;system("x")(A: f32[]) -> (Y: f32[]):\n    Y[] = A', "strange-character"),
        ("op f'(A: f32[]) -> (Y: f32[]):\n    Y[] = A", "strange-character"),
        ("op \N{CYRILLIC SMALL LETTER O}p(A: f32[]) -> (Y: f32[]):\n    Y[] = A", "strange-character"),
        ("op \N{FULLWIDTH LATIN SMALL LETTER F}(A: f32[]) -> (Y: f32[]):\n    Y[] = A", "strange-character"),
        (OP + "A[m] \N{RIGHTWARDS ARROW} 3", "strange-character"),
        ("op a-b(A: f32[]) -> (Y: f32[]):\n    Y[] = A", "unexpected-token"),
    ],
    ids=lambda x: repr(x[:20]) if isinstance(x, str) else x,
)
def test_hostile(text, id):
    parse_text("")
    found = []
    assert calls(lambda: found.extend(faults(text))) < 1_500_000
    assert found[0].id == id, found[0]
    assert len(str(found[0])) < 2000


def test_an_expression_as_deep_as_allowed_can_be_walked():
    tree = parse_text(OP + "1" + " + 1" * 140)
    assert hash(tree) == hash(parse_text(OP + "1" + " + 1" * 140))
    assert repr(tree)
    assert parse_text(OP + "(" * 55 + "1" + ")" * 55)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"op f\xc3\x28", b"\x80" * 100, b"# \xed\xa0\x80"])
def test_bytes_that_are_no_text(data):
    with pytest.raises(UserError) as caught:
        decode(data, "x.sched")
    assert caught.value.id == "not-utf8"
    assert str(caught.value)


def test_every_example_is_malformed():
    for cls in Malformed.__subclasses__():
        for example in cls.examples:
            with pytest.raises(UnexpectedToken):
                parser_machine().attempt(Source("example", example), example, 0)


def test_every_example_is_explained_as_what_it_is_or_closer():
    """Few examples share a state with those of another class; what the words say may be more exact than the class."""
    other = []
    count = 0
    for cls in Malformed.__subclasses__():
        for example in cls.examples:
            count += 1
            found = ids(example)
            if cls.id not in found:
                other.append((cls.id, example, found))
    assert len(other) <= count // 20, other


@pytest.mark.parametrize("seed", range(40))
def test_mutilated_sketches_give_only_named_mistakes(seed):
    chance = random.Random(seed)
    text = (HERE / "sketches.sched").read_text() + (HERE / "sketches_next.sched").read_text()
    pieces = [
        "(",
        ")",
        "[",
        "]",
        ":",
        ",",
        "->",
        "=",
        "\n",
        "    ",
        '"',
        '"""',
        "#",
        "auto",
        "else",
        "7",
        "op ",
        "-",
        "\t",
        "é",
        "{",
        "where",
    ]
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice(["", *pieces]) + text[at + chance.choice([0, 0, 1, 3, 20]) :]
    error = None
    try:
        parse_text(text)
    except UserError as caught:
        error = caught
    for one in error.errors if isinstance(error, UserErrors) else [error] if error else []:
        assert one.id != "syntax"
        assert one.span is not None
        assert str(one)
