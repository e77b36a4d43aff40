"""What is said of a failure that is no diagnostic."""

from andiron.dsl.support.amounts import counted
from andiron.tools.terminal import apology


def test_too_little_memory_has_a_way_out():
    assert "\n  help: give smaller sizes" in apology(MemoryError())


def test_one_is_one():
    assert [counted(n, "row") for n in (0, 1, 2, 1000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]
