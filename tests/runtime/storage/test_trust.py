"""Who else may write the cache: nothing of theirs is loaded."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import andiron
import numpy as np
import pytest
from andiron.runtime.storage import trust
from andiron.runtime.storage.cache import Cache
from andiron.runtime.storage.trust import folder_fault

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users as POSIX has them")
root = pytest.mark.skipif(getattr(os, "getuid", lambda: 1)() != 0, reason="only root gives files away")
SCALE = "op scale[N](x: f32[N]) -> (y: f32[N]):\n    y[i] = x[i] * 2.0\n"


def make(folder):
    (folder / "file").write_text("good")
    return {}


@pytest.fixture(autouse=True)
def no_group_of_our_own(monkeypatch):
    """Groups have other members, whoever runs these tests."""
    monkeypatch.setattr(trust, "_only_us", lambda group: False)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "above" / "cache"
    place.mkdir(parents=True)
    for path in (place, place.parent):
        path.chmod(0o755)
    return place


def test_what_only_we_may_write_is_trusted(folder, tmp_path):
    assert folder_fault(folder) is None
    assert folder_fault(folder / "not" / "there") is None
    (tmp_path / "link").symlink_to(folder)
    assert folder_fault(tmp_path / "link" / "entries") is None


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
@pytest.mark.parametrize("above", [False, True])
def test_a_folder_that_others_may_write(folder, tmp_path, mode, above):
    place = folder.parent if above else folder
    place.chmod(mode)
    (tmp_path / "link").symlink_to(folder)
    for way in (folder, tmp_path / "link"):
        why = folder_fault(way)
        if above and mode & 0o1000:
            assert why is None  # sticky: each may only replace what is theirs
        else:
            assert f"chmod go-w {place}" in why or f"chmod go-w {way}" in why


def test_a_group_of_one_is_nobody_else(folder, monkeypatch):
    folder.chmod(0o775)
    monkeypatch.setattr(trust, "_only_us", lambda group: group == folder.stat().st_gid)
    assert folder_fault(folder) is None


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert "circle" in folder_fault(tmp_path / "a" / "cache")


@root
def test_folders_links_and_entries_of_another_user(folder, tmp_path):
    os.chown(folder, 12345, 12345)
    assert "belongs to user 12345; ANDIRON_CACHE" in folder_fault(folder)
    os.chown(folder, 0, 0)
    os.chown(folder.parent, 12345, 12345)
    assert f"{folder.parent} belongs to user 12345" in folder_fault(folder)
    os.chown(folder.parent, 0, 0)
    link = tmp_path / "link"
    link.symlink_to(folder)
    os.lchown(link, 12345, 12345)
    assert f"the link {link} belongs to" in folder_fault(link)


def test_nothing_is_loaded_from_there_and_it_is_said(folder):
    Cache(folder).get_or_make("k", make)
    folder.chmod(0o777)
    cache = Cache(folder)
    with pytest.warns(RuntimeWarning, match=f"nothing is loaded from the cache folder {folder}.*chmod go-w {folder}"):
        assert cache.get("k") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        entry, made = cache.get_or_make("k", make)
        assert made
        assert folder not in entry.path.parents
        assert cache.get("k").path == entry.path
        assert cache.folder("zig").is_relative_to(entry.path.parent.parent)


@pytest.mark.parametrize("which", ["", "file", "entry.json"])
def test_an_entry_that_others_may_write_is_made_again(tmp_path, which):
    cache = Cache(tmp_path / "cache")
    entry, _ = cache.get_or_make("k", make)
    (entry.path / which).chmod(0o777)
    with pytest.warns(RuntimeWarning, match="could have been written by others: it was removed"):
        assert cache.get("k") is None
    assert cache.get_or_make("k", make)[1]


def test_an_entry_that_is_a_link_is_made_again(tmp_path):
    cache = Cache(tmp_path / "cache")
    entry, _ = cache.get_or_make("k", make)
    (entry.path / "file").rename(tmp_path / "elsewhere")
    (entry.path / "file").symlink_to(tmp_path / "elsewhere")
    with pytest.warns(RuntimeWarning, match="it was removed"):
        assert cache.get("k") is None


def test_what_is_made_is_ours_whatever_the_mask(tmp_path):
    before = os.umask(0)
    try:
        entry, _ = Cache(tmp_path / "a" / "cache").get_or_make("k", make)
    finally:
        os.umask(before)
    for path in (entry.path, *entry.path.iterdir(), entry.path.parent, entry.path.parent.parent):
        assert not path.stat().st_mode & 0o022, path
    (tmp_path / "a").chmod(0o755)
    assert Cache(tmp_path / "a" / "cache").get("k") is not None


def test_a_kernel_with_such_a_cache_computes(folder, monkeypatch):
    folder.chmod(0o777)
    monkeypatch.setenv("ANDIRON_CACHE", str(folder))
    x = np.ones(4, np.float32)
    with pytest.warns(RuntimeWarning, match="chmod go-w"):
        np.testing.assert_array_equal(andiron.compile(SCALE)(x), 2 * x)
    assert list(folder.iterdir()) == []


def test_a_relative_name_stays_where_it_was_when_it_was_first_used(tmp_path):
    """From whatever folder compilers are started, and wherever the process goes."""
    program = f"""
import os, numpy as np, andiron
x = np.ones(4, np.float32)
k = andiron.compile({SCALE!r})
assert (k(x) == 2 * x).all()
os.mkdir("other")
os.chdir("other")
k = andiron.compile({SCALE!r}, N=4)
assert (k(x) == 2 * x).all()
again = andiron.compile({SCALE!r}).prepare()
assert again.report.cached and not os.listdir(".")
"""
    tmp_path.chmod(0o700)
    env = {**os.environ, "ANDIRON_CACHE": "here"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["here", "other"]
    assert len(list((tmp_path / "here" / "entries").iterdir())) >= 3


def test_an_entry_whose_folder_vanishes_while_it_is_made(tmp_path):
    cache, tries = Cache(tmp_path / "cache"), []

    def vanishing(folder):
        tries.append(folder)
        if len(tries) == 1:
            cache.clear()
        (folder / "file").write_text("good")
        return {}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entry, made = cache.get_or_make("k", vanishing)
    assert made
    assert len(tries) == 2
    assert (entry.path / "file").read_text() == "good"
    assert Path(tmp_path / "cache") in entry.path.parents
