"""A weak table has one object for each key, as long as anything refers to it."""

from __future__ import annotations

import gc
import weakref
from threading import Thread

from andiron.dsl.support.weak_table import WeakTable


class Thing:
    def __init__(self, part: object = None) -> None:
        self.part = part


def found(table: WeakTable[Thing], key: object) -> Thing | None:
    known = table.reference(key)
    return None if known is None else known()


def test_the_first_object_of_a_key_stays():
    table: WeakTable[Thing] = WeakTable()
    one, two = Thing(), Thing()
    assert found(table, "a") is None
    assert table.only("a", one) is one
    assert table.only("a", two) is one
    assert found(table, "a") is one
    assert table.only("b", two) is two
    assert len(table) == 2


def test_an_object_is_freed_with_its_key():
    """Which has its parts, as those of expressions do."""
    table: WeakTable[Thing] = WeakTable()
    part = table.only(("part",), Thing())
    whole = table.only(("whole", part), Thing(part))
    gone = weakref.ref(part)
    del part, whole
    gc.collect()
    assert gone() is None
    assert len(table) == 0


def test_another_object_takes_the_place_of_one_that_is_gone():
    """Even where the table hears of that later."""
    table: WeakTable[Thing] = WeakTable()
    one = table.only("a", Thing())
    late = table.reference("a")
    assert late is not None
    del one
    two = table.only("a", Thing())
    table._freed(late)
    assert found(table, "a") is two
    assert len(table) == 1


def test_threads_get_one_object():
    """While others of the same keys come and go."""
    table: WeakTable[Thing] = WeakTable()
    kept: list[list[Thing]] = [[] for _ in range(4)]

    def make(mine: list[Thing]) -> None:
        for n in range(2000):
            table.only(n % 3, Thing())
            mine.append(table.only(("kept", n), Thing()))

    threads = [Thread(target=make, args=(mine,)) for mine in kept]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(len(set(map(id, same))) == 1 for same in zip(*kept, strict=True))
    assert {n for n in range(3) if found(table, n)} == set()
    assert len(table) == 2000
