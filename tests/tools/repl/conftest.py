"""A session with a schedule that is begun."""

from __future__ import annotations

import pytest

from ...support.repl import GEMM, Talk


@pytest.fixture
def talk() -> Talk:
    return Talk(GEMM, "schedule s for gemm on cpu:avx2:", "size M=100 N=64 K=32")
