"""Options and the cache of the whole test suite."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from importlib.util import cache_from_source
from pathlib import Path
from random import randrange
from typing import Any
from zlib import crc32

import andiron
import pytest
from andiron.dsl.errors import UserError
from andiron.dsl.errors.verify import ElementNotCovered, PointNotOnce

from .support.cpp.little_optimised import build_with_little_optimisation
from .support.rotation import ALL_OPS, LONG, every_second, fewest

SOME_COMBINATIONS = {"every_second": every_second, "fewest": fewest}  # by the marker of such tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the expected texts; then read what changed")
    parser.addoption("--part", metavar="K/N", help="run the K-th of N parts of the tests; each holds some of every file")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Some combinations of tests that are marked so; `--part K/N`: a part, to which a test belongs by its name alone."""
    if not (ALL_OPS or LONG):
        tests: dict[str, list[pytest.Item]] = {}
        for x in items:
            if any(x.get_closest_marker(name) for name in SOME_COMBINATIONS):
                tests.setdefault(x.nodeid.partition("[")[0], []).append(x)
        left = {x for found in tests.values() for x, taken in zip(found, taken_of(found), strict=True) if not taken}
        select(config, items, [x not in left for x in items])
    if (chosen := part(config)) is not None:
        select(config, items, [crc32(x.nodeid.encode()) % chosen[1] == chosen[0] - 1 for x in items])


def taken_of(items: list[pytest.Item]) -> list[bool]:
    """Of one test's items, one for each combination of the lists that it is parametrized by."""
    lists = [m.args[0] for m in items[0].iter_markers("parametrize")]
    names = [[n.strip() for n in x.split(",")] if isinstance(x, str) else list(x) for x in lists]
    given = [x.callspec.params for x in items]  # type: ignore[attr-defined]
    (chosen,) = (taken for name, taken in SOME_COMBINATIONS.items() if items[0].get_closest_marker(name))
    return chosen([tuple(tuple(id(values[n]) for n in some) for some in names) for values in given])


def select(config: pytest.Config, items: list[pytest.Item], selected: list[bool]) -> None:
    config.hook.pytest_deselected(items=[x for x, taken in zip(items, selected, strict=True) if not taken])
    items[:] = [x for x, taken in zip(items, selected, strict=True) if taken]


def pytest_collection_finish() -> None:
    """What collection made lives as long as the run: the garbage collector need not look through it again and again.

    It need not begin as often as by default either: that took a fifteenth of the time, for programs that live for one test.
    Processes under test have the default.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def part(config: pytest.Config) -> tuple[int, int] | None:
    """K and N of `--part K/N`. Raises a UsageError if it is anything else."""
    text = config.getoption("--part")
    if text is None:
        return None
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise pytest.UsageError(f"--part {text}: it is K/N with K from 1 to N, as 1/6")
    return int(match[1]), int(match[2])


def pytest_configure(config: pytest.Config) -> None:
    """`FUZZ=N` asks for N random cases: new ones, unless `FUZZ_FROM` says which. Workers inherit what is chosen."""
    part(config)
    config.addinivalue_line("markers", "every_second: of several lists of parameters, every second combination is run")
    config.addinivalue_line("markers", "wrong_program: a program is wrong on purpose, and refused")
    config.addinivalue_line("markers", "fewest: of several lists of parameters, as few are run as have every value, or pair")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell's background job; processes under test inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("FUZZ", "FUZZ_FROM"):
        if (text := os.environ.get(name)) and not text.isdecimal():
            raise pytest.UsageError(f"{name}={text}: it is a number")
    if os.environ.get("FUZZ") and not os.environ.get("FUZZ_FROM"):
        os.environ["FUZZ_FROM"] = str(randrange(10**6, 10**9))


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"random cases from FUZZ_FROM={os.environ['FUZZ_FROM']} on"] if os.environ.get("FUZZ_FROM") else []


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """`-n auto`: one worker more than cores, for some tests wait for processes, sockets and each other.

    Where xdist's own variable has a number, xdist reads it.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of this run's own: the user's is not touched, and what several files need is built once, by all workers together.

    Tests about what is in a cache set `ANDIRON_CACHE` to an empty folder of theirs.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"  # workers have folders side by side
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANDIRON_CACHE", str(folder))
        if sys.dont_write_bytecode and not Path(cache_from_source(andiron.__file__)).exists():
            # Each of the processes under test would compile the package. This way the checkout stays as it is, too.
            patch.setenv("PYTHONPYCACHEPREFIX", str(folder.parent / "bytecode"))
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield folder


@pytest.fixture(autouse=True)
def little_optimised(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fifteen tests of sixteen build kernels with little optimisation, others as users do; with `FUZZ=N` all as users do."""
    with pytest.MonkeyPatch.context() as patch:
        if crc32(request.node.nodeid.encode()) % 16 and not LONG:
            build_with_little_optimisation(patch)
        yield


@pytest.fixture(autouse=True)
def no_wrong_programs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test in which a program is refused because it is wrong: for who writes schedules at random, and for the choice
    among candidates, it looks like a refusal of what the author wrote. Marked `wrong_program`: a test makes one on purpose."""
    found: list[str] = []
    for kind in () if request.node.get_closest_marker("wrong_program") else (ElementNotCovered, PointNotOnce):

        def noted(self: UserError, message: str, *args: Any, init: Callable[..., None] = kind.__init__, **named: Any) -> None:
            found.append(message)
            init(self, message, *args, **named)

        monkeypatch.setattr(kind, "__init__", noted)
    yield
    assert not found


@pytest.fixture
def first_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first candidate compiles, or its error is raised. For users the next candidate takes its place.

    For tests of what is chosen; all others run as users do.
    """
    monkeypatch.setattr("andiron.codegen.schedule.schedule_fallback.MOST", 1)


@pytest.fixture(scope="session", autouse=True)
def well_formed() -> Iterator[None]:
    """Every program that is compiled here is one (`codegen.verify`)."""
    from andiron.codegen import pipeline
    from andiron.codegen.verify.well_formed import check_well_formed

    compiled = pipeline.compile_schedule

    def checked(*args: object) -> object:
        result = compiled(*args)  # type: ignore[arg-type]
        check_well_formed(result.program)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "compile_schedule", checked)
        yield
