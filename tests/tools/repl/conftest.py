"""A session with a schedule that is begun."""

from __future__ import annotations

import pytest

from ...support.gemm_file import GEMM_OP as GEMM
from ...support.repl import Talk


@pytest.fixture
def talk() -> Talk:
    return Talk(GEMM, "schedule s for gemm on cpu:avx2:", "size M=100 N=64 K=32")
