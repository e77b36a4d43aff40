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

from ...support.paths import ROOT, TESTS

HERE = Path(__file__).parent
IN_FILES = {case.stem for case in HERE.glob("*/*.sched")}
# Made at a call, by an environment, or by a tree built by hand: the class and the file whose tests make it.
ELSEWHERE = {
    "argument-count": ("ArgumentCount", "runtime/test_kernel.py"),
    "argument-kind": ("ArgumentKind", "runtime/test_kernel.py"),
    "argument-type": ("ArgumentType", "runtime/test_kernel.py"),
    "argument-shape": ("ArgumentShape", "runtime/test_kernel.py"),
    "size-refused": ("SizeRefused", "runtime/arrays/test_bind_sizes.py"),
    "output-read-only": ("OutputReadOnly", "runtime/test_kernel_out.py"),
    "output-overlap": ("OutputOverlap", "runtime/test_kernel_out.py"),
    "device-mismatch": ("DeviceMismatch", "runtime/test_kernel.py"),
    "unknown-target": ("UnknownTarget", "runtime/test_compile.py"),
    "not-in-module": ("NotInModule", "runtime/test_compile.py"),
    "ambiguous-choice": ("AmbiguousChoice", "runtime/test_compile.py"),
    "wrong-schedule": ("WrongSchedule", "runtime/test_compile.py"),
    "no-disassembler": ("NoDisassembler", "runtime/machine_code/test_nvdisasm.py"),
    "no-emitted-text": ("NoEmittedText", "codegen/emit/cpu/test_levels_between.py"),
    "wrong-format": ("WrongFormat", "tools/commands/test_build.py"),
    "cannot-tune": ("CannotTune", "runtime/tuning/test_search.py"),
    "nothing-right": ("NothingRight", "runtime/tuning/test_search.py"),
    "no-database": ("NoDatabase", "runtime/tuning/database/test_sqlite_file.py"),
    "foreign-database": ("ForeignDatabase", "runtime/tuning/database/test_sqlite_file.py"),
    "damaged-database": ("DamagedDatabase", "runtime/tuning/database/test_sqlite_file.py"),
    "database-busy": ("DatabaseBusy", "runtime/tuning/database/test_sqlite_file.py"),
    "database-failed": ("DatabaseFailed", "runtime/tuning/database/test_sqlite_file.py"),
    "bad-measurement": ("BadMeasurement", "runtime/tuning/database/test_database.py"),
    "too-few-measurements": ("TooFewMeasurements", "runtime/tuning/learn/test_train_model.py"),
    "versions-differ": ("VersionsDiffer", "runtime/tuning/cluster/test_remote_tasks.py"),
    "executor-failed": ("ExecutorFailed", "runtime/tuning/cluster/test_dispatcher.py"),
    "bad-task-file": ("BadTaskFile", "runtime/tuning/cluster/test_task_file.py"),
    "bad-model": ("BadModel", "tools/from_torch/test_load_model.py"),
    "cannot-export": ("CannotExport", "tools/from_torch/test_load_model.py"),
    "no-package": ("NoPackage", "runtime/test_torch_op.py"),
    "no-device": ("NoDevice", "runtime/test_compile.py"),
    "schedule-not-one-line": ("NotOneLine", "dsl/test_schedule_builder.py"),
    "cannot-save": ("CannotSave", "runtime/storage/test_serialize.py"),
    "damaged-file": ("DamagedFile", "runtime/storage/test_serialize.py"),
    "saved-elsewhere": ("SavedElsewhere", "runtime/storage/test_serialize.py"),
    "signature-differs": ("SignatureDiffers", "runtime/test_decorators.py"),
    "no-compiler": ("NoCompiler", "runtime/native/test_cxx_compiler.py"),
    "compiler-failed": ("CompilerFailed", "runtime/native/test_cxx_compiler.py"),
    "bad-assignment": ("BadAssignment", "runtime/test_random_inputs.py"),
    "cannot-write": ("CannotWrite", "dsl/errors/test_catalogue.py"),
    "tile-text": ("TileText", "codegen/ir/test_parser.py"),
    "text-too-large": ("TextTooLarge", "dsl/text/test_malformed_texts.py"),
    "not-sched": ("NotSched", "dsl/test_invalid_inputs.py"),
    "import-without-base": ("ImportWithoutBase", "dsl/test_module.py"),
    "import-too-deep": ("ImportTooDeep", "dsl/test_module.py"),
    "unknown-device": ("UnknownDevice", "dsl/test_module.py"),
    "missing-parameter": ("MissingParameter", "dsl/ops/test_resolve_op.py"),
    "unknown-size": ("UnknownSize", "dsl/ops/test_resolve_op.py"),
    "bad-size": ("BadSize", "dsl/ops/test_resolve_op.py"),
    "condition-failed": ("ConditionFailed", "dsl/ops/test_resolve_op.py"),
    "size-overflow": ("SizeOverflow", "dsl/ops/test_resolve_op.py"),
    "wrong-argument": ("WrongArgument", "dsl/semantics/test_reference.py"),
    "empty-argmax": ("EmptyArgmax", "dsl/semantics/test_reference.py"),
    "not-understood": ("NotUnderstood", "tools/repl/test_session.py"),
    "nothing-to-schedule": ("NothingToSchedule", "tools/repl/test_session.py"),
    "bad-magic": ("BadMagic", "tools/test_notebook.py"),
    "nothing-to-do": ("NothingToDo", "tools/repl/test_session.py"),
    "one-unit-for-all": ("OneUnitForAll", "codegen/lint/test_find_cliffs.py"),
    "idle-units": ("IdleUnits", "codegen/lint/test_find_cliffs.py"),
    "strided-access": ("StridedAccess", "codegen/lint/test_find_cliffs.py"),
    "too-many-registers": ("TooManyRegisters", "codegen/lint/test_find_cliffs.py"),
    "spills": ("Spills", "tools/commands/test_check.py"),
    "schedule-device": ("DeviceMismatch", "dsl/errors/test_schedule_errors.py"),
    "schedule-cannot-meet": ("CannotMeet", "codegen/transforms/barriers/test_place_barriers.py"),
    "element-not-covered": ("ElementNotCovered", "codegen/coverage/test_check_coverage.py"),
    "point-not-once": ("PointNotOnce", "codegen/coverage/test_check_contributions.py"),
    "emulator-race": ("Race", "runtime/emulator/test_faults.py"),
    "emulator-not-awaited": ("NotAwaited", "runtime/emulator/test_faults.py"),
    "emulator-out-of-bounds": ("OutOfBounds", "runtime/emulator/test_faults.py"),
    "emulator-uninitialised": ("Uninitialised", "runtime/emulator/test_faults.py"),
    "emulator-input-written": ("InputWritten", "runtime/emulator/test_faults.py"),
    "emulator-misaligned": ("Misaligned", "runtime/emulator/test_faults.py"),
    "emulator-divergent-barrier": ("DivergentBarrier", "runtime/emulator/test_faults.py"),
    "emulator-divergent-call": ("DivergentCall", "runtime/emulator/test_faults.py"),
    "emulator-replicas-differ": ("ReplicasDiffer", "runtime/emulator/test_faults.py"),
    "emulator-limit": ("LimitExceeded", "runtime/emulator/test_faults.py"),
    "not-emulated": ("NotEmulated", "runtime/emulator/test_faults.py"),
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
    files = [p for room in ("dsl", "codegen", "runtime", "tools") for p in (ROOT / room).rglob("*.py")]
    home = ROOT / "dsl" / "errors"
    found = {p.parent for p in files if named.search(p.read_text(encoding="utf-8"))}
    assert all(home in (folder, *folder.parents) for folder in found)


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
