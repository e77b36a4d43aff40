"""Renaming in an editor: a text that means the same, or a reason why not."""

from __future__ import annotations

import pytest

pytest.importorskip("pygls", reason="the language server needs pygls")
import andiron
from andiron.tools.lsp.analysis import Analysis
from andiron.tools.lsp.names import RENAMABLE
from andiron.tools.lsp.rename import RESERVED, RenameRefused, renamable_at, rename_edits

TEXT = """\
import std.ops.reduce

op layer[M, N, K](X: f32[M, K], W: f32[K, N], b: f32[N], s: int = 2) -> (Y: f32[M, N]):
    H[m, n] = sum(k) X[m, k] * W[k, n]
    Y[m, n] = max(H[m, n] + b[n], 0.0)

op other[M](X: f32[M]) -> (Y: f32[M]):
    H[m] = X[m] * 2.0
    Y[m] = H[m] + 1.0

strategy stage(T, depth = 2):
    move T -> l3

schedule fast for layer on cpu:avx2 where N <= 4096:
    param BN in 64, 128 = 64
    tile n: BN
    tile k: 256
    apply stage(W)
    tile m: 4, n: 8
    keep H in register

schedule slow for layer on mine:
    fuse m, n as q
    tile q: 16

device mine extends cpu:avx2:
    level core: finite 2
"""


def renamed(marked: str, new: str, text: str = TEXT) -> str:
    """The text after the name at `|` got another one."""
    before, after = marked.split("|")
    at = text.index(before + after) + len(before)
    for o in sorted(rename_edits(Analysis(text, "x.sched"), at, new), key=lambda o: -o.start):
        text = text[: o.start] + new + text[o.end :]
    return text


@pytest.mark.parametrize(
    ("marked", "new", "lines"),
    [
        (
            "|H[m, n] =",
            "Z",
            {
                4: "    Z[m, n] = sum(k) X[m, k] * W[k, n]",
                5: "    Y[m, n] = max(Z[m, n] + b[n], 0.0)",
                20: "    keep Z in register",
            },
        ),
        (
            "X: f32[M, |K]",
            "Depth",
            {3: "op layer[M, N, Depth](X: f32[M, Depth], W: f32[Depth, N], b: f32[N], s: int = 2) -> (Y: f32[M, N]):"},
        ),
        (
            "schedule fast for layer on cpu:avx2 where |N",
            "Wide",
            {
                3: "op layer[M, Wide, K](X: f32[M, K], W: f32[K, Wide], b: f32[Wide], s: int = 2) -> (Y: f32[M, Wide]):",
                14: "schedule fast for layer on cpu:avx2 where Wide <= 4096:",
            },
        ),
        ("tile |k: 256", "r", {4: "    H[m, n] = sum(r) X[m, r] * W[r, n]", 17: "    tile r: 256"}),
        ("fuse m, n as |q", "mn", {23: "    fuse m, n as mn", 24: "    tile mn: 16"}),
        ("tile n: |BN", "wide", {15: "    param wide in 64, 128 = 64", 16: "    tile n: wide"}),
        ("move |T", "U", {11: "strategy stage(U, depth = 2):", 12: "    move U -> l3"}),
        ("apply |stage", "bring", {11: "strategy bring(T, depth = 2):", 18: "    apply bring(W)"}),
        (
            "for |layer on cpu",
            "mlp",
            {
                3: "op mlp[M, N, K](X: f32[M, K], W: f32[K, N], b: f32[N], s: int = 2) -> (Y: f32[M, N]):",
                14: "schedule fast for mlp on cpu:avx2 where N <= 4096:",
                22: "schedule slow for mlp on mine:",
            },
        ),
        ("on |mine", "cpu:mine", {22: "schedule slow for layer on cpu:mine:", 26: "device cpu:mine extends cpu:avx2:"}),
        ("schedule |slow", "slower", {22: "schedule slower for layer on mine:"}),
    ],
)
def test_every_use_and_no_other(marked, new, lines):
    done = renamed(marked, new)
    changed = {
        n: line for n, (line, old) in enumerate(zip(done.splitlines(), TEXT.splitlines(), strict=True), 1) if line != old
    }
    assert changed == lines
    andiron.loads(done)


@pytest.mark.parametrize(
    ("marked", "new", "reason"),
    [
        ("|H[m, n] =", "X", "`X` is already a tensor of `layer`"),
        ("|H[m, n] =", "M", "`M` is already a size of `layer`"),
        ("|H[m, n] =", "k", "`k` is already an index of `layer`"),
        ("|H[m, n] =", "s", "`s` is already a param of `layer`"),
        ("|H[m, n] =", "sum", "`sum`"),
        ("|H[m, n] =", "exp", "`exp`"),
        ("|H[m, n] =", "auto", "reserved word"),
        ("|H[m, n] =", "2H", "not a name"),
        ("|H[m, n] =", "H-1", "not a name"),
        ("|H[m, n] =", "", "not a name"),
        ("|H[m, n] =", "größe", "not a name"),
        ("|H[m, n] =", "BN", "`BN`"),
        ("tile |k: 256", "n", "`n` is already an index of `layer`"),
        ("tile |k: 256", "N", "`N` is already a size of `layer`"),
        ("schedule |slow", "fast", "`fast` is already a schedule"),
        ("op |other", "layer", "`layer` is already an op"),
        ("op |other", "row_sum", "stand for something else|would be wrong|already"),
        ("move |T", "depth", "already"),
        ("-> |l3", "l2", "which no text of yours declares"),
        ("X: |f32[M, K]", "g32", "which no text of yours declares"),
        ("on |cpu:avx2 where", "cpu:mine", "another file"),
        ("import| std", "x", "no name here"),
    ],
)
def test_what_would_break_is_refused_with_a_reason(marked, new, reason):
    with pytest.raises(RenameRefused, match=reason):
        renamed(marked, new)


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words(word):
    with pytest.raises(RenameRefused, match="reserved"):
        renamed("|H[m, n] =", word)


def test_any_name_to_any_name_keeps_the_meaning_or_is_refused():
    """Every name of the text to some others: what comes of it loads, has as many names, and no mistake."""
    found = Analysis(TEXT, "x.sched")
    assert found.mistakes == []
    seen, given, refused = set(), 0, 0
    for o in found.names:
        if o.symbol in seen or o.symbol.kind not in RENAMABLE:
            continue
        seen.add(o.symbol)
        new = ("fresh_name", "tile", "fresh_name", "m")[len(seen) % 4]
        try:
            places = rename_edits(found, o.start, new)
        except RenameRefused:
            refused += 1
            continue
        text = TEXT
        for p in sorted(places, key=lambda p: -p.start):
            text = text[: p.start] + new + text[p.end :]
        given += 1
        after = Analysis(text, "x.sched")
        assert after.mistakes == [], (o.symbol, new)
        assert len(after.names) == len(found.names)
    assert given > 10
    assert refused > 3


def test_what_may_be_renamed():
    found = Analysis(TEXT, "x.sched")
    assert renamable_at(found, TEXT.index("H[m")).symbol.name == "H"
    with pytest.raises(RenameRefused, match="`l3` is a memory"):
        renamable_at(found, TEXT.index("l3"))
