"""Schedules that strategies make long: taken in proportion, or refused with a number, in little time."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import Store
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.codegen.schedule import elaborate
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

from ...support.count_calls import calls

OP = "op double[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] * 2.0\n"


def doubling(n: int, first: str) -> str:
    """n strategies, each of which applies the one before twice."""
    text = f"strategy s0():\n    {first}\n"
    text += "".join(f"strategy s{k}():\n    apply s{k - 1}()\n    apply s{k - 1}()\n" for k in range(1, n))
    return OP + text + f"schedule long for double:\n    apply s{n - 1}()\n"


def refusal(text: str) -> UserError:
    module = loads(text)
    with pytest.raises(UserError) as found:
        compile_program(module, module.ops["double"], module.schedules["long"], module.device("cpu:avx2"))
    return found.value


def test_a_long_row_of_strategies_is_no_deep_recursion():
    """Also where the schedule is only looked at, whether it may be the default."""
    text = (
        OP + "".join(f"strategy s{k}(x):\n    apply s{k + 1}(x)\n" for k in range(3000)) + "strategy s3000(x):\n    tile x: 4\n"
    )
    with pytest.raises(UserError, match="more than 20 strategies apply one another in a row"):
        andiron.compile(text + "schedule long for double:\n    apply s0(i)\n", target="cpu:avx2")


@pytest.mark.parametrize("first", ["tile i: 4", "auto"])
def test_strategies_that_double(first):
    text = doubling(18, first)
    module, device = loads(text), loads(text).device("cpu:avx2")
    found = []

    def attempt():
        try:
            compile_program(module, module.ops["double"], module.schedules["long"], device)
        except UserError as error:
            found.append(error)

    assert calls(attempt) < 200_000
    (error,) = found
    assert error.id == "schedule-too-many-lines"
    assert str(elaborate.MOST_LINES) in error.message
    assert error.span is not None
    assert error.span.text == "apply s17()"


def test_a_chain_of_strategies():
    text = OP + "strategy s0():\n    tile i: 4\n"
    text += "".join(f"strategy s{k}():\n    apply s{k - 1}()\n" for k in range(1, 400))
    assert refusal(text + "schedule long for double:\n    apply s399()\n").id == "schedule-too-many-lines"


def test_more_tiles_than_hardware_has_levels():
    lines = "".join(f"    tile i: {4096 - k}\n" for k in range(elaborate.MOST_TILES + 1))
    error = refusal(OP + f"schedule long for double:\n{lines}")
    assert error.id == "schedule-too-many-lines"
    assert error.span is not None
    assert error.span.text == f"tile i: {4096 - elaborate.MOST_TILES}"


def test_as_many_as_there_may_be():
    n = elaborate.MOST_TILES
    lines = "".join(f"    tile i: {1 << (n - k)}\n" for k in range(n))
    module = loads(OP + f"schedule long for double:\n{lines}")
    for name in ("cpu:avx2", "sm_80"):
        compile_program(module, module.ops["double"], module.schedules["long"], module.device(name))


ROWS = "op rows[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[i] = sum(j) X[i, j]\n"


def peeled(n: int, sizes: dict[str, int] | None = None):
    """Rows under n tiles, none of which divides the one above, each of them peeled."""
    lines = "".join(f"    tile i: {3 * 2 ** (n - k) - 1} peel\n" for k in range(n))
    module = loads(f"{ROWS}schedule long for rows:\n{lines}    compute\n")
    op = specialise(module.ops["rows"], sizes or {})
    return compile_program(module, op, module.schedules["long"], module.device("cpu:generic")).program


def test_remainders_are_not_peeled_again_and_again():
    """Copies are as many as pairs of lines, not as sets of lines."""

    def copies(n: int) -> int:
        return sum(isinstance(s, Store) and s.buffer == "Y" for x in peeled(n).launches for s in statements(x.body))

    assert copies(1) == 2
    assert copies(2) == 4
    for n in (4, 6):
        assert n < copies(n) <= 1 + n + n * (n - 1) // 2  # where a remainder cannot be, it is not written


@pytest.mark.parametrize("rows", [0, 1, 5, 23, 47, 120])
def test_peeled_rows_are_right(rows):
    x = np.random.default_rng(rows).integers(-4, 5, (rows, 3)).astype("f4")
    for program in (peeled(5), peeled(5, {"M": rows})):
        np.testing.assert_array_equal(interpret(program, {"X": x})["Y"], x.sum(1))
