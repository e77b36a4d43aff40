"""What newcomers write from habit is told what it is called here."""

from __future__ import annotations

import andiron
import pytest
from andiron.dsl.errors import UserError
from andiron.tools.checks.compile_schedules import check_schedules

VECTOR = "op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = {}\n"


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (VECTOR.format("X[i] if X[i] > 0 else 0"), "`where(condition, a, b)`"),
        (VECTOR.format("X[i]**2"), "`pow(x, 2.0)`"),
        (VECTOR.format("X[i] * X[k]"), "as in `sum(k) ...`"),
        ("op f(X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n", "`op f[N](...)`"),
        ("op f[N](X: float32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n", "did you mean `f32`?"),
        ("op f[N](X: f32[N]) -> (Y: f32[]):\n    Y[] += X[i]\n", "`C[m, n] = sum(k) A[m, k] * B[k, n]`"),
        ("op f[N](X: f32[N]) -> (Y: f32[N, N]):\n    Y[i: j, j] = X[i]\n", "as in `where i < j`"),
        ("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[j: j] = X[j]\n", "write the extent of `j`: a size or a number"),
        (VECTOR.format("X[i] := 3"), "`+`, `-`, `<=`"),
        ("device d extends sm_8:\n    units 4\n", "did you mean `sm_8"),
        ("device d extends sm_80:\n    levl block: at most 512 threads\n", "did you mean `level`?"),
        ("device d extends sm_80:\n    memory shared of block: 128 kilobytes\n", "write `128 KiB`"),
        ("device d extends sm_80:\n    level block: 4\n", "`finite 8`"),
    ],
)
def test_the_help_names_it(text, way):
    with pytest.raises(UserError) as found:
        andiron.loads(text)
    assert way in str(found.value)


def test_an_instruction_of_other_types_says_which():
    text = "op g[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])\n"
    text += "schedule s for g on sm_80:\n    tile m: 16, n: 8 -> block\n    compute with mma_m16n8k8_tf32\n"
    with pytest.raises(UserError, match="it takes tf32; the operands here are f16"):
        andiron.compile(text, schedule="s", target="cuda:sm_80")


def test_a_long_line_shows_that_it_goes_on():
    many = " + ".join(["X[i]"] * 40)
    with pytest.raises(UserError) as caught:
        andiron.loads(f"op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = {many} + Q[i] + {many}\n")
    line, carets = str(caught.value).splitlines()[2:4]
    assert line.startswith("2 | ...")
    assert line.endswith("...")
    assert line[carets.index("^")] == "Q"
    assert len(line) < 130


def test_a_reduction_inside_a_statement_is_named():
    text = "import std.ops.norm\nschedule s for layernorm on sm_80 where N <= 1024:\n    tile i: 1 -> block\n"
    module = andiron.loads(text + "    keep mean in register by shuffle\n    tile j: 1 every 128 -> thread\n")
    (error,) = check_schedules(module)
    assert error.help == "the reduction in its statement is `mean.sum1`: keep that"


CONV = """import std.devices.nvidia
op conv[L, K](X: f32[L], W: f32[K], s: f32) -> (Y: f32[N]) where N = L - K + 1:
    Y[i] = sum(k) X[i + k] * W[k] * s

op pairs[N](X: f32[N]) -> (Y: f32[N, N]):
    Y[i, j] = X[i] + X[j]

op gram[N](X: f32[N, 8]) -> (Y: f32[N, N]):
    Y[i, j] = sum(k) X[i, k] * X[j, k]

op nearer[N](X: f32[N, 8]) -> (Y: f32[N, N]):
    Y[i, j] = sum(k) max(X[i, k], X[j, k])

"""
NO_BOX = "the accesses of `X` have no common box of constant extent"


@pytest.mark.parametrize(
    ("op", "line", "message", "help"),
    [
        ("conv", "move X -> l1 layout panels(i: 3)", "the tile has no axis `i`", "the axes here are `X.0`"),
        ("conv", "move X -> l1 layout(i / 4)", "the tile has no axis `i`", "the axes here are `X.0`; `layout panels("),
        ("conv", "move s -> l1 layout panels(i: 3)", "the tile has no axis `i`", "leave it out: the tile is one element"),
        ("conv", "move s -> l1 layout(i)", "the order (i) does not name each axis of the tile once", "leave it out: the"),
        ("pairs", "move X -> l1", NO_BOX, "leave the line out: each"),
        (
            "gram",
            "move X -> l1\n    compute",
            NO_BOX,
            "as the factors of a product they have names of their own, `Y.left` and `Y.right`",
        ),
        ("nearer", "move X -> l1", NO_BOX, "leave the line out: each"),
    ],
)
def test_a_copy_that_cannot_be_laid_out_so(op, line, message, help):
    inner = "k" if op == "conv" else "j"
    text = f"{CONV}schedule s for {op}:\n    tile i: 16 -> core\n    tile {inner}: 4\n    {line}\n"
    with pytest.raises(UserError) as found:
        andiron.compile(text, schedule="s", target="cpu:generic")
    assert (found.value.id, found.value.message) == ("schedule-layout", message)
    assert (found.value.help or "").startswith(help)


@pytest.mark.parametrize("axes", ["i: 1", "i: 1, j: 1"])
def test_raster_says_first_that_the_level_has_none(axes):
    with pytest.raises(UserError, match="`raster` does not apply to `core`"):
        andiron.compile(f"{CONV}schedule s for pairs:\n    tile {axes} -> core raster 3\n", schedule="s", target="cpu:generic")


def test_registers_of_two_layouts_are_named_as_the_author_does():
    text = "op f[M, N](X: f32[M, N]) -> (Y: f32[M], y: f32[M]):\n    Y[i] = sum(j) X[i, j]\n    y[i] = max(j) X[i, j]\n"
    text += "schedule s for f:\n    tile i: 6\n    keep Y in register:\n        tile i: 3\n        compute\n    compute\n"
    with pytest.raises(UserError, match="`Y` has two register layouts: 2 x 3 here, 6 at its other use") as found:
        andiron.compile(text, schedule="s", target="cuda:sm_80")
    assert found.value.span is not None
    assert found.value.span.text == "tile i: 3"  # not the `compute` that both are above
    assert [(x.span.line, x.span.text, x.note) for x in found.value.labels] == [(9, "compute", "6 by this line")]


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (VECTOR.format("X[i, i]"), "give a subscript for each axis: `X[i]`, say"),
        ("op f[N](X: f32[N], s: f32) -> (Y: f32[N]):\n    Y[i] = X[i] * s[0]\n", "write `s` alone"),
        (VECTOR.format("X[i] § 2.0"), "leave it out"),
        (
            VECTOR.format("X[i]") + "schedule s for f:\n    apply rows(4)\n",
            "write one, `strategy rows(...):`, or import the file",
        ),
        (
            "op f[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[i] = sum(j) X[i, j]\nschedule s for f:\n    fuse i, j as k\n",
            "fuse free indices with each other, and reduced ones with each other",
        ),
    ],
)
def test_a_refusal_has_a_way_out(text, way):
    with pytest.raises(UserError) as found:
        checked(text)
    assert way in (found.value.help or "")


def checked(text: str) -> None:
    """Raises the mistake of the text, or of its one schedule."""
    for error in check_schedules(andiron.loads(text)):
        raise error


def test_a_size_that_is_none_says_what_sizes_are():
    for size in (-1, 2.5, True, 2**63):
        with pytest.raises(UserError) as found:
            andiron.compile(VECTOR.format("X[i]"), target="cpu:generic", N=size)
        assert found.value.help == "a size is a whole number from 0 to 2**63 - 1"


def test_a_file_without_an_op_says_how_one_is_written():
    with pytest.raises(UserError, match="the file has no op") as found:
        andiron.compile("device d extends sm_80:\n    units 4\n", target="cpu:generic")
    assert found.value.help is not None
    assert found.value.help.startswith("write one: `op NAME[SIZES]")


# ---------------------------------------------------------------- lines of one launch about what another has

PASS = "import std.ops.attention\n"
APART = """op f[M, N](X: f32[M, N]) -> (l: f32[M], z: f32[M]):
    m[i] = max(j) X[i, j]
    l[i] = sum(j) exp(X[i, j] - m[i])
    z[i] = sum(j) X[i, j]
"""
BESIDE = """op f[M, N](X: f32[M, N]) -> (l: f32[M], z: f32[M]):
    s[i, j] = X[i, j] * 2
    m[i] = max(j) s[i, j]
    l[i] = sum(j) exp(s[i, j] - m[i])
    z[i] = sum(j) s[i, j]
"""
SCALED = """op f[M, N](X: f32[M, 16], Y: f32[N, 16]) -> (l: f32[M]):
    x[i, d] = X[i, d] * 2
    s[i, j] = sum(d) x[i, d] * Y[j, d]
    m[i] = max(j) s[i, j]
    l[i] = sum(j) exp(s[i, j] - m[i])
"""
BLOCK = "tile h: 1, i: 16 -> block / keep m, l, o in register / tile t: 32 online / "
ELSEWHERE = {
    "a copy of what a result of another launch is made of": (
        PASS, "attention", "sm_80", BLOCK + "move k -> shared / tile i: 16 -> warp / compute",
        "`keep s in register` below this line has it computed here",
        BLOCK + "move k -> shared / tile i: 16 -> warp / keep s in register / auto",
    ),
    "the same on a CPU": (
        PASS, "attention", "cpu:avx2",
        "tile h: 1, i: 16 -> core / keep m, l, o in l2 / tile t: 32 online / move k -> l2 / compute",
        "`keep s in register` below this line has it computed here",
        "tile h: 1, i: 16 -> core / keep m, l, o in l2 / tile t: 32 online / move k -> l2 / keep s in register / compute",
    ),
    "a reduction of what the pass has a tile of": (
        BESIDE, "f", "cpu:avx2", "tile i: 4 -> core / keep m, l in register / tile j: 32 online / keep s in register / compute",
        "keep `z` above this line, and the pass computes it as well",
        "tile i: 4 -> core / keep m, l, z in register / tile j: 32 online / keep s in register / compute",
    ),
    "a value that what another launch computes is made of": (
        SCALED, "f", "cpu:avx2", "tile i: 4 -> core / keep m, l in register / tile j: 8 online / keep x in l1 / compute",
        "`keep s in register` below this line has it computed here",
        "tile i: 4 -> core / keep m, l in register / tile j: 8 online / keep x in l1 / keep s in register / compute",
    ),
    "a reduction beside a pass": (
        APART, "f", "cpu:avx2", "tile i: 32 -> core / keep m, l, z in register / tile j: 32 online / compute",
        "it has a launch of its own, as nothing here reads it: leave it out of this line",
        "tile i: 32 -> core / keep m, l in register / tile j: 32 online / compute",
    ),
    "the same with its block": (
        APART, "f", "cpu:avx2", "tile i: 32 -> core / keep m, l, z in register / tile j: 32 online / compute",
        "or write a block for it, `keep z in dram:`",
        "keep z in dram: /    auto / tile i: 32 -> core / keep m, l in register / tile j: 32 online / compute",
    ),
    "the outermost memory without a block": (
        APART, "f", "sm_80", "keep m in global / auto",
        "`keep m in global:` with `auto` below it gives `m` a launch of its own, for any size",
        "keep m in global: /    auto / auto",
    ),
    "the same on a CPU, of a product": (
        PASS, "attention", "cpu:avx2", "keep s in dram / auto",
        "`keep s in dram:` with `auto` below it gives `s` a launch of its own, for any size",
        "keep s in dram: /    auto / auto",
    ),
    "the same beside blocks": (
        APART, "f", "sm_80", "keep l in global: /    auto / keep z in global: /    auto / keep m in global",
        "`keep m in global:` with `auto` below it is a launch of its own",
        "keep l in global: /    auto / keep z in global: /    auto / keep m in global: /    auto",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ELSEWHERE)
def test_what_another_launch_has_and_how_to_have_it_here(case):
    op, name, target, lines, way, mended = ELSEWHERE[case]
    sizes = {"H": 1, "Q": 33, "T": 70, "D": 16} if op == PASS and "move k" in lines else {}

    def compiled(lines: str) -> None:
        text = "".join(f"    {x.removeprefix(' ').rstrip()}\n" for x in lines.split("/"))
        target_of = target if ":" in target else f"emulate:{target}"
        andiron.compile(f"{op}schedule s for {name}:\n{text}", op=name, schedule="s", target=target_of, **sizes)

    with pytest.raises(UserError) as found:
        compiled(lines)
    assert way in (found.value.help or "")
    compiled(mended)


def test_what_no_nest_has_is_said_with_what_is_refused():
    """A plain sum of scores beside the pass has no nest: `auto` is filled in plainly, for which there is no room."""
    text = """op f[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f32[H, Q, D], z: f32[H, Q]):
    s[h, i, t] = sum(d) f32(q[h, i, d]) * f32(k[h, t, d])
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    z[h, i] = sum(t) s[h, i, t]
    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]

schedule s for f:
    tile h: 1, i: 16 -> block
    keep m, l, z, o in register
    tile t: 256 online
    tile i: 16 -> warp
    keep s in register
    auto
"""
    with pytest.raises(UserError) as found:
        andiron.compile(text, schedule="s", target="emulate:sm_80", H=1, Q=33, T=700, D=16)
    assert found.value.span is not None
    assert found.value.span.text == "keep s in register"
    help = found.value.help or ""
    assert "`tile t: 128` would need" in help
    assert "line 11, `keep m, l, z, o in register`: of rTile's nests none has it there" in help
    andiron.compile(text.replace("t: 256", "t: 128"), schedule="s", target="emulate:sm_80", H=1, Q=33, T=700, D=16)


def test_a_help_quotes_the_line_and_not_its_block():
    text = "op f[M, N, K, D](A: f32[M, K], B: f32[K, N], V: f32[N, D]) -> (Y: f32[M, D]):\n"
    text += "    s[m, n] = sum(k) A[m, k] * B[k, n]\n    Y[m, d] = sum(n) s[m, n] * V[n, d]\n"
    text += "schedule s for f:\n    tile m: 16, d: 32 -> block\n    keep Y in register\n    tile n: 16\n"
    text += "    keep s in register:\n        tile m: 1, k: 2 -> thread\n    tile d: 2, m: 1 -> thread\n"
    for more, said in (("", False), ("    auto\n", True)):  # where nothing was left to rTile, its nests are no help
        with pytest.raises(UserError, match="has other elements of it here") as found:
            andiron.compile(text + more, schedule="s", target="cuda:sm_80", M=3, K=7)
        assert ("`keep s in register`: of rTile's nests" in (found.value.help or "")) == said
        assert "\n" not in (found.value.help or "")
