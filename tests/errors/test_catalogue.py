"""Every mistake there is: its docstring says what it is and the way out, its id is its own, and a test makes it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest
from andiron.dsl import errors
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.errors.target import CannotWrite

HERE = Path(__file__).parent
TESTS = HERE.parent
IN_FILES = {case.stem for case in HERE.glob("*/*.sched")}
# Made at a call, by an environment, or by a tree built by hand: the class and the file whose tests make it.
ELSEWHERE = {
    "argument-count": ("ArgumentCount", "runtime/test_kernel.py"),
    "argument-kind": ("ArgumentKind", "runtime/test_kernel.py"),
    "argument-type": ("ArgumentType", "runtime/test_kernel.py"),
    "argument-shape": ("ArgumentShape", "runtime/test_kernel.py"),
    "size-refused": ("SizeRefused", "runtime/test_sizes.py"),
    "output-read-only": ("OutputReadOnly", "runtime/test_kernel.py"),
    "output-overlap": ("OutputOverlap", "runtime/test_kernel.py"),
    "device-mismatch": ("DeviceMismatch", "runtime/test_kernel.py"),
    "unknown-target": ("UnknownTarget", "runtime/test_compile.py"),
    "not-in-module": ("NotInModule", "runtime/test_compile.py"),
    "ambiguous-choice": ("AmbiguousChoice", "runtime/test_compile.py"),
    "wrong-schedule": ("WrongSchedule", "runtime/test_compile.py"),
    "wrong-format": ("WrongFormat", "tools/test_build.py"),
    "cannot-tune": ("CannotTune", "runtime/test_tuning.py"),
    "nothing-right": ("NothingRight", "runtime/test_tuning.py"),
    "no-package": ("NoPackage", "runtime/test_torch_op.py"),
    "no-device": ("NoDevice", "runtime/test_compile.py"),
    "schedule-not-one-line": ("NotOneLine", "test_schedule_builder.py"),
    "cannot-save": ("CannotSave", "runtime/test_saved.py"),
    "damaged-file": ("DamagedFile", "runtime/test_saved.py"),
    "saved-elsewhere": ("SavedElsewhere", "runtime/test_saved.py"),
    "signature-differs": ("SignatureDiffers", "runtime/test_embed.py"),
    "no-compiler": ("NoCompiler", "runtime/test_toolchain.py"),
    "compiler-failed": ("CompilerFailed", "runtime/test_toolchain.py"),
    "bad-assignment": ("BadAssignment", "tools/test_workload.py"),
    "cannot-write": ("CannotWrite", "errors/test_catalogue.py"),
    "tile-text": ("TileText", "test_parse_tile.py"),
    "text-too-large": ("TextTooLarge", "test_syntax_errors.py"),
    "not-sched": ("NotSched", "test_strange_inputs.py"),
    "import-without-base": ("ImportWithoutBase", "test_module.py"),
    "import-too-deep": ("ImportTooDeep", "test_module.py"),
    "unknown-device": ("UnknownDevice", "test_module.py"),
    "missing-parameter": ("MissingParameter", "test_resolve_op.py"),
    "unknown-size": ("UnknownSize", "test_resolve_op.py"),
    "bad-size": ("BadSize", "test_resolve_op.py"),
    "condition-failed": ("ConditionFailed", "test_resolve_op.py"),
    "size-overflow": ("SizeOverflow", "test_resolve_op.py"),
    "wrong-argument": ("WrongArgument", "test_reference.py"),
    "empty-argmax": ("EmptyArgmax", "test_reference.py"),
    "not-understood": ("NotUnderstood", "tools/test_repl.py"),
    "nothing-to-schedule": ("NothingToSchedule", "tools/test_repl.py"),
    "bad-magic": ("BadMagic", "tools/test_notebook.py"),
    "nothing-to-do": ("NothingToDo", "tools/test_repl.py"),
    "one-unit-for-all": ("OneUnitForAll", "test_lint.py"),
    "idle-units": ("IdleUnits", "test_lint.py"),
    "strided-access": ("StridedAccess", "test_lint.py"),
    "too-many-registers": ("TooManyRegisters", "test_lint.py"),
    "spills": ("Spills", "tools/test_check.py"),
    "schedule-device": ("DeviceMismatch", "errors/test_schedule_errors.py"),
    "schedule-cannot-meet": ("CannotMeet", "test_barriers.py"),
    "emulator-race": ("Race", "emulate/test_faults.py"),
    "emulator-not-awaited": ("NotAwaited", "emulate/test_faults.py"),
    "emulator-out-of-bounds": ("OutOfBounds", "emulate/test_faults.py"),
    "emulator-uninitialised": ("Uninitialised", "emulate/test_faults.py"),
    "emulator-input-written": ("InputWritten", "emulate/test_faults.py"),
    "emulator-misaligned": ("Misaligned", "emulate/test_faults.py"),
    "emulator-divergent-barrier": ("DivergentBarrier", "emulate/test_faults.py"),
    "emulator-divergent-call": ("DivergentCall", "emulate/test_faults.py"),
    "emulator-replicas-differ": ("ReplicasDiffer", "emulate/test_faults.py"),
    "emulator-limit": ("LimitExceeded", "emulate/test_faults.py"),
    "not-emulated": ("NotEmulated", "emulate/test_faults.py"),
}
# Parents of others, raised themselves only where nothing closer is known; and what only a tree built by hand has.
NO_CASE = {"user-error", "several", "caution", "syntax", "unknown-reduction", "emulator-fault"}


def classes() -> list[type[UserError]]:
    found = []
    for module in pkgutil.walk_packages(errors.__path__, f"{errors.__name__}."):
        room = importlib.import_module(module.name)
        found += [c for _, c in inspect.getmembers(room, inspect.isclass) if c.__module__ == room.__name__]
    return [c for c in found if issubclass(c, UserError)]


ALL = classes()


def test_there_are_many():
    assert len(ALL) > 150


def test_no_class_of_a_mistake_is_elsewhere():
    """So that the pages of the docs have them all."""
    named = re.compile(r"^class \w+\(\w+\):(?:\n(?!\S).*)*?\n    id\b[^\n\"]* = \"", re.MULTILINE)
    files = [p for room in ("dsl", "codegen", "runtime", "tools") for p in (TESTS.parent / room).rglob("*.py")]
    assert {p.parent for p in files if named.search(p.read_text(encoding="utf-8"))} == {TESTS.parent / "dsl" / "errors"}


def test_ids_are_unique_and_well_formed():
    assert [i for i, n in Counter(c.id for c in ALL).items() if n > 1] == []
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", c.id) for c in ALL)


@pytest.mark.parametrize("cls", [c for c in ALL if c not in (UserError, UserErrors)], ids=lambda c: c.id)
def test_docstring(cls):
    """The mistake on the first line; the cause and the way out below, in sentences."""
    first, _, rest = inspect.cleandoc(cls.__doc__ or "").partition("\n")
    text = f"{first} {rest}".strip()
    assert first
    assert text.endswith((".", "`", ")")), text
    assert len(re.findall(r"[.:?](?:\s|$)", text)) >= 2, "no way out"


def test_each_has_a_case():
    device = (HERE / "test_device_errors.py").read_text(encoding="utf-8")
    in_table = set(re.findall(r'^    \("([a-z-]+)", ', device, flags=re.MULTILINE))
    missing = {c.id for c in ALL} - IN_FILES - in_table - set(ELSEWHERE) - NO_CASE
    assert missing == set()


@pytest.mark.parametrize("id", ELSEWHERE)
def test_those_made_elsewhere_are_made_there(id):
    cls, file = ELSEWHERE[id]
    assert re.search(rf"\b{cls}\b|[\"']{id}[\"']", (TESTS / file).read_text(encoding="utf-8"))


def test_cannot_write(tmp_path):
    from andiron.runtime.storage.files import write_text

    with pytest.raises(CannotWrite, match="cannot write"):
        write_text(tmp_path / "nowhere" / "x.cpp", "text")
