"""Files that commands read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support.gemm_file import GEMM


@pytest.fixture
def gemm(tmp_path: Path) -> str:
    path = tmp_path / "gemm.sched"
    path.write_text(GEMM)
    return str(path)
