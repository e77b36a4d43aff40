"""The schedules of the library: the name of each file and its module."""

from __future__ import annotations

from andiron.dsl.module import loads

from ..paths import STDLIB

SCHEDULES = {f.stem: loads(f"import std.schedules.{f.stem}\n") for f in sorted((STDLIB / "schedules").glob("*.sched"))}
