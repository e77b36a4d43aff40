"""The errors and warnings of one file, in forms for people and for programs. The cache stores them by content.

KEPT   findings are stored if the file could be read completely; the key has the texts of the file and of its imports, this
       machine's description and Andiron's own code. With `verify` nothing is stored: compilers run again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ...codegen.lint.find_cliffs import lint
from ...dsl.errors import UserError
from ...dsl.errors.verify import NotVerified
from ...dsl.errors.warning import Caution
from ...dsl.module import Module, load_with_mistakes
from ...runtime.native.detect_cpu import detect_cpu
from ...runtime.storage.cache import cache as kept_entries
from ...runtime.storage.cache import key_of
from ...runtime.storage.files import read_text
from ..terminal import as_json
from .compile_schedules import CompiledCase, compile_all_schedules, compile_unscheduled_ops, emitted, first_mistake
from .spills import spill_warnings
from .verify_schedules import VerifiedCase, verify_case

Found = UserError | NotVerified | VerifiedCase
# The checks of `--verify`. Each takes a case, and yields errors, warnings (`Caution`) and what is right (`VerifiedCase`).
VERIFIERS: tuple[Callable[[CompiledCase], Iterator[Found]], ...] = (spill_warnings, verify_case)


@dataclass(frozen=True)
class Finding:
    """One error or warning: as text, and as JSON."""

    text: str
    json: dict[str, Any]

    @staticmethod
    def of(error: UserError | NotVerified) -> list[Finding]:
        found = getattr(error, "errors", (error,))
        return [Finding(str(e), j) for e, j in zip(found, as_json(error), strict=True)]


@dataclass(frozen=True)
class FileFindings:
    """What was found in a file. `verified`: what `--verify` executed, and found right or passed over."""

    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    verified: list[Finding] = field(default_factory=list)


def check_file(path: str, verify: bool = False) -> FileFindings:
    """All mistakes and warnings of a file, `-`: of the input stream. Raises UserErrors for a file that cannot be read."""
    if path == "-":
        module, diagnostics = load_with_mistakes(text=read_text("-"), name="<stdin>", base=".")
    else:
        module, diagnostics = load_with_mistakes(path)
    if diagnostics.errors or verify:
        return _answer([*diagnostics.errors, *module_findings(module, verify)])
    key = _key(module)
    entry = kept_entries().get(key)
    if entry is not None:
        return _read(entry.path / "answer.json") or _answer(module_findings(module))
    answer = _answer(module_findings(module))

    def write(folder: Path) -> dict[str, Any]:
        (folder / "answer.json").write_text(json.dumps(asdict(answer)), encoding="utf-8")
        return {"kind": "check", "what": f"check of {path}", "file": path}

    kept_entries().get_or_make(key, write)
    return answer


def module_findings(module: Module, verify: bool = False) -> Iterator[Found]:
    """The mistakes and the warnings of a module's schedules and ops."""
    for found in compile_all_schedules(module):
        if isinstance(found, UserError):
            yield found
            continue
        yield from first_mistake(found)
        for one in found:
            yield from _of_program(one, verify)
    for one in compile_unscheduled_ops(module):
        if one.error is not None:
            yield one.error
        yield from _of_program(one, verify)


def _of_program(one: CompiledCase, verify: bool) -> Iterator[Found]:
    """What can be said of a case only once it is compiled."""
    if one.error is not None:
        return
    if one.compiled is not None:
        emitted(one)
    if one.compiled is not None and one.schedule is not None and one.schedule.span.source is one.module.file.source:
        yield from lint(one.compiled.program, one.schedule)
    for verifier in VERIFIERS if verify else ():
        yield from verifier(one)


def _answer(found: Iterable[Found]) -> FileFindings:
    """In the order of the text; what is said twice is said once."""
    passed: list[Finding] = []
    said: list[UserError | NotVerified] = []
    for one in found:
        if isinstance(one, VerifiedCase):
            passed.append(Finding(str(one), one.json))
        else:
            said += getattr(one, "errors", (one,))
    each = list({(e.id, e.message, e.span): e for e in said}.values())
    each.sort(key=lambda e: e.span.start if e.span else -1)
    errors = [x for e in each if not isinstance(e, Caution) for x in Finding.of(e)]
    return FileFindings(errors, [x for e in each if isinstance(e, Caution) for x in Finding.of(e)], passed)


def _read(path: Path) -> FileFindings | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return FileFindings(*([Finding(**x) for x in found[name]] for name in ("errors", "warnings")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _key(module: Module) -> str:
    sources = {d.span.source for d in module.declared.values()} | {module.file.source}
    texts = sorted((s.name, s.text) for s in sources)
    return key_of("check", own_code_hash(), detect_cpu(), module.name, *(part for pair in texts for part in pair))


@cache
def own_code_hash() -> str:
    """A hash of Andiron's own text: an answer of another state of it is none."""
    root = Path(__file__).parents[2]
    rooms = ("codegen", "dsl", "grammar", "runtime", "stdlib", "tools")
    files = sorted(p for room in rooms for p in (root / room).rglob("*") if p.suffix in (".py", ".lark", ".sched", ".j2"))
    return key_of(*(part for p in files for part in (p.relative_to(root), p.read_bytes())))
