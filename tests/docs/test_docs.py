"""What the documentation says is so: every sample of README.md and docs/*.md is run, and pages made from code are up to date.

```sched                 a whole text: its ops, devices and schedules compile
```sched fragment [on]   a schedule, put below the ops of the library (and the machine `simt`)
```sched title="F"       written to the file F of the page's folder; append="F" adds to it
```python                run, in one namespace a page
```console               lines with `$` are run; what is shown is compared: numbers may differ, `...` stands for anything
```repl                  what follows `> ` or `. ` is typed at the shell, the rest compared as above
```toml title="F"        written to the file F of the page's folder
```text                  not run
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import sys
from pathlib import Path

import andiron
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.codegen.schedule.statement_reference import SAMPLES, STATEMENTS
from andiron.dsl.errors import AndironError
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.tuning import racing
from andiron.tools import cli
from andiron.tools.checks.compile_schedules import check_schedules
from andiron.tools.repl.session import Session

from ..support.paths import DEVICES, ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("howto/*.md")),
]
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIBRARY = "".join(f"import std.ops.{f.stem}\n" for f in sorted((ROOT / "stdlib" / "ops").glob("*.sched")))
SIMT = (DEVICES / "simt.sched").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generate():
    """`docs/generate.py`, imported from its folder: an installed package has no docs."""
    sys.path.insert(0, str(ROOT / "docs"))
    yield importlib.import_module("generate")
    sys.path.remove(str(ROOT / "docs"))


# ---------------------------------------------------------------- samples


def compile_all(text: str) -> None:
    errors = list(check_schedules(andiron.loads(text, base=".")))
    assert not errors, "\n".join(map(str, errors))


def compile_fragment(text: str, device: str) -> None:
    """The one schedule of a fragment, below the library's ops."""
    module = andiron.loads(f"{LIBRARY}{SIMT}{SAMPLES}{text}")
    (schedule,) = module.schedules.values()
    op = bind_params(module.ops[schedule.op])
    compile_program(module, op, schedule, module.device(device))


def run_console(text: str) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        program, *words = shlex.split(command)
        assert program == "andiron", command
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = cli.main(words)
        assert status == 0, command
        assert matches(expected, said.getvalue()), f"$ {command}\n{said.getvalue()}"


def run_shell(text: str, session: Session) -> None:
    for part in re.split(r"^> ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        typed = [lines[0], *(line[2:] for line in lines[1:] if line.startswith(". "))]
        expected = "".join(f"{line}\n" for line in lines[1:] if not line.startswith(". "))
        said: list[str] = []
        session.say = session.say_code = said.append
        try:
            session.feed("\n".join(typed))
        except AndironError as error:
            said.append(str(error))
        assert matches(expected, "\n".join(said)), f"> {part}\n" + "\n".join(said)


def matches(expected: str, said: str) -> bool:
    """Numbers, and how far apart words stand, may differ; `...` is anything, on a line of its own any lines."""
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
            continue
        words = [_word(w) for w in line.split()]
        pattern += r"[ ]*" + r"[ ]+".join(words) + r"[ ]*\n"
    return re.fullmatch(pattern, said.rstrip("\n") + "\n") is not None


def _word(word: str) -> str:
    if word == "...":
        return r".*"
    if word.rstrip(",") in ("us", "ms", "s", "ns"):
        return r"(?:s|ms|us|ns),?"
    if re.fullmatch(r"[0-9][0-9.e+-]*x?[,;]?", word):
        return r"[0-9][0-9.e+-]*x?[,;]?"
    return re.escape(word)


def options(words: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', words))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix().removeprefix("docs/"))
def test_samples(page, tmp_path, monkeypatch):
    if page.name == "pytorch.md":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(racing, "ROUNDS", 2)  # how well candidates are told apart is not what samples show
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    namespace: dict[str, object] = {"__name__": page.stem}
    session = Session()
    for kind, words, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        named = options(words)
        if kind == "sched" and named:
            file = tmp_path / (named.get("title") or named["append"])
            before = file.read_text() if "append" in named and file.exists() else ""
            file.write_text(before + body)
            compile_all(file.read_text())
        elif kind == "toml" and named:
            (tmp_path / named["title"]).write_text(body)
        elif kind == "sched" and words.split()[:1] == ["fragment"]:
            compile_fragment(body, (*words.split()[1:], "cpu:avx2")[0])
        elif kind == "sched":
            compile_all(body)
        elif kind == "python":
            exec(compile(body, page.name, "exec"), namespace)
        elif kind == "console":
            run_console(body)
        elif kind == "repl":
            run_shell(body, session)
        else:
            assert kind in ("", "text", "toml", "bash"), kind


def test_outputs_are_compared():
    assert matches("a 1.5 ms\n...\nb\n", "a   22 us\nx\ny\nb\n")
    assert not matches("a 1.5 ms\nb\n", "a 1.5 ms\nc\n")


# ---------------------------------------------------------------- generated pages


PICTURES = re.findall(r"\]\((pictures/[\w-]+\.svg)\)", (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8"))


ERRORS = sorted(f"errors/{p.name}" for p in (ROOT / "docs" / "errors").glob("*.md"))
GENERATED = ["schedule.md", "api.md", "commands.md", "architecture.md", "passes.md", "constants.md", *ERRORS, *PICTURES]


def test_all_generated_pages_are_known(generate):
    assert sorted(generate.pages()) == sorted(GENERATED)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_up_to_date(name, generate, update_goldens):
    if name == "commands.md" and sys.version_info >= (3, 13):
        pytest.skip("argparse prints help differently from Python 3.13 on")
    page = ROOT / "docs" / name
    text = generate.pages()[name]()
    if update_goldens:
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text, "run `python docs/generate.py`, and read what changed"


def test_every_mistake_is_in_the_catalogue(generate):
    rooms = generate.errors.mistakes()
    assert sum(map(len, rooms.values())) > 200
    index = (ROOT / "docs" / "errors" / "index.md").read_text(encoding="utf-8")
    for room, classes in rooms.items():
        page = (ROOT / "docs" / "errors" / f"{room}.md").read_text(encoding="utf-8")
        assert classes, room
        for cls in classes:
            assert f"## `{cls.id}`" in page
            assert f"[`{cls.id}`]({room}.md#{cls.id})" in index
            assert cls.__doc__, cls


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.name)
def test_examples_of_statements_show_their_line(statement, generate):
    before, line, after = generate.statements.rewrite(statement)
    assert line.startswith(statement.shows)
    assert after
    assert before or statement.name == "inline"


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md") if not p.name.endswith(".in.md")]
    assert [p for p in pages if f": {p}\n" not in menu] == [], "add it under `nav` in mkdocs.yml"


@pytest.mark.parametrize("page", PAGES[:2], ids=lambda p: p.name)
def test_links_and_paths_of_pages_outside_the_site(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    paths = re.findall(r"`((?:docs|examples|stdlib|tests)/[\w./-]+)`", text)
    assert [p for p in [*links, *paths] if not (ROOT / p).exists()] == []


NAMED = re.compile(
    r"`((?:grammar|dsl|codegen|runtime|tools|stdlib|docs|tests|examples|benchmarks)(?:/[\w.-]+)+)`(?: \(`([\w.]+)`\))?"
)
ALL = sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "measurements")


def named(page: Path) -> list[tuple[str, str]]:
    """The paths that a page names, each with the name in parentheses behind it."""
    return NAMED.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", ALL, ids=lambda p: p.relative_to(ROOT / "docs").as_posix())
def test_files_that_a_page_names_exist(page):
    assert [path for path, _ in named(page) if not any((ROOT / f"{path}{end}").exists() for end in ("", ".py"))] == []


def test_names_that_the_architecture_places_are_in_their_files():
    found = named(ROOT / "docs" / "architecture.md")
    assert len(found) > 50
    placed = [(path, name.rpartition(".")[2]) for path, name in found if name]
    assert len(placed) >= 4
    defined = r"(?:def|class) {0}\b|^\s*{0}\b.*[:=]"
    missing = [
        (path, name)
        for path, name in placed
        if not re.search(defined.format(name), (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
