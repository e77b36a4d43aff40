"""What commands write: files are replaced in one step, anything else is written to."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import andiron
import pytest
from andiron.dsl.errors.target import CannotWrite
from andiron.runtime.storage.files import write_bytes, write_text

SCALE = "op scale[N](x: f32[N]) -> (y: f32[N]):\n    y[i] = x[i] * 2.0\n"


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a longer text than the new one")
    path.chmod(0o640)
    before = path.stat().st_ino
    write_text(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.stat().st_ino != before
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(path.read_bytes)
        write_bytes(path, b"through the pipe")
        assert read.result(60) == b"through the pipe"
        assert stat.S_ISFIFO(path.stat().st_mode)
        read = pool.submit(path.read_bytes)
        andiron.compile(SCALE, target="cpu:generic").save(path)
        assert len(read.result(60)) > 100
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="cannot write"):
        write_text(tmp_path, "text")
    assert not os.listdir(tmp_path)
