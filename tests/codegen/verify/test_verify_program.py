"""`compile(verify=True)` and `check --verify`: what is right passes, what the compiler got wrong is refused as its fault."""

from __future__ import annotations

import json
from collections.abc import Callable

import andiron
import pytest
from andiron.codegen import pipeline
from andiron.codegen.analysis.instances import Instance, instances
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import AllReduce, Stmt, Store
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify.verify_program import smaller_sizes, verify
from andiron.dsl.errors import InternalError, UserError
from andiron.dsl.errors.verify import NotVerified
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.support.fast_replace import replace
from andiron.tools import cli

from ...support.edit_programs import edited

SUM = """\
op total[M, N](X: f32[M, N]) -> (Y: f32[M]):
    Y[m] = sum(n) X[m, n]

schedule s for total on cpu:avx2:
    tile m: 1 -> core
    keep Y in register
    tile n: 16
    tile n: 2 -> lane
"""
BOUND = """\
op total[M, N](X: f32[M, N]) -> (Y: f32[M]):
    Y[m] = sum(n) X[m, n]

schedule few for total on sm_80 where N <= 64:
    tile m: 1 -> block
    keep Y in register
    tile n: 1 -> thread
"""
WINDOW = """\
op window[H, R](X: f32[H], W: f32[R]) -> (Y: f32[P]) where P = H - R + 1, R >= 1:
    Y[p] = sum(r) X[p + r] * W[r]
"""


def doubled(s: Stmt) -> list[Stmt]:
    return [s, s] if isinstance(s, AllReduce) else [s]


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A compiler that makes a mistake in each program."""

    def set_up(edit: Callable[[Stmt], list[Stmt]] = doubled) -> None:
        right = pipeline.compile_schedule

        def wrong(*args: object) -> object:
            made = right(*args)  # type: ignore[arg-type]
            return replace(made, program=edited(made.program, edit))

        monkeypatch.setattr(pipeline, "compile_schedule", wrong)

    return set_up


def found_for(text: str, device: str, name: str | None = None) -> tuple[Program, list[Instance]]:
    module = loads(text)
    (op,) = module.ops.values()
    op = bind_params(op, {})
    program = compile_program(module, op, module.schedules[name] if name else None, module.device(device)).program
    return program, instances(program, op)


# ---------------------------------------------------------------- which sizes


def test_sizes_are_odd_one_none_and_not_divided_by_tiles() -> None:
    _, found = found_for(SUM, "cpu:avx2", "s")
    sizes = [tuple(x.sizes.values()) for x in found]
    assert {(1, 1), (0, 5), (3, 0)} <= set(sizes)
    n = {b for _, b in sizes}
    assert n & {16, 32}
    assert any(x > 16 and x % 16 for x in n)
    assert any(x > 48 for x in n), "several tiles, and a part of one"
    assert {x.finite["core"] for x in found} == {1, 2, 3}


def test_bounds_are_reached() -> None:
    _, found = found_for(BOUND, "sm_80", "few")
    n = {x.sizes["N"] for x in found}
    assert {63, 64} <= n
    assert max(n) == 64


def test_the_first_sizes_are_small_odd_numbers() -> None:
    text = "op f[A, B, C, D, E, F, G, H, I](X: f32[A, B, C, D, E, F, G, H, I]) -> (Y: f32[]):\n    "
    _, found = found_for(text + "Y = sum(a, b, c, d, e, f, g, h, i) X[a, b, c, d, e, f, g, h, i]\n", "cpu:generic")
    assert tuple(found[0].sizes.values()) == (3, 5, 7, 2, 3, 5, 2, 3, 3)


@pytest.mark.parametrize(("tile", "size"), [(32, 33), (64, None)])
def test_more_than_a_tile_if_that_is_small(tile: int, size: int | None) -> None:
    _, found = found_for(SUM.replace("tile n: 16\n", f"tile n: {tile}\n").replace("n: 2 -> lane", "n: 1"), "cpu:avx2", "s")
    assert next((x.sizes["N"] for x in found if x.why == "more than a tile of each"), None) == size


def test_sizes_that_the_op_excludes_are_left_out() -> None:
    _, found = found_for(WINDOW, "cpu:generic")
    assert len(found) > 3
    assert all(1 <= x.sizes["R"] <= x.sizes["H"] + 1 for x in found)
    assert any(x.sizes["H"] - x.sizes["R"] + 1 > 5 for x in found)


def test_arguments_that_are_not_aligned_take_the_other_version() -> None:
    text = "op double[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = 2 * X[i]\n"
    program, found = found_for(text, "sm_80")
    assert program.needs is not None
    assert any(x.addresses for x in found)
    module = loads(text)
    said = verify(program, module.ops["double"])
    assert said.versions == (2, 2)
    assert not said.skipped


def test_what_is_left_out_is_told() -> None:
    program, found = found_for(SUM, "cpu:avx2", "s")
    op = loads(SUM).ops["total"]
    whole = verify(program, op)
    assert len(whole.checked) == len(found)
    assert str(whole) == f"right at {len(found)} instances"
    some = verify(program, op, work=100_000)
    assert 0 < len(some.checked) < len(found)
    assert len(some.checked) + len(some.skipped) == len(found)
    assert all(why for _, why in some.skipped)
    assert "left out" in str(some)
    assert "no instance" in str(verify(program, op, work=10))


def test_large_fixed_sizes_have_smaller_ones_in_their_place() -> None:
    assert smaller_sizes({"M": 1000, "N": 7, "K": 33}) == {"M": 8, "N": 7, "K": 9}


# ---------------------------------------------------------------- compile(verify=True)


def test_what_is_right_passes() -> None:
    kernel = andiron.compile(SUM, target="cpu:avx2", verify=True)
    assert any(note.startswith("each point counts once: right at ") for note in kernel.report.notes)
    plain = andiron.compile(SUM, target="cpu:avx2")
    assert not any("counts once" in note for note in plain.report.notes)
    assert plain.source == kernel.source


def test_a_program_that_is_wrong_is_refused_as_our_fault(faulty) -> None:
    faulty()
    with pytest.raises(NotVerified) as raised:
        andiron.compile(SUM, target="cpu:avx2", verify=True)
    error = raised.value
    assert isinstance(error, InternalError)
    assert not isinstance(error, UserError)
    assert error.kind == "not-once"
    assert set(error.sizes) == {"M", "N"}
    said = str(error)
    assert said.startswith("error[internal-not-verified]: schedule `s` for total on cpu:avx2 ")
    assert f"M={error.sizes['M']}, N={error.sizes['N']}, 3 cores" in said
    assert "contributes 8 times" in said
    assert "6 |     keep Y in register" in said, "the line of the schedule"
    assert "2 |     Y[m] = sum(n) X[m, n]" in said, "the statement of the op"
    assert "a fault of Andiron's" in said
    andiron.compile(SUM, target="cpu:avx2")  # nobody looks


def test_what_is_compiled_later_is_checked_then(faulty) -> None:
    kernel = andiron.compile(BOUND, target="emulate:sm_80", verify=True)
    faulty()
    with pytest.raises(NotVerified):
        list(kernel.variants)


def test_what_is_no_program_is_refused_too(faulty) -> None:
    faulty(lambda s: [replace(s, using="nothing")] if isinstance(s, Store) else [s])
    with pytest.raises(NotVerified, match="malformed") as raised:
        andiron.compile(SUM, target="cpu:avx2", verify=True)
    assert raised.value.sizes == {}


def test_fixed_sizes_that_are_too_large_are_told() -> None:
    kernel = andiron.compile(SUM, target="cpu:avx2", verify=True, M=5000, N=5001)
    (note,) = (x for x in kernel.report.notes if "counts once" in x)
    assert "of M=8, N=9, since those asked for are too large" in note
    small = andiron.compile(SUM, target="cpu:avx2", verify=True, M=5, N=7)
    assert "each point counts once: right at 3 instances" in small.report.notes


# ---------------------------------------------------------------- check --verify


@pytest.fixture
def file(tmp_path, monkeypatch) -> Callable[[str], str]:
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))

    def write(text: str) -> str:
        (tmp_path / "x.sched").write_text(text, encoding="utf-8")
        return str(tmp_path / "x.sched")

    return write


def test_each_schedule_and_device_is_checked(file, capsys) -> None:
    blocks = "schedule t for total:\n    tile m: 4 -> block\n    tile m: 1 -> thread\n"
    path = file(SUM + blocks)
    assert cli.main(["check", "--verify", path]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [x.partition(":")[0] for x in said[:3]] == ["s for total on cpu", "t for total on sm_80", "t for total on gfx90a"]
    assert all("right at" in x for x in said[:3])
    assert cli.main(["check", "--verify", "--json", path]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [x["device"] for x in answer["verified"]][:3] == ["cpu:avx2", "sm_80", "gfx90a"]
    first = answer["verified"][0]
    assert (first["op"], first["schedule"]) == ("total", "s")
    assert {"sizes": {"M": 1, "N": 1}, "units": {"core": 3}, "why": "ones"} in first["checked"]
    assert cli.main(["check", "--json", path]) == 0
    assert "verified" not in json.loads(capsys.readouterr().out)


def test_a_fault_of_ours_is_told_as_ours(file, capsys, faulty) -> None:
    faulty()
    path = file(SUM)
    assert cli.main(["check", path]) == 0
    assert cli.main(["check", "--verify", path]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error[internal-not-verified]")
    assert "a fault of Andiron's" in said
    assert cli.main(["check", "--verify", "--json", path]) == 1
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert ("internal-not-verified", 6) in {(x["id"], x["line"]) for x in errors}


def test_an_op_without_values_for_its_parameters_is_named(file, capsys) -> None:
    text = "op far[N](X: f32[N], s: int) -> (Y: f32[N]):\n    Y[i] = X[i + s else 0]\n"
    assert cli.main(["check", "--verify", file(text)]) == 0
    assert "far" in capsys.readouterr().out
    text = text.replace("s: int", "s: int = 2")
    assert cli.main(["check", "--verify", file(text)]) == 0
    assert "right at" in capsys.readouterr().out
