"""The name of a CPU: the threads that are used, and not the cores that a process may use; and earlier names."""

import os

import pytest
from andiron.runtime.native import cpu_features, cpu_name, detect_cpu
from andiron.runtime.storage.cache import key_of
from andiron.runtime.tuning.database.open_database import open_database

from ...support.tuning.measurements import row, task


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with four CPUs, of which two each share their caches; and a function that leaves a process some of them."""
    for cpu in range(4):
        for index, size, sharers in (("1", "32K", cpu // 2), ("2", "512K", cpu // 2), ("3", "8M", 0)):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            facts = {"level": index, "size": size, "type": "Unified"}
            facts["shared_cpu_list"] = "0-3" if index == "3" else f"{2 * sharers}-{2 * sharers + 1}"
            for name, text in facts.items():
                (folder / name).write_text(text)
    plain = detect_cpu.detect_cpu
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(cpu_name, "detect_cpu", lambda **given: plain(tmp_path, **given))

    def leave(cpus):
        monkeypatch.setattr(cpu_name, "usable_cpus", lambda: cpus)
        for cached in (cpu_name._facts, cpu_name._earlier_hashes, cpu_name.todays_name):
            cached.cache_clear()
        return lambda: plain(tmp_path, cpus=cpus)

    yield leave
    leave([0])


def test_usable_cores_are_not_in_it(machine):
    names = []
    for cpus in ([3], [0, 1], [0, 2], [0, 1, 2, 3]):
        machine(cpus)
        names.append((cpu_name.cpu_name(1), cpu_name.cpu_name(4)))
    assert len(set(names)) == 1
    assert names[0][0].endswith(", 1 thread")
    assert names[0][1].endswith(", 4 threads")


def earlier_name(text, threads):
    """As it was made before: of the text of the device with all usable cores."""
    facts = [line for line in text.splitlines() if "clock" not in line and "GFLOP" not in line]
    features = f"{cpu_features.architecture()}-{key_of(cpu_features.identity(), *facts)[:10]}"
    return f"{cpu_features.model() or 'CPU'}, {features}, {threads}"


def test_rows_under_earlier_names_are_found(machine, tmp_path):
    database = open_database(tmp_path / "x.db")
    made = []
    for n, cpus in enumerate(([2], [0, 1], [0, 2], [0, 1, 2], [0, 1, 2, 3])):
        name = earlier_name(machine(cpus)(), "1 thread")
        made.append(row(schedule=f"s{n}", fingerprint=name, seconds=(1e-3 * (n + 1),)))
        assert cpu_name.todays_name(name) == cpu_name.cpu_name(1)
    assert len({m.fingerprint for m in made}) == 5
    others = ["another, 1 thread", made[1].fingerprint.replace("1 thread", "2 threads"), "x, y-0123456789, 1 thread"]
    database.add([*made, *(row(schedule="other", fingerprint=name, seconds=(1e-6,)) for name in others)])
    here = cpu_name.cpu_name(1)
    assert {m.key for m in database.find(task().key, here)} == {m.key for m in made}
    assert [c.schedule for c in database.fastest(task().key, here, 9)] == [f"s{n}" for n in range(5)]
    assert [c.schedule for c in database.nearest(task(63), here)] == ["s0"]
    assert database.summary(task()).best[here] == 1e-3
    assert database.prune(keep=1) == 4
