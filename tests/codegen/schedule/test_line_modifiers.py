"""A modifier does something, or the line is refused, or a note says why it does nothing."""

from __future__ import annotations

import pytest
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.support.fast_replace import replace

OPS = {
    "gemm": "op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) A[m, k] * B[k, n]\n",
    "two": "op two[M, N, K](A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]):\n    P[m, k] = A[m, k] * 2.0\n"
    "    Y[m, n] = sum(k) P[m, k] * B[k, n]\n",
    "soft": "op soft[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    t[i] = max(j) X[i, j]\n    s[i] = sum(j) exp(X[i, j] - t[i])\n"
    "    Y[i, j] = exp(X[i, j] - t[i]) / s[i]\n",
    "turn": "op turn[M, N](X: f32[M, N]) -> (Y: f32[N, M]):\n    Y[j, i] = X[i, j]\n",
    "rows": "op rows[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[i] = sum(j) X[i, j]\n",
    "pair": "op pair[M, N](X: f32[M, N]) -> (Y: f32[M], Z: f32[M]):\n    s[i] = sum(j) X[i, j]\n    Y[i] = s[i] * 2.0\n"
    "    Z[i] = s[i] + 1.0\n",
}
# op, device, lines with @ where modifiers stand; and those that may change nothing, as they say what is so without them
TILE = "tile m: 4, n: 4 -> thread / tile k: 1 / compute"
BLOCK = "tile m: 32, n: 32 -> block"
OPEN = f"{BLOCK} / keep C in register / tile k: 8"
OPEN_TWO = f"{BLOCK} / keep Y in register / tile k: 8"
PLACES = {
    "loop": ("gemm", "cpu:avx2", "tile m: 4, n: 16 -> core / keep C in register / tile k: 8 @ / compute", ""),
    "loop of registers": (
        "gemm",
        "sm_80",
        f"{BLOCK} / keep C in register / tile m: 16, n: 16 @ / {TILE}",
        "unroll",
    ),
    "blocks": ("gemm", "sm_80", f"tile m: 32, n: 32, k: 64 -> block @ / keep C in register / {TILE}", "by workspace"),
    "blocks of slices": ("gemm", "gfx942", f"{BLOCK} @ / keep C in register / {TILE}", ""),
    "threads": ("rows", "sm_80", "tile i: 1 -> block / keep Y in register / tile j: 64 / tile j: 2 -> thread @", "by shuffle"),
    "warps": ("rows", "sm_80", "tile i: 1 -> block / keep Y in register / tile j: 64 / tile j: 32 -> warp @", ""),
    "threads of a copy": (
        "gemm",
        "sm_80",
        f"{OPEN} / move A -> shared: /     tile m: 4, k: 4 -> thread @ / {TILE}",
        "",
    ),
    "copy": ("gemm", "sm_80", f"{OPEN} / move A -> shared @ / {TILE}", "as"),
    "copy to a cache": (
        "gemm",
        "cpu:avx2",
        "tile m: 16, n: 16 -> core / tile k: 8 / move B -> l1 @ / keep C in register / tile m: 2, n: 8",
        "as",
    ),
    "copy to registers": (
        "gemm",
        "sm_80",
        f"{BLOCK} / keep C in register / tile m: 4, n: 4 -> thread / tile k: 2 / move A -> register @ / tile k: 1",
        "",
    ),
    "stored registers": (
        "gemm",
        "sm_80",
        f"{BLOCK} / keep C in register: /     move C -> shared @ / {TILE}",
        "as",
    ),
    "computed copy": ("two", "sm_80", f"{OPEN_TWO} / move P -> shared @ / {TILE}", ""),
    "accumulator": ("gemm", "cpu:avx2", "tile m: 4, n: 16 -> core / keep C @ / tile k: 8 / compute", ""),
    "accumulator in a cache": (
        "gemm",
        "cpu:avx2",
        "tile m: 16, n: 16 -> core / keep C in l1 @ / tile k: 8 / tile m: 4, n: 8",
        "",
    ),
    "accumulator with a block": (
        "gemm",
        "sm_80",
        f"{BLOCK} / keep C in register @: /     move C -> shared / {TILE}",
        "",
    ),
    "accumulator of threads": (
        "rows",
        "sm_80",
        "tile i: 1 -> block / keep Y in register @ / tile j: 64 / tile j: 2 -> thread",
        "by shuffle",
    ),
    "result": ("turn", "cpu:avx2", "tile i: 32, j: 32 -> core / keep Y in l1 @ / compute", "layout"),
    "result in registers": ("turn", "cpu:avx2", "tile i: 1 -> core / tile j: 32 / keep Y in register @ / compute", ""),
    "intermediate": ("two", "sm_80", f"{OPEN_TWO} / keep P in shared @ / {TILE}", ""),
    "intermediate with a block": (
        "two",
        "sm_80",
        f"{OPEN_TWO} / keep P in shared @: /     tile m: 4, k: 4 -> thread / {TILE}",
        "",
    ),
    "intermediate in registers": (
        "two",
        "cpu:avx2",
        "tile m: 4, n: 16 -> core / keep Y in register / tile k: 8 / keep P in register @ / compute",
        "",
    ),
    "reduction": ("soft", "cpu:avx2", "tile i: 4 -> core / keep t in l1 @ / keep s in l1 / tile i: 1 / compute", "layout"),
    "launch": (
        "two",
        "cpu:avx2",
        "keep P in dram @: /     tile m: 16 -> core / tile m: 16, n: 16 -> core / keep Y in register / tile k: 1",
        "",
    ),
    "launch of a result": ("gemm", "cpu:avx2", "keep C in dram @: /     tile m: 16, n: 16 -> core", ""),
    "leaf": ("gemm", "cpu:avx2", "tile m: 4, n: 16 -> core / keep C in register / tile k: 8 / compute @", ""),
    "leaf without an accumulator": ("gemm", "cpu:avx2", "tile m: 4, n: 64 -> core / compute @", ""),
}
MODIFIERS = (
    "unroll",
    "unroll 2",
    "vector 4",
    "pipeline 2",
    "peel",
    "raster 2",
    "within l2",
    "pad 4",
    "swizzle",
    "swizzle (1, 2)",
    "layout AXES",
    "by shuffle",
    "by workspace",
    "by atomic",
    "with stream",
    "with cp_async",
    "as AXES",
)


def compiled(op: str, device: str, lines: str) -> CompiledProgram:
    text = OPS[op] + f"schedule s for {op}:\n" + "".join(f"    {x}\n" for x in lines.split(" / "))
    module = loads(text)
    return compile_program(module, module.ops[op], module.schedules["s"], module.device(device))


def axes(lines: str) -> str:
    word = next(x for x in lines.split(" / ") if "@" in x).split()[1].rstrip(",")
    return {"A": "(k, m)", "P": "(k, m)", "B": "(n, k)", "C": "(n, m)", "Y": "(j, i)", "t": "(i)"}.get(word, "(m, n)")


@pytest.mark.parametrize("place", PLACES)
def test_no_modifier_does_nothing_in_silence(place: str) -> None:
    op, device, lines, same = PLACES[place]
    plain = compiled(op, device, lines.replace(" @", ""))
    silent = []
    for m in MODIFIERS:
        try:
            found = compiled(op, device, lines.replace("@", m.replace("AXES", axes(lines))))
        except UserError:
            continue
        changed = replace(found.program, head="") != replace(plain.program, head="")
        if not changed and found.report["notes"] == plain.report["notes"] and not m.startswith(same or " "):
            silent.append(m)
    assert silent == []


@pytest.mark.parametrize(
    ("op", "lines", "message", "help"),
    [
        (
            "two",
            "keep P in dram pad 4: /     tile m: 4 -> core",
            "`pad` does not apply to a tensor with a launch of its own",
            "lay out",
        ),
        (
            "two",
            "keep P in dram with fma: /     tile m: 4 -> core",
            "`with` does not apply to a tensor with a launch",
            "in its block",
        ),
        (
            "two",
            "tile m: 4, k: 8 / keep P in l1 with stream",
            "`with` does not apply to an intermediate",
            "`compute with` names",
        ),
        (
            "two",
            "tile m: 4, k: 8 / keep P in register with fma",
            "`with` does not apply to an intermediate in registers",
            "names",
        ),
        (
            "two",
            "tile m: 4, k: 8 / move P as (k, m) -> l1",
            "`as` does not apply to a tensor that is computed where",
            "leave it out",
        ),
        ("gemm", "tile m: 4, n: 4 / keep C in register swizzle", "registers have no `swizzle`", "follows from the tiles below"),
        ("gemm", "tile m: 4, n: 4 / keep C by shuffle", "no line below distributes the reduction of `C`", "`k`: `-> lane`"),
        ("gemm", "tile m: 4, n: 4 / keep C by atomic", "`by atomic` is for the tile that distributes", "-> core by atomic"),
        (
            "rows",
            "tile i: 1 / keep Y / tile j: 8 / tile j: 1 -> lane by atomic",
            "units combine their parts of `Y` where the `keep` above closes, not `by atomic`",
            "below this line",
        ),
        ("gemm", "tile m: 8, n: 8 / compute order q", "there is no index `q` here", "`k`, `m`, `n`"),
        ("pair", "tile i: 4 / keep Y / keep Z with stream", "kept already, and stored as its line says", "say it there"),
    ],
)
def test_refused_at_its_line(op: str, lines: str, message: str, help: str) -> None:
    with pytest.raises(UserError) as caught:
        compiled(op, "cpu:avx2", lines)
    assert message in caught.value.message
    assert help in (caught.value.help or "")
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("modifiers", "same"),
    [
        ("unroll", "unroll 8"),  # the tile of k has at most 8 elements
        ("order k, m, n unroll", "unroll 8"),
    ],
)
def test_a_leaf_is_unrolled_completely(modifiers: str, same: str) -> None:
    lines = "tile m: 4, n: 16 -> core / keep C in register / tile k: 8 / compute "
    first, second = (compiled("gemm", "cpu:avx2", lines + x).program for x in (modifiers, same))
    assert first.launches == second.launches
    assert (
        compiled("gemm", "cpu:avx2", lines + modifiers).program.launches
        == compiled("gemm", "cpu:avx2", lines + same).program.launches
    )


def test_a_leaf_that_opens_accumulators_has_the_order_of_its_line() -> None:
    lines = "tile m: 4, n: 64 -> core / compute order {}"
    program = str(compiled("gemm", "cpu:avx2", lines.format("n, m")).program)
    assert 0 < program.index("for n") < program.index("for m")


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        (
            "move X -> shared swizzle (1, 2)",
            "`swizzle` of `X`: 8 adjacent rows are permuted alike, and its tile has 8: none moves",
        ),
        (
            "tile i: 1 / move X -> shared swizzle",
            "`swizzle` of `X`: its tile is one row, and chunks of the first row stay",
        ),
        ("tile j: 2 / move X -> shared swizzle", "`swizzle` of `X`: a row of its tile has no two chunks to permute"),
        ("tile i: 1 / move X -> shared pad 4", "`pad` of `X`: its tile is one row, and pads stand between rows"),
        ("tile j: 8 / move X -> shared pipeline 2 through", "`through` of `X`: no loop is around the one over `j`"),
        ("tile j: 4 vector 4", "line 5, `vector 4`: accesses of `sm_80` are as wide as addresses allow without it"),
    ],
)
def test_a_note_says_why_it_does_nothing(lines: str, note: str) -> None:
    lines = f"tile i: 8, j: 32 -> block / {lines} / tile i: 1, j: 1 -> thread / compute"
    found = compiled("turn", "sm_80", lines)
    assert note in found.report["notes"]


def test_no_note_where_rows_are_told_apart() -> None:
    found = compiled(
        "turn", "sm_80", "tile i: 16, j: 32 -> block / move X -> shared swizzle (1, 2) / tile i: 1, j: 4 -> thread"
    )
    assert not [x for x in found.report["notes"] if "swizzle" in x]


def test_units_that_never_wait_do_not_shuffle() -> None:
    with pytest.raises(UserError, match="units of `block` do not wait for each other") as caught:
        compiled("rows", "sm_80", "tile i: 1, j: 64 -> block by shuffle / compute")
    assert "by workspace" in (caught.value.help or "")
