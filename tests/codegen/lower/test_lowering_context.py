"""Messages name tensors of the op, and none that lowering adds."""

from __future__ import annotations

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads

SUM = """
op t[M, N](X: f32[M, N], W: f32[M]) -> (Y: f32[M], Z: f32[M]):
    Y[i] = sum(j) X[i, j]
    Z[i] = W[i] * 2.0
schedule s for t:
    tile i: 4 -> block
    tile j: 512 -> block by workspace
    LINE
    compute
"""


@pytest.mark.parametrize("line", ["keep X in register", "keep W in register"])
def test_no_name_of_a_workspace_is_proposed(line: str) -> None:
    module = loads(SUM.replace("LINE", line))
    with pytest.raises(UserError) as caught:
        compile_program(module, module.ops["t"], module.schedules["s"], module.device("sm_80"))
    assert caught.value.help == f"it is an input: `move {line.split()[1]} -> register` stages it"
