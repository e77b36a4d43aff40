"""`fmt --upgrade`: old spellings become new ones, and nothing else changes.

Version 1 of the language has no old spellings. So the tests bring a rewrite of their own, from one spelling of a scalar to
another.
"""

from __future__ import annotations

import io
import random
import sys
from itertools import pairwise

import pytest
from andiron.dsl import syntax as s
from andiron.dsl.errors import InternalError, UserError
from andiron.dsl.module import loads
from andiron.dsl.text import upgrade, versions
from andiron.dsl.text.format import format_source
from andiron.dsl.text.parser import parse_text
from andiron.dsl.text.upgrade import REWRITES, Rewrite, upgrade_source
from andiron.tools import cli

from ...support.paths import ROOT

LIBRARY = sorted([*(ROOT / "stdlib").rglob("*.sched"), *(ROOT / "examples").glob("*.sched")])


def scalars(file, tokens):
    """`T = value` to `T[] = value`, as if version 2 had brought the brackets."""
    after = {before.start_pos: token.type for before, token in pairwise(tokens)}
    for declaration in file.declarations:
        for statement in declaration.body if isinstance(declaration, s.OpDecl) else ():
            if after[statement.span.start] == "EQ":
                end = statement.span.start + len(statement.target)
                yield end, end, "[]"


def products(file, tokens):
    """`/` to `*` in all values: no spelling but a meaning."""
    return [(t.start_pos, t.end_pos, "*") for t in tokens if t.type == "TIMES"]


SUM = "op total[N](x: f32[N]) -> (y: f32[]):\n    y{} = sum(i) x[i]\n"
SCALARS = Rewrite(2, SUM.format(""), SUM.format("[]"), scalars)
OLD = """# y = 1 stays as it is
language   1  # y = 2

op  mean[N](x: f32[N]) -> (y: f32[]):
    t=sum(i) x[i]   # t = sum(i) x[i]
    y = t / N
device d:
    instr i on t:
        op (A: f32[]):
            A[] = 1
        emit c: "t = 1; y = 2"
"""
NEW = """# y = 1 stays as it is
language 2  # y = 2

op mean[N](x: f32[N]) -> (y: f32[]):
    t[] = sum(i) x[i]  # t = sum(i) x[i]
    y[] = t / N

device d:
    instr i on t:
        op (A: f32[]):
            A[] = 1
        emit c: "t = 1; y = 2"
"""


@pytest.fixture
def version_2(monkeypatch):
    monkeypatch.setattr(versions, "NEWEST", 2)


@pytest.mark.parametrize("rewrite", [*REWRITES, SCALARS], ids=lambda r: f"since {r.since}")
def test_the_old_spelling_and_the_new_one_mean_the_same(rewrite):
    assert upgrade_source(rewrite.old, rewrites=[rewrite]) == format_source(rewrite.new)
    assert parse_text(rewrite.old).declarations == parse_text(rewrite.new).declarations


def test_every_rewrite_belongs_to_a_version():
    assert all(1 < r.since <= versions.NEWEST for r in REWRITES)
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    assert [f"| {n} |" in page for n in range(1, versions.NEWEST + 2)] == [True] * versions.NEWEST + [False]


def test_comments_and_strings_stay(version_2):
    assert upgrade_source(OLD, rewrites=[SCALARS]) == NEW
    assert upgrade_source(NEW, rewrites=[SCALARS]) == NEW
    assert parse_text(OLD).declarations == parse_text(NEW).declarations
    assert format_source(OLD) != NEW


@pytest.mark.parametrize("change", [lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t, lambda t: t.rstrip("\n")])
def test_texts_of_other_editors(version_2, change):
    assert upgrade_source(change(OLD), rewrites=[SCALARS]) == NEW


def test_the_module_is_the_same(version_2):
    old = OLD[: OLD.index("device")]
    before, after = loads(old), loads(upgrade_source(old, rewrites=[SCALARS]))
    assert before.file.declarations == after.file.declarations
    assert str(before.ops["mean"]) == str(after.ops["mean"])


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: p.stem)
def test_nothing_is_old_in_the_library(path):
    text = path.read_text(encoding="utf-8")
    assert upgrade_source(text) == format_source(text)


def test_a_version_is_updated_and_never_added(version_2):
    assert upgrade_source("language 1") == "language 2\n"
    assert upgrade_source("\tlanguage\t1 # c") == "language 2  # c\n"
    assert upgrade_source("language 2\n") == "language 2\n"
    assert upgrade_source(SCALARS.old, rewrites=[SCALARS]) == SCALARS.new
    assert upgrade_source("") == ""


def test_today_nothing_is_upgraded():
    assert upgrade_source("language  1\n" + SCALARS.old) == "language 1\n" + SCALARS.old


def test_a_later_rewrite_takes_what_an_earlier_one_brought(version_2):
    def back(file, _tokens):
        for d in file.declarations:
            for a in d.body:
                end = a.span.start + len(a.target)
                if file.source.text.startswith("[]", end):
                    yield end, end + 2, ""

    older = Rewrite(3, SCALARS.new, SCALARS.old, back)
    assert upgrade_source(SCALARS.old, rewrites=[older, SCALARS]) == SCALARS.old


@pytest.mark.parametrize(
    "edits",
    [
        products,  # another meaning
        lambda file, _: [(0, 0, "# more\n")],  # another comment
        lambda file, _: [(0, 0, "op ?")],  # no text of the language
        lambda file, tokens: [(t.start_pos, t.end_pos, '"t = 1; \\y = 2"') for t in tokens if t.type == "TEXT"],
        lambda file, tokens: [(t.start_pos, t.end_pos, f'""{t}""') for t in tokens if t.type == "TEXT"],  # the same string
    ],
)
def test_a_wrong_rewrite_is_our_fault(edits):
    with pytest.raises(InternalError, match=r"would change a\.sched"):
        upgrade_source(OLD, "a.sched", [Rewrite(2, "", "", edits)])


@pytest.mark.parametrize("text", ["op f(:\n", "language 3\n", "language 1\nlanguage 1\n", "op f(\n", "\tlanguage 1\n\top f\n"])
def test_mistakes_are_those_of_the_formatter(text):
    with pytest.raises(UserError) as formatted:
        format_source(text, "a.sched")
    with pytest.raises(UserError) as upgraded:
        upgrade_source(text, "a.sched", [SCALARS])
    assert str(upgraded.value) == str(formatted.value)


@pytest.mark.parametrize("seed", range(20))
def test_random_texts(seed, version_2):
    """Statements of both spellings, with comments between them, in any white space."""
    chance = random.Random(seed)
    lines = [f"language {chance.choice('12')}"] if chance.random() < 0.5 else []
    for n in range(chance.randrange(1, 5)):
        lines += [f"op f{n}[N](x: f32[N]) -> (y: f32[]):"]
        for m in range(chance.randrange(3)):
            target = chance.choice(["t{} = ", "t{}[] = ", "t{}   =", "t{} [ ]="])
            lines += [f"    {target.format(m)} sum(i) x[i] / {chance.choice(['2', 'N'])}"]
            lines[-1] += chance.choice(["", "  # y = t", "# y[] = t"])
            lines += [" " * chance.randrange(9) + "# t = 1"] if chance.random() < 0.3 else []
        lines += ["    y = sum(j) x[j]", *[""] * chance.randrange(3)]
    text = "\n".join(lines)
    out = upgrade_source(text, rewrites=[SCALARS])
    assert upgrade_source(out, rewrites=[SCALARS]) == out == format_source(out)
    assert parse_text(out).declarations == parse_text(text).declarations
    assert "y = sum" not in out
    assert out.count("# ") == text.count("# ")
    assert (parse_text(out).language is None) == (not text.startswith("language"))


# ---------------------------------------------------------------- the command


@pytest.fixture
def scalars_are_old(version_2, monkeypatch):
    function = upgrade.upgrade_source
    monkeypatch.setattr(upgrade, "upgrade_source", lambda text, name: function(text, name, [SCALARS]))


def test_the_command(scalars_are_old, tmp_path, capsys):
    old, new, bad = tmp_path / "old.sched", tmp_path / "new.sched", tmp_path / "bad.sched"
    old.write_text(OLD)
    new.write_text(NEW)
    bad.write_text("op f(:\n")
    assert cli.main(["fmt", "--upgrade", "--check", str(old), str(new)]) == 1
    assert capsys.readouterr().err == f"{old}: not upgraded\n"
    assert cli.main(["fmt", "--upgrade", "--diff", str(old)]) == 0
    assert "+language 2  # y = 2\n" in capsys.readouterr().out
    assert old.read_text() == OLD
    assert cli.main(["fmt", "--upgrade", str(bad), str(old), str(new)]) == 1
    said = capsys.readouterr()
    assert f"--> {bad}:1:" in said.err
    assert said.out == f"{old}: upgraded\n"
    assert old.read_text() == NEW
    assert cli.main(["fmt", "--upgrade", "--check", str(old)]) == 0
    assert cli.main(["fmt", "--check", str(old)]) == 0


def test_the_command_formats_as_well(scalars_are_old, tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.sched"
    path.write_text(NEW.replace("y[] =", "y[]   ="))
    assert cli.main(["fmt", "--upgrade", "--check", str(path)]) == 1
    assert capsys.readouterr().err == f"{path}: not formatted\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(OLD.encode())))
    assert cli.main(["fmt", "--upgrade", "-"]) == 0
    assert capsys.readouterr().out == NEW
