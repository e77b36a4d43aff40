"""The check of every compilation: right programs pass; a point that counts twice, or never, or a part that does, is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from andiron.codegen.coverage import check_contributions as module
from andiron.codegen.coverage.check_contributions import check_contributions
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, AllReduce, For, If, Stmt, Store
from andiron.codegen.lower.spec import Range
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.verify import PointNotOnce
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.values import Masked, Value, transform
from andiron.tools import cli

from ...support.library.cases import library
from ...support.programs.broken_programs import PROGRAMS, read

pytestmark = pytest.mark.wrong_program

SUM = "op total[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = sum(n) X[m, n]\n"
ARGMAX = "op best[M, N](X: f32[M, N]) -> (Y: i64[M]):\n    Y[m] = argmax(n) X[m, n]\n"
PRODUCT = "op p[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) A[m, k] * B[k, n]\n"

UP_TO = "op up_to[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = sum(n where n <= m + 1) X[m, n]\n"
FROM = UP_TO.replace("up_to", "from").replace("n <= m + 1", "n >= m")
BAND = "op band[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k where k <= m) A[m, k] * B[k, n]\n"

BLOCK = "tile m: 1 -> block\n    keep Y in register\n    tile n: 4\n    tile n: 1 -> thread"  # one part a thread
WARPS = "tile m: 1 -> block\n    keep Y in register\n    tile n: 128\n    tile n: 32 -> warp\n    tile n: 1 -> thread"
PAIRS = WARPS.replace("m: 1", "m: 2")  # two elements a thread
ATOMIC = "tile m: 1, n: 64 -> block by atomic\n    keep Y in register\n    tile n: 1 -> thread"  # one thread adds a part
LANES = "tile m: 1\n    keep Y in register\n    tile n: 8\n    tile n: 1 -> lane"
RESUMED = "tile n: 4\n    tile k: 2\n    tile m: 2\n    keep C in register"
ROWS = "tile m: 2\n    tile m: 1\n    keep Y in register\n    tile n: 1"
VECTORS = "tile m: 4, n: 8\n    keep C in register\n    tile k: 1\n    compute with fma_f32x8"
COPIED = (
    "tile m: 1 -> block\n    keep Y in register\n    tile n: 64\n    move X -> shared:\n        tile n: 4 -> thread\n"
    "        compute with cp_async_f32x4\n    tile n: 1 -> thread"
)
LATER = "tile m: 1, n: 4 -> block by workspace\n    keep Y in register\n    tile n: 1"


def lowered(text: str, lines: str, device: str) -> tuple[Op, Program]:
    """The program as the check sees it, and its op."""
    name = text.split()[1].partition("[")[0]
    read_ = loads(f"{text}\nschedule s for {name}:\n    {lines}\n")
    seen: list[tuple[Op, Program]] = []

    def observer(x, c, seconds) -> None:
        if x.name == "check_contributions":
            assert c.contributions == "" or lines == ATOMIC  # proven for all sizes
            seen.append((c.op, c.program))

    compile_program(read_, read_.ops[name], read_.schedules["s"], read_.device(device), observer=observer)
    return seen[-1]


def role(s: Stmt) -> str:
    found = getattr(s, "contribution", None)
    return found.role if found is not None else ""


def around(*roles: str) -> Callable[[Stmt], bool]:
    """A loop, or a condition, right around what does this to an accumulator."""
    return lambda s: isinstance(s, For | If) and any(role(x) in roles for x in s.body)


def around_atomic(s: Stmt) -> bool:
    return isinstance(s, If) and any(isinstance(x, Store) and x.atomic for x in s.body)


def does(*roles: str) -> Callable[[Stmt], bool]:
    return lambda s: role(s) in roles


def twice(s: Stmt) -> tuple[Stmt, ...]:
    return s, s


def dropped(s: Stmt) -> tuple[Stmt, ...]:
    return ()


def longer(s: Stmt) -> tuple[Stmt, ...]:
    assert isinstance(s, For)
    return (replace(s, stop=s.stop + 1),)


def shorter(s: Stmt) -> tuple[Stmt, ...]:
    assert isinstance(s, For)
    return (replace(s, stop=s.stop - 1),)


def later(s: Stmt) -> tuple[Stmt, ...]:
    assert isinstance(s, For)
    return (replace(s, start=s.start + 1),)


def for_all_units(s: Stmt) -> tuple[Stmt, ...]:
    assert isinstance(s, If)
    return s.body


def masked_with(by: int) -> Callable[[Stmt], tuple[Stmt, ...]]:
    """With masks and conditions that let so many more elements pass."""

    def step(v: Value) -> Value | None:
        return replace(v, conds=tuple(c + by for c in v.conds)) if isinstance(v, Masked) else None

    def change(s: Stmt) -> tuple[Stmt, ...]:
        if isinstance(s, If):
            return (replace(s, conds=tuple(c + by for c in s.conds)),)
        assert isinstance(s, Store)
        return (replace(s, value=transform(s.value, step)),)

    return change


def halved(s: Stmt) -> tuple[Stmt, ...]:
    assert isinstance(s, AllReduce)
    return (replace(s, count=s.count // 2),)


def changed(program: Program, where: Callable[[Stmt], bool], change: Callable[[Stmt], tuple[Stmt, ...]]) -> Program:
    """With the first statement of that kind changed."""
    left = [True]

    def body(statements: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in statements:
            if left[0] and where(s):
                left[0] = False
                out += change(s)
            elif isinstance(s, For | Alloc):
                out.append(replace(s, body=body(s.body)))
            elif isinstance(s, If):
                out.append(replace(s, body=body(s.body), orelse=body(s.orelse)))
            else:
                out.append(s)
        return tuple(out)

    new = replace(program, launches=tuple(replace(x, body=body(x.body)) for x in program.launches))
    assert not left[0]
    return new


TWICE, NEVER, OTHER = "contributes 2 times", "never contributes", "is not what its statement says"
MUTATIONS = {
    "a statement that adds, doubled": (SUM, BLOCK, "sm_80", does("add"), twice, TWICE),
    "a statement that adds, dropped": (SUM, BLOCK, "sm_80", does("add"), dropped, NEVER),
    "a loop over points, one shorter": (SUM, LATER, "sm_80", around("add"), shorter, NEVER),
    "a loop over points, one longer": (SUM, LATER, "sm_80", around("add"), longer, "is outside"),
    "a loop over points that begins later": (SUM, LATER, "sm_80", around("add"), later, "Y"),
    "a start that is dropped from between": (PRODUCT, RESUMED, "cpu:generic", does("start"), dropped, "C"),
    "a guard of units, dropped": (SUM, ATOMIC, "sm_80", around_atomic, for_all_units, "contributes 64 times"),
    "a mask that lets one too few pass": (SUM, LANES, "cpu:avx2", does("add"), masked_with(-1), NEVER),
    "a loop over a part of the points, one shorter": (UP_TO, ROWS, "cpu:generic", around("add"), shorter, NEVER),
    "a loop over a part of the points that begins later": (FROM, ROWS, "cpu:generic", around("add"), later, NEVER),
    "a domain with one too few": (UP_TO, LANES, "cpu:avx2", does("add"), masked_with(-1), NEVER),
    "a domain with one too many": (UP_TO, LANES, "cpu:avx2", does("add"), masked_with(1), OTHER),
    "a domain of vectors with one too many": (BAND, VECTORS, "cpu:avx2", around("add"), masked_with(1), OTHER),
    "a domain of vectors with one too few": (BAND, VECTORS, "cpu:avx2", around("add"), masked_with(-1), NEVER),
    "lanes that are combined twice": (SUM, BLOCK, "sm_80", does("combine"), twice, "Y"),
    "half of the lanes combined": (SUM, BLOCK, "sm_80", does("combine"), halved, NEVER),
    "lanes that are not combined": (SUM, BLOCK, "sm_80", does("combine"), dropped, NEVER),
    "warps that are combined twice": (SUM, WARPS, "sm_80", around("gather"), twice, TWICE),
    "a warp that is left out": (SUM, WARPS, "sm_80", around("gather"), shorter, "Y"),
    "one warp of two elements that is left out": (SUM, PAIRS, "sm_80", around("gather"), later, NEVER),
    "two elements whose parts are not taken off": (SUM, PAIRS, "sm_80", does("restart"), dropped, TWICE),
    "a part that is not taken off": (SUM, WARPS, "sm_80", does("restart"), dropped, TWICE),
    "the value of a place, left out": (ARGMAX, BLOCK, "sm_80", does("add value"), dropped, "Y"),
    "a part that is not resumed": (PRODUCT, RESUMED, "cpu:generic", does("resume"), dropped, "C"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_fault_is_found(name: str) -> None:
    text, lines, device, where, change, message = MUTATIONS[name]
    op, program = lowered(text, lines, device)
    broken = changed(program, where, change)
    with pytest.raises(PointNotOnce, match=message) as raised:
        check_contributions(broken, op, None)
    assert raised.value.span is not None


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_say_nothing_are_executed(name: str) -> None:
    op, program = read(PROGRAMS[name])
    assert "points counted at M=3, N=5" in check_contributions(program, op, None)


def test_a_mask_of_lanes_that_lets_one_too_few_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """All elements are written: the check of elements passes."""
    rule, lines = Range.live.fget, "tile m: 4\n    tile n: 4\n    keep Y in register\n    tile n: 1"
    assert rule is not None
    monkeypatch.setattr(Range, "trips", lambda self, size: (self.live - 1 if size == 1 else self.live + size - 1) // size)
    text = SUM.replace("total", "less")
    read_ = loads(f"{text}\nschedule s for less:\n    {lines}\n")
    with pytest.raises(PointNotOnce, match=NEVER) as raised:
        compile_program(read_, read_.ops["less"], read_.schedules["s"], read_.device("cpu:generic"))
    assert raised.value.span is not None
    assert raised.value.span.text in lines


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("gemm", "cpu:avx2"), ("conv2d", "cpu:avx512"), ("gemm_f16", "sm_80"), ("softmax", "sm_80"), ("full_argmax", "gfx90a"),
        ("vector_sum", "sm_80"), ("attention", "gfx942"), ("layernorm", "cpu:neon"), ("causal_attention", "cpu:avx2"),
        ("causal_attention", "sm_80"),
    ],
)  # fmt: skip
def test_proven_for_all_sizes(name: str, device: str) -> None:
    ops = library()
    assert compile_program(ops, ops.ops[name], None, ops.device(device)).report["contributions"] == ""


def test_a_last_pair_of_points_with_one_beyond_the_end() -> None:
    """An instruction adds pairs; what it adds beyond a fixed end was filled with zeros."""
    ops = library()
    op = specialise(bind_params(ops.ops["gemm_i8"]), {"M": 37, "N": 21, "K": 45})
    assert compile_program(ops, op, None, ops.device("cpu:avx2")).report["contributions"] == ""


def test_what_takes_too_many_values_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VALUES", 10)
    monkeypatch.setattr(module, "VALUES_SIZE_BY_SIZE", 10)
    op, program = read(PROGRAMS["gpu atomic"])
    expected = "`Y`: not decided: there is no proof, and there are too many points to count at M=3, N=5"
    assert check_contributions(program, op, None) == expected


def fixed(lines: str, **sizes: int) -> str:
    """What is said of the sum's program for these sizes."""
    read_ = loads(f"{SUM}\nschedule s for total:\n    {lines}\n")
    op = specialise(read_.ops["total"], sizes)
    return compile_program(read_, op, read_.schedules["s"], read_.device("sm_80")).report["contributions"]


def test_results_without_elements_take_no_memory() -> None:
    op = specialise(loads(PRODUCT).ops["p"], dict(M=0, N=1 << 50, K=0))
    assert compile_program(loads(PRODUCT), op, None, library().device("sm_80")).schedule


def test_no_array_is_made_for_large_fixed_sizes() -> None:
    """An input of these sizes would take terabytes."""
    said = fixed(ATOMIC, M=500_000, N=500_000)
    assert said == "`Y`: not decided: there is no proof, and there are too many points to count at its fixed sizes"
    assert fixed(ATOMIC, M=3, N=65) == "`Y`: points counted at its fixed sizes, not proven for all sizes"
    assert fixed(LATER, M=500_000, N=500_000) == ""  # proven


def test_a_call_that_is_not_aligned_ends_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another pass makes two programs, for arguments that are aligned and for others, and another one the waits."""
    monkeypatch.setattr(module, "unproven_results", lambda *_: ())
    assert fixed(COPIED, M=3, N=63) == "`Y`: points counted at its fixed sizes, not proven for all sizes"


def test_explain_says_what_is_not_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "atomic.sched"
    file.write_text(f"{SUM}\nschedule s for total:\n    {ATOMIC}\n", encoding="utf-8")
    assert cli.main(["explain", str(file), "--target", "emulate:sm_80"]) == 0
    row = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("contributions"))
    assert row.split(None, 1)[1].startswith("`Y`: points counted at M=3, N=5 and at ")
    assert cli.main(["explain", str(file), "--target", "emulate:sm_80", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["contributions"].endswith("not proven for all sizes")
