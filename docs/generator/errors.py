"""`errors/*.md`: the classes of mistakes with the cases of the tests, a page a room of the language, and a list of all."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path

from andiron.dsl import errors
from andiron.dsl.errors import AndironError, InternalError, UserError, UserErrors
from andiron.dsl.errors.warning import Caution

from .page import MADE, TESTS

# page -> its title; the page of a module of `dsl/errors` has the module's name, or is in PAGE_OF
TITLES = {
    "syntax": "Reading",
    "text": "Characters, numbers, indentation",
    "module": "Files and imports",
    "op": "Ops",
    "device": "Devices",
    "schedule": "Schedules",
    "warning": "Warnings",
    "target": "Targets and compilers",
    "run": "Calls",
    "database": "Measurements",
    "emulate": "The emulator",
    "repl": "The interactive shell, and notebooks",
    "verify": "Faults of the compiler",
}
PAGE_OF = {"missing_tokens": "syntax", "online": "schedule"}
PARENTS = (AndironError, InternalError, UserError, UserErrors, Caution)


def pages() -> dict[str, Callable[[], str]]:
    return {"errors/index.md": index_page, **{f"errors/{room}.md": partial(room_page, room) for room in TITLES}}


@cache
def mistakes() -> dict[str, list[type[AndironError]]]:
    """The classes of mistakes by their page, in the order of the source."""
    found: dict[str, list[type[AndironError]]] = {room: [] for room in TITLES}
    for info in pkgutil.walk_packages(errors.__path__, f"{errors.__name__}."):
        module = import_module(info.name)
        room = info.name.removeprefix(f"{errors.__name__}.").partition(".")[0]
        for cls in vars(module).values():
            if not (inspect.isclass(cls) and issubclass(cls, AndironError) and cls.__module__ == module.__name__):
                continue
            if cls not in PARENTS and "id" in vars(cls):
                found[PAGE_OF.get(room, room)].append(cls)
    return found


def index_page() -> str:
    """Every id, with its first sentence."""
    out = [MADE + "# Errors", ""]
    out += [
        "Every mistake has a name, shown in brackets, that does not change. Several are reported at once. A message says what",
        "is wrong, where, and, where it can, a way out. An `error[internal]` is a fault of Andiron's: please report it.",
        "",
    ]
    for room, classes in mistakes().items():
        out += [f"## [{TITLES[room]}]({room}.md)", ""]
        out += [f"- [`{cls.id}`]({room}.md#{cls.id}): {first_sentence(cls)}" for cls in classes]
        out += [""]
    return "\n".join(out).rstrip("\n") + "\n"


def room_page(room: str) -> str:
    """The mistakes of a room, each with its cause, its way out, and an example where the tests have one."""
    about = inspect.getdoc(import_module(f"{errors.__name__}.{room}")) or ""
    out = [f"{MADE}# {TITLES[room]}", "", about, "", "All errors: [by their names](index.md).", ""]
    for cls in mistakes()[room]:
        out += [f"## `{cls.id}`", "", inspect.getdoc(cls) or "", "", *_case(cls.id)]
    return "\n".join(out).rstrip("\n") + "\n"


def first_sentence(cls: type) -> str:
    paragraph = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s(?=[A-Z`])", paragraph, maxsplit=1)[0]


@cache
def _cases() -> dict[str, Path]:
    """The tests' examples of mistakes, by the id that each is refused with."""
    return {case.stem: case for case in sorted(TESTS.rglob("errors/*/*.sched"))}


def _case(id: str) -> list[str]:
    """The test's example of a mistake with its message, where there is one that can be shown."""
    case = _cases().get(id)
    if case is None or not case.with_suffix(".txt").exists():
        return []
    try:
        text = case.read_text(encoding="utf-8").rstrip("\n")
    except UnicodeDecodeError:
        return []
    said = case.with_suffix(".txt").read_text(encoding="utf-8").rstrip("\n")
    if len(text) > 1200 or "\0" in text or "\r" in text or "```" in text + said:
        return []
    lines = said.splitlines()
    said = "\n".join(lines if len(lines) <= 24 else [*lines[:24], "..."])
    return ["```text", text, "```", "", "```text", said, "```", ""]
