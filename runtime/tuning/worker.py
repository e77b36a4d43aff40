"""The process in which candidates run: a crash or an endless loop ends this process, and not the search.

It reads requests from its input and answers each on its output, both pickled: (request, arguments...) and ("ok", value),
("error", text), or ("unable", text) where there was no memory. It ends with its input, or with the process that started it.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...codegen import abi
from ..arrays.bind_sizes import bind_sizes, output_shapes
from ..gpu.device_code import DeviceCode
from ..kernel import Kernel
from ..native.build_library import load_library_bytes
from ..random_inputs import random_inputs
from ..timing import BURSTS, seconds
from ..variant import Variant
from .worker_client import NO_MEMORY

_POISONS = (0xFF, 0x5B)  # bytes of outputs before a call; the first is NaN in every float type


class Worker:
    """Kernels by number, and the inputs that all of them get."""

    def __init__(self) -> None:
        self.inputs: list[np.ndarray] = []
        self.kernels: dict[int, tuple[Kernel, list[Any], Any]] = {}

    def take(self, inputs: list[np.ndarray]) -> None:
        self.inputs = inputs

    def random(self, op: Any, dims: Mapping[str, int], seed: int) -> None:
        self.inputs = random_inputs(op, dims, seed)

    def load(
        self,
        number: int,
        op: Any,
        parts: Sequence[tuple[Any, ...]],
        sizes: Mapping[str, int],
        threads: int | None,
        libraries: Sequence[bytes | DeviceCode | None],
    ) -> None:
        """A kernel of variants; each part is (program, text, schedule, target), and what was built of it elsewhere, or None."""
        variants = [Variant(*part) for part in parts]
        for variant, library in zip(variants, libraries, strict=True):
            if isinstance(library, bytes):
                variant.library = load_library_bytes(library, abi.symbol(variant.program), "another process")
            elif library is not None:
                variant.library = library
        if variants[0].target.family.launcher == "driver":
            from ..gpu.kernel import DeviceKernel

            kernel: Kernel = DeviceKernel(op, variants, sizes)
        else:
            kernel = Kernel(op, variants, sizes, threads)
        self.kernels[number] = (kernel.prepare(), kernel.place(self.inputs), None)

    def check(self, number: int) -> tuple[float, list[list[np.ndarray]]]:
        """Seconds of the first call, and the outputs of calls into memory that was filled before: one for each filling.

        What is not a float is computed twice: no one filling is a value that cannot be right.
        """
        kernel, placed, _ = self.kernels[number]
        op = kernel.op
        shapes = output_shapes(op, bind_sizes(op, [x.shape for x in self.inputs], kernel.sizes))
        exact = all(t.dtype.kind == "float" for t in op.outputs)
        results, took, out = [], 0.0, []
        for poison in _POISONS[: 1 if exact else 2]:
            arrays = [_filled(shape, t.dtype.numpy, poison) for shape, t in zip(shapes, op.outputs, strict=True)]
            out = kernel.place(arrays, outputs=True)
            start = time.perf_counter()
            kernel(*placed, out=out[0] if len(out) == 1 else tuple(out))
            kernel.wait()
            took = time.perf_counter() - start
            results.append(kernel.fetch(out))
        self.kernels[number] = kernel, placed, out[0] if len(out) == 1 else tuple(out)
        return took, results

    def time(self, number: int, count: int) -> float:
        """Seconds of a call, of `count` one after another; one before is not counted. The best of a few such samples: whatever
        else the machine does only ever adds to the time."""
        kernel, placed, out = self.kernels[number]

        def call() -> None:
            kernel(*placed, out=out)

        seconds(call, 1, kernel.wait)
        return min(seconds(call, count, kernel.wait) for _ in range(BURSTS)) / count

    def drop(self, number: int) -> None:
        self.kernels.pop(number, None)


def _filled(shape: tuple[int, ...], dtype: np.dtype, poison: int) -> np.ndarray:
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8).fill(poison)
    return array


def main() -> None:
    """Answers until there is nothing more to read."""
    parent = os.getppid()
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    worker = Worker()
    while True:
        try:
            what, *arguments = pickle.load(requests)
        except EOFError:
            return
        except MemoryError:
            os._exit(NO_MEMORY)
        try:
            answer = ("ok", getattr(worker, what)(*arguments))
        except MemoryError as error:
            answer = ("unable", str(error) or "no memory")
        except Exception as error:
            answer = ("error", getattr(error, "message", None) or f"{type(error).__name__}: {error}")
        try:
            pickle.dump(answer, answers, protocol=5)
        except MemoryError:  # half of it may be on its way
            os._exit(NO_MEMORY)
        answers.flush()


def _leave_with(parent: int) -> None:
    """A kernel that does not end must not outlive the search."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
