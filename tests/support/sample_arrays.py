"""Arrays for calls: of ones, of counted elements, and of a foreign library."""

from __future__ import annotations

import numpy as np


def ones(*shape):
    return np.ones(shape, np.float32)


def counted(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


class Foreign:
    """An array of a library that speaks DLPack."""

    __module__ = "numpy_speaking.thing"

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device

    def __array_namespace__(self):
        class Namespace:
            @staticmethod
            def from_dlpack(x):
                return Foreign(np.from_dlpack(x))

        return Namespace
