"""Entries of measured search in the cache: kept when the process is interrupted or killed, keyed by all that they depend on,
and ignored when they are damaged.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import andiron
import pytest
from andiron.runtime.compile import resolve_request
from andiron.runtime.storage.cache import Cache, cache
from andiron.runtime.tuning.tuning_store import TunedRecord, load_record, record_key, store_record

from ...support.gemm_file import GEMM_OP as GEMM

SIZES = {"M": 61, "N": 47, "K": 33}
TUNE = """
import sys, andiron
from andiron.runtime.tuning import racing
racing.ROUNDS = int(sys.argv[2])
k = andiron.compile(sys.argv[1], M=61, N=47, K=33)
found = k.tune(top=3, say=lambda text: print(text, flush=True))
print("done", found.interrupted)
"""


def tuning(rounds: int, **options) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", TUNE, GEMM, str(rounds)], stdout=subprocess.PIPE, text=True, **options)


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(text):
            return
    raise AssertionError(f"it ended without saying {text}")


def children(pid: int) -> list[int]:
    try:
        return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def test_killed_it_leaves_a_sound_cache():
    with tuning(1 << 20) as process:
        wait_for(process, "round 5")
        workers = children(process.pid)
        process.kill()
    found = [e for e in cache().entries() if e.info.get("kind") == "tuned"]
    assert all(cache().get(e.key) for e in cache().entries())
    assert len(found) <= 1
    assert andiron.compile(GEMM, tune=2, **SIZES).tuned.asked == 2  # what was left counts as not finished
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{w}").exists() for w in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{w}").exists() for w in workers)


def test_ctrl_c_keeps_the_best_so_far():
    with tuning(1 << 20) as process:
        wait_for(process, "round 3")
        process.send_signal(signal.SIGINT)
        wait_for(process, "done interrupted")
        assert process.wait(60) == 0
    assert andiron.compile(GEMM, **SIZES).tuned is not None


def test_two_at_once():
    first, second = tuning(3), tuning(3)
    with first, second:
        assert "done" in first.communicate(timeout=300)[0]
        assert "done" in second.communicate(timeout=300)[0]
    assert andiron.compile(GEMM, **SIZES).tuned is not None
    assert sum(e.info.get("kind") == "tuned" for e in cache().entries()) == 1


def test_an_entry_is_replaced_at_once(tmp_path):
    kept_in = Cache(tmp_path / "here")
    for text in ("one", "two"):
        made = kept_in.put("k", lambda folder, text=text: {"wrote": (folder / "f").write_text(text)})
        assert (made.path / "f").read_text() == text
    assert len(kept_in.entries()) == 1


FOUND = TunedRecord("schedule s for gemm:\n    tile m: 3 -> core\n    compute\n", 0, 1e-3, 2e-3, 5, 5, SIZES, "2026-01-01")


@pytest.mark.parametrize(
    "bad", ["no schedule", "schedule s for gemm:\n    tile q: 3\n", "schedule s for gemm:\n    move A -> shared\n", ""]
)
def test_an_entry_that_does_not_fit_any_more_is_passed_over(bad):
    request = resolve_request(GEMM, given=SIZES)
    store_record(request, FOUND)
    assert "tile m: 3 -> core" in andiron.compile(GEMM, **SIZES).schedule
    store_record(request, TunedRecord(bad, *list(vars(FOUND).values())[1:]))
    assert andiron.compile(GEMM, **SIZES).schedule == andiron.compile(GEMM, tune=0, **SIZES).schedule


def test_a_damaged_entry_is_passed_over():
    request = resolve_request(GEMM, given=SIZES)
    store_record(request, FOUND)
    entry = cache().get(record_key(request))
    (entry.path / "tuned.json").write_text(json.dumps({"schedule": "schedule"}))
    assert load_record(request) is None


def test_the_key_holds_what_it_must():
    """Comments do not matter; every number, line, target and device does."""
    keys = {
        record_key(resolve_request(text, target=target, given=sizes))
        for text in (GEMM, GEMM.replace("* B", "* 2.0 * B"))
        for target in ("cpu", "cpu:avx2", "cuda:sm_80", "cuda:sm_90a")
        for sizes in (SIZES, {}, {"M": 61})
    }
    assert len(keys) == 24
    assert record_key(resolve_request("# a comment\n" + GEMM, given=SIZES)) == record_key(resolve_request(GEMM, given=SIZES))
    devices = [f"device cpu:mine extends cpu:avx2:\n    level core: finite {n}\n\n" for n in (2, 3)]
    assert len({record_key(resolve_request(d + GEMM, target="cpu:mine", given=SIZES)) for d in devices}) == 2


def test_nothing_is_looked_up_in_a_cache_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "nowhere" / "at" / "all"))
    assert andiron.compile(GEMM, **SIZES).tuned is None
    assert not os.path.exists(tmp_path / "nowhere")
