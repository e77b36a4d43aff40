"""One case for each mistake: `errors/ROOM/ID.sched` is refused with exactly the text of `errors/ROOM/ID.txt`.

`--update-goldens` writes the texts; read what changed before it is committed.
"""

import inspect
from pathlib import Path

import pytest
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.errors import module as module_mistakes
from andiron.dsl.errors import syntax as syntax_mistakes
from andiron.dsl.errors import text as text_mistakes
from andiron.dsl.module import loads
from andiron.dsl.text.parser import decode

HERE = Path(__file__).parent
# Rooms whose mistakes come later than loading have a test of their own beside them.
ROOMS = [room.name for room in HERE.iterdir() if room.is_dir() and not (HERE / f"test_{room.name}_errors.py").exists()]
CASES = sorted(case for room in ROOMS for case in (HERE / room).glob("*.sched"))

# Too large for a case, or no mistake of a text; tested in tests/dsl/text/test_malformed_texts.py and tests/dsl/test_module.py.
ELSEWHERE = {"text-too-large", "not-sched", "import-without-base", "import-too-deep", "unknown-device", "syntax", "tile-text"}


def check(path: Path) -> None:
    """What `andiron check` does, with names that do not depend on where the tests lie."""
    source = decode(path.read_bytes(), path.name)
    loads(source.text, source.name, base=".")


@pytest.mark.parametrize("case", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_message(case, monkeypatch, update_goldens):
    monkeypatch.chdir(case.parent)
    with pytest.raises(UserError) as caught:
        check(case)
    error = caught.value
    expected = case.with_suffix(".txt")
    if update_goldens:
        expected.write_text(f"{error}\n", encoding="utf-8")
    assert f"{error}\n" == expected.read_text(encoding="utf-8")
    found = error.errors if isinstance(error, UserErrors) else (error,)
    assert case.stem in {e.id for e in found}
    for one in found:
        assert one.help or one.labels, f"no way out: {one.message}"


def test_every_mistake_has_a_case_and_a_reason():
    classes = [
        cls
        for room in (syntax_mistakes, text_mistakes, module_mistakes)
        for _, cls in inspect.getmembers(room, inspect.isclass)
        if issubclass(cls, UserError) and cls is not UserError
    ]
    cases = {case.stem for case in CASES if case.parent.name in ("syntax", "module")}
    assert {cls.id for cls in classes} - ELSEWHERE == cases
    for cls in classes:
        assert cls.__doc__, cls.id
    ids = [cls.id for cls in set(classes)]
    assert len(ids) == len(set(ids))
