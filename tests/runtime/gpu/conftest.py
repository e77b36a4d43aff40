"""A fake driver and array libraries in place of those of a GPU."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from andiron.runtime.gpu import arrays, driver
from andiron.runtime.variant import Variant

from ...support.gpu import fake_gpu


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """The fake driver and libraries in place of real ones."""
    fake = fake_gpu.driver(tmp_path)
    monkeypatch.setattr(driver, "_find", lambda kind, *_: fake)
    monkeypatch.setitem(sys.modules, "cupy", fake_gpu.cupy())
    monkeypatch.setitem(sys.modules, "torch", fake_gpu.torch())
    arrays._library.cache_clear()
    count, plain = iter(range(100)), Variant.load

    def load(self: Variant) -> Any:
        if self.target.family.launcher != "driver":
            return plain(self)
        if self.library is None:
            folder = tmp_path / str(next(count))
            folder.mkdir()
            self.library = fake_gpu.code(self, folder)
        return self.library

    monkeypatch.setattr(Variant, "load", load)
    yield fake
    arrays._library.cache_clear()
