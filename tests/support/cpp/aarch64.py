"""Emitted C++ for AArch64: cross-compiled by zig, run under qemu's user mode where that is installed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
from andiron.codegen.abi import FLAGS

from .build import folder

QEMU = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
_ZIG = (sys.executable, "-m", "ziglang", "c++", "-nostdlib++", "-mcpu=generic")

# Reads dims, threads and arguments from a file, calls the kernel, writes the arguments back.
_MAIN = """
#include <stdio.h>
int main(int, char** files) {
    FILE* f = fopen(files[1], "rb+");
    int64_t head[3], dims[64], bytes;
    void* args[64];
    if (f == NULL || fread(head, 8, 3, f) != 3 || fread(dims, 8, (size_t)head[1], f) != (size_t)head[1]) return 90;
    const long start = ftell(f);
    for (int i = 0; i < head[0]; i++) {
        if (fread(&bytes, 8, 1, f) != 1) return 91;
        args[i] = malloc((size_t)bytes + 64);
        if (fread(args[i], 1, (size_t)bytes, f) != (size_t)bytes) return 92;
    }
    const int status = NAME(args, dims, (int)head[2]);
    fseek(f, start, SEEK_SET);
    for (int i = 0; i < head[0]; i++) {
        if (fread(&bytes, 8, 1, f) != 1) return 93;
        fseek(f, 0, SEEK_CUR);
        fwrite(args[i], 1, (size_t)bytes, f);
        fseek(f, 0, SEEK_CUR);
    }
    fclose(f);
    return status;
}
"""


def compiles(text: str) -> None:
    """Without a warning, for a plain ARMv8 machine."""
    source = _written(text)
    command = [*_ZIG, "-target", "aarch64-linux-gnu", *FLAGS, "-Wall", "-Wextra", "-Werror", "-fPIC", "-c"]
    done = subprocess.run([*command, str(source), "-o", str(source.with_suffix(".o"))], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\n{text}"


@cache
def build_arm(text: str, name: str):
    """A function of (arrays, values of dims, threads) that runs the kernel under qemu; returns its status."""
    source = _written(text + _MAIN.replace("NAME", name))
    program = source.with_suffix(".exe")
    command = [*_ZIG, "-target", "aarch64-linux-musl", "-static", *FLAGS, str(source), "-o", str(program), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    def call(arrays: list[np.ndarray], dims: list[int], threads: int) -> int:
        data = source.with_suffix(".data")
        parts = [np.array([len(arrays), len(dims), threads, *dims], np.int64).tobytes()]
        for a in arrays:
            parts += [np.int64(a.nbytes).tobytes(), np.ascontiguousarray(a).tobytes()]
        data.write_bytes(b"".join(parts))
        done = subprocess.run([str(QEMU), str(program), str(data)], capture_output=True, text=True)
        assert done.returncode < 90 or done.returncode >= 100, done.returncode
        got, at = data.read_bytes(), 8 * (3 + len(dims))
        for a in arrays:
            at += 8
            if a.flags.writeable:
                a[...] = np.frombuffer(got, a.dtype, a.size, at).reshape(a.shape) if a.size else a
            at += a.nbytes
        return done.returncode

    return call


def _written(text: str) -> Path:
    source = folder() / f"arm-{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp"
    source.write_text(text)
    return source
