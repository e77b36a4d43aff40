"""The cache: atomic, checked, bounded, safe for many processes, never fatal."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import pytest
from andiron.runtime.storage import cache as cache_module
from andiron.runtime.storage.cache import LIMIT, Cache, default_root, key_of
from andiron.runtime.storage.cache_entry import entries_of


def maker(text="hello", calls=None):
    def make(folder):
        if calls is not None:
            calls.append(1)
        (folder / "file").write_text(text)
        return {"what": text}

    return make


def test_made_once_then_found(tmp_path):
    cache, calls = Cache(tmp_path), []
    entry, made = cache.get_or_make("k", maker(calls=calls))
    again, made_again = cache.get_or_make("k", maker(calls=calls))
    assert (made, made_again, len(calls)) == (True, False, 1)
    assert again.path == entry.path
    assert (entry.path / "file").read_text() == "hello"
    assert entry.info == {"what": "hello"}
    assert list((tmp_path / "building").iterdir()) == []


def test_keys_tell_lists_of_parts_apart():
    keys = {key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("ab", "c", ""), key_of(b"ab", "d")}
    assert len(keys) == 5
    assert key_of("ab", ("x", 1)) == key_of("ab", ("x", 1))


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "record"])
def test_a_damaged_entry_is_rebuilt(tmp_path, damage):
    cache = Cache(tmp_path)
    entry, _ = cache.get_or_make("k", maker())
    file, record = entry.path / "file", entry.path / "entry.json"
    match damage:
        case "truncate":
            os.truncate(file, 2)
        case "flip":
            file.write_text("hellO")
        case "remove":
            file.unlink()
        case "record":
            record.write_text(record.read_text()[:20])
    with pytest.warns(RuntimeWarning, match="is damaged: it was removed"):
        assert cache.get("k") is None
    entry, made = cache.get_or_make("k", maker())
    assert made
    assert (entry.path / "file").read_text() == "hello"


def test_every_flipped_bit_of_a_record_is_seen(tmp_path):
    """Or changes nothing that it says."""
    cache = Cache(tmp_path)
    entry, _ = cache.get_or_make("k", maker())
    record = (entry.path / "entry.json").read_bytes()
    rng = random.Random(0)
    lost = 0
    for at in rng.sample(range(8 * len(record)), 200):
        entry.path.mkdir(exist_ok=True)
        (entry.path / "file").write_text("hello")
        bad = bytearray(record)
        bad[at // 8] ^= 1 << at % 8
        (entry.path / "entry.json").write_bytes(bad)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = cache.get("k")
        lost += found is None
        assert found is None or (found.info == {"what": "hello"} and json.loads(bad) == json.loads(record))
    assert lost > 180


def test_bounded_and_the_least_recently_used_goes(tmp_path):
    cache = Cache(tmp_path, limit=250)
    for i, name in enumerate("abc"):
        cache.get_or_make(name, maker("x" * 100)) if name != "c" else None
        if name != "c":
            os.utime(tmp_path / "entries" / name / "entry.json", (1000 + i, 1000 + i))
    assert cache.get("a")  # used now, so b is the oldest
    cache.get_or_make("c", maker("x" * 100))
    assert sorted(e.key for e in cache.entries()) == ["a", "c"]


def test_an_entry_larger_than_the_limit_is_kept_while_it_is_the_newest(tmp_path):
    cache = Cache(tmp_path, limit=10)
    entry, _ = cache.get_or_make("a", maker("x" * 100))
    assert (entry.path / "file").exists()
    cache.get_or_make("b", maker("y" * 100))
    assert [e.key for e in cache.entries()] == ["b"]


def test_entries_are_looked_through_only_where_the_limit_may_be_passed(tmp_path, monkeypatch):
    """Else each new entry of a cache with thousands takes seconds. Two processes add to one sum."""
    looked = []
    monkeypatch.setattr(cache_module, "entries_of", lambda root: looked.append(root) or entries_of(root))
    one, other = Cache(tmp_path, limit=1000), Cache(tmp_path, limit=1000)
    for i in range(10):
        (one, other)[i % 2].get_or_make(f"{i}", maker("x" * 100))
    assert len(looked) == 1
    one.get_or_make("10", maker("x" * 100))
    assert len(looked) == 2
    assert sum(e.bytes for e in one.entries()) == 900
    (tmp_path / "locks" / "bytes").write_text("no number")
    other.get_or_make("11", maker("x" * 100))
    assert len(looked) == 4  # `entries` above is one


def test_clear(tmp_path):
    cache = Cache(tmp_path)
    cache.get_or_make("a", maker("12345"))
    assert cache.clear() == (1, 5)
    assert cache.entries() == []
    assert cache.get_or_make("a", maker())[1]


def test_a_failure_leaves_nothing(tmp_path):
    def fail(folder):
        (folder / "half").write_text("x")
        raise ValueError("no")

    cache = Cache(tmp_path)
    with pytest.raises(ValueError, match="no"):
        cache.get_or_make("a", fail)
    assert cache.entries() == []
    assert list((tmp_path / "building").iterdir()) == []


def test_a_folder_that_cannot_be_written_warns_once_and_works(tmp_path):
    # A file where the folder should be: even root cannot make a folder under it.
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="ANDIRON_CACHE"):
        entry, made = cache.get_or_make("a", maker())
    assert made
    assert (entry.path / "file").read_text() == "hello"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not cache.get_or_make("a", maker())[1]
        assert cache.get_or_make("b", maker())[1]
    assert cache.entries() == []


def test_a_missing_folder_is_made(tmp_path):
    assert Cache(tmp_path / "not" / "yet").get_or_make("a", maker())[1]


def test_a_full_disk_warns_and_works(tmp_path):
    cache = Cache(tmp_path)

    def make(folder):
        if folder.is_relative_to(tmp_path):
            raise OSError(28, "No space left on device")
        return maker()(folder)

    with pytest.warns(RuntimeWarning, match="No space left"):
        entry, made = cache.get_or_make("a", make)
    assert made
    assert not entry.path.is_relative_to(tmp_path)
    assert list((tmp_path / "building").iterdir()) == []


LIMITED = """
    import resource, signal, sys, tempfile, pathlib, warnings
    from andiron.runtime.storage import cache as c
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    warnings.simplefilter("always")
    def make(folder):
        if folder.is_relative_to(pathlib.Path(sys.argv[1])):
            (folder / "file").write_text("x" * 100000)
        return {}
    entry, made = c.Cache(pathlib.Path(sys.argv[1])).get_or_make("a", make)
    print(made, entry.path)
"""


def test_a_write_that_the_system_cuts_short(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("True")
    assert "cannot be written" in done.stderr
    assert Cache(tmp_path).entries() == []


SLOW = """
    import pathlib, sys, time
    from andiron.runtime.storage.cache import Cache
    def make(folder):
        (folder / "file").write_text("half")
        print("building", flush=True)
        time.sleep(float(sys.argv[2]))
        (folder / "file").write_text("whole")
        return {}
    print(Cache(pathlib.Path(sys.argv[1])).get_or_make("a", make)[1])
"""


def slow(root, seconds):
    command = [sys.executable, "-c", textwrap.dedent(SLOW), str(root), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_process_killed_while_it_builds_breaks_nothing(tmp_path):
    victim = slow(tmp_path, 60)
    assert victim.stdout.readline() == "building\n"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    cache = Cache(tmp_path)
    assert cache.get("a") is None
    assert len(list((tmp_path / "building").iterdir())) == 1
    for left in (tmp_path / "building").iterdir():
        os.utime(left, (time.time() - 7200,) * 2)
    entry, made = cache.get_or_make("a", maker())  # the lock died with the process
    assert made
    assert entry.info == {"what": "hello"}
    assert list((tmp_path / "building").iterdir()) == []  # swept


def test_many_processes_build_an_entry_once(tmp_path):
    crowd = [slow(tmp_path, 0.5) for _ in range(3)]
    said = "".join(p.communicate(timeout=60)[0] for p in crowd)
    assert said.count("building") == 1
    assert sorted(said.split()) == ["False", "False", "True", "building"]
    assert (Cache(tmp_path).get("a").path / "file").read_text() == "whole"


def test_two_that_build_the_same_without_a_lock_agree(tmp_path):
    cache = Cache(tmp_path)

    def make(folder):
        Cache(tmp_path)._make(tmp_path, "a", maker("theirs"))  # it wins the race
        return maker("ours")(folder)

    entry, _ = cache.get_or_make("a", make)
    assert (entry.path / "file").read_text() == "theirs"


def test_the_record_is_readable(tmp_path):
    entry, _ = Cache(tmp_path).get_or_make("a", maker())
    record = json.loads((entry.path / "entry.json").read_text())
    assert record["key"] == "a"
    assert record["files"]["file"][0] == 5


def test_the_environment_moves_it(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "here"))
    assert default_root() == tmp_path / "here"
    monkeypatch.delenv("ANDIRON_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform.startswith("linux"):
        assert default_root() == tmp_path / "andiron"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the convention
        assert default_root().is_absolute()


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", LIMIT),
        ("0", 0),
        (" 12345 ", 12345),
        ("1G", 1 << 30),
        ("500M", 500 << 20),
        ("500 MiB", 500 << 20),
        ("1.5k", 1536),
        ("2TB", 2 << 40),
    ],
)
def test_the_limit_as_people_write_it(tmp_path, monkeypatch, text, limit):
    monkeypatch.setenv("ANDIRON_CACHE_LIMIT", text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Cache(tmp_path).limit == limit


@pytest.mark.parametrize("text", ["\u00b2", "\u0663", "-1", "abc", "1e9", "1P", "1 000", ".5G", "9" * 5000, "x\x1b"])
def test_a_limit_that_is_none_is_told_once(tmp_path, monkeypatch, text):
    monkeypatch.setattr(cache_module, "_told", set())
    monkeypatch.setenv("ANDIRON_CACHE_LIMIT", text)
    with pytest.warns(RuntimeWarning, match="ANDIRON_CACHE_LIMIT is .*a number of bytes, or one with K") as caught:
        assert Cache(tmp_path).limit == Cache(tmp_path).limit == LIMIT
    assert len(caught) == 1
    assert "\x1b" not in str(caught[0].message)
