"""What a refusal for capacity compiles: the program once, and other sizes for its way out as little as they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from andiron.codegen import lower_launches, passes
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserErrors
from andiron.dsl.errors.schedule import CapacityExceeded
from andiron.dsl.module import loads

TWO_LAUNCHES = """import std.devices.nvidia
op f[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N], R: f32[M]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
    R[m] = sum(n) C[m, n] * C[m, n]
schedule s for f:
"""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a function of the compiler was called, by its name."""
    count: Counter[str] = Counter()

    def count_calls(module: Any, name: str) -> None:
        original: Callable = getattr(module, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            count[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, counting)

    count_calls(lower_launches, "complete")
    count_calls(passes, "lower_all")
    return count


def refused(lines: str, device: str = "sm_80", text: str = TWO_LAUNCHES) -> CapacityExceeded | UserErrors:
    module = loads(text + "".join(f"    {x}\n" for x in lines.split(" / ")))
    with pytest.raises((CapacityExceeded, UserErrors)) as caught:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device(device))
    return caught.value


LARGE = "tile m: 256, n: 256 -> block / keep C in register / tile k: 16 / tile m: 32, n: 32 -> thread / compute"


LARGE = "tile m: 256, n: 256 -> block / keep C in register / tile k: {} / {}tile m: 32, n: 32 -> thread / compute"


def test_choices_for_another_launch_are_made_once(counted) -> None:
    """They have nothing to do with it: no other one is tried, and the way out asks for none."""
    assert refused(LARGE.format(16, "")).help == "`tile m: 4` would need 128 registers"
    assert counted["complete"] == counted["lower_all"] + 1


def test_what_was_tried_for_one_memory_is_not_tried_for_another(counted) -> None:
    error = refused(LARGE.format(128, "move A -> shared / move B -> shared / "))
    assert isinstance(error, UserErrors)
    assert [x.help for x in error.errors] == ["`tile m: 4` would need 128 registers", "`tile k: 64` would need 128 KiB"]
    assert counted["lower_all"] == 1 + 6  # the size of `k` that is enough for shared memory is one that registers ask for
