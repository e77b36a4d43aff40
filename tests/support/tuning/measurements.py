"""Measurements that nobody took, for tests of the database."""

from andiron.runtime.tuning.database.measurement import Measurement, Task

MACHINE = "CPU of tests, 4 threads"
OP = "op scale[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = 2 * X[i]\n"


def task(n=64, **open_sizes):
    return Task(OP, "scale", {"N": n}, "cpu", "device cpu:tests", open_sizes)


def row(n=64, schedule="schedule s for scale:\n    compute\n", seconds=(2e-3, 1e-3, 3e-3, 4e-3, 5e-3), **fields):
    given = {"verdict": "right", "run": "one", "time": "2026-11-01T12:00:00Z", "host": "here", **fields}
    return Measurement(task(n), schedule, given.pop("fingerprint", MACHINE), "cc 1", samples=seconds, **given)


def rows(count, run="one", n=64):
    return [row(n, f"schedule s{i} for scale:\n    compute\n", (1e-3 + i * 1e-6,), run=run) for i in range(count)]
