"""Writes the pages of the docs that are made from the code: `python docs/generate.py`.

    schedule.md      from `codegen/schedule/statement_reference.py`, and the traces of its examples
    errors.md        from the error classes, and the cases of `tests/errors`
    commands.md      from the parser of the command line
    architecture.md  the folders, from the docstrings of their packages, and the grammar of the tile program, from
                     `codegen/ir/tile_ir.py`, each between its marks
    passes.md        the table, from the list of passes in `codegen/pipeline.py`
    pictures/*.svg   from the recipes of cookbook.md

`tests/test_docs.py` holds that they are up to date.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from andiron.codegen.ir import tile_ir
from andiron.codegen.pipeline import ONCE, PASSES, compile_program
from andiron.codegen.schedule.statement_reference import NOT_YET, STATEMENTS, STRATEGIES, Statement
from andiron.dsl.errors import AndironError, InternalError, UserError, UserErrors
from andiron.dsl.errors.warning import Caution
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.compile import compile as compile_kernel
from andiron.tools import cli
from andiron.tools.pictures.bank_accesses import staged
from andiron.tools.pictures.banks import banks
from andiron.tools.pictures.roofline import roofline
from andiron.tools.pictures.tiles import tiles
from andiron.tools.pictures.traffic import traffic
from andiron.tools.repl.view import report_of

DOCS = Path(__file__).parent
TESTS = DOCS.parent / "tests"
MADE = "<!-- Made by docs/generate.py; edit what it is made from. -->\n\n"
ROOMS = {
    "syntax": "Reading",
    "text": "Characters, numbers, indentation",
    "module": "Files and imports",
    "op": "Ops",
    "device": "Devices",
    "schedule": "Schedules",
    "warning": "Warnings",
    "verify": "Faults of the compiler",
    "target": "Targets and compilers",
    "run": "Calls",
    "emulate": "The emulator",
    "repl": "The interactive shell, and notebooks",
}


def pages() -> dict[str, Callable[[], str]]:
    """What makes every generated page and picture, by its name in this folder."""
    return {
        **{f"pictures/{name}.svg": partial(drawn, *recipe) for name, recipe in PICTURES.items()},
        "schedule.md": schedule_page,
        "errors.md": errors_page,
        "commands.md": commands_page,
        "architecture.md": architecture_page,
        "passes.md": passes_page,
    }


# ---------------------------------------------------------------- statements


def example_text(s: Statement) -> str:
    """A whole text for the example of a statement: what it imports, its device, its strategies, the schedule."""
    libraries = "".join(f"import std.ops.{n}\n" for n in ("gemm", "reduce", "norm", "tensor", "conv", "elementwise"))
    device = (TESTS / "devices" / "simt.sched").read_text(encoding="utf-8") if s.device == "simt" else ""
    body = "".join(f"    {line}\n" for line in s.lines.splitlines())
    return f"{libraries}{device}{STRATEGIES}schedule example for {s.op} on {s.device}:\n{body}"


def rewrite(s: Statement) -> tuple[str, str, str]:
    """The spec before the line shown, the line, and the spec after it."""
    module = loads(example_text(s))
    op = bind_params(module.ops[s.op])
    compiled = compile_program(module, op, module.schedules["example"], module.device(s.device))
    before = ""
    for t in compiled.trace:
        if t.depth == 1 and t.line.startswith(s.shows):
            return before, t.line, t.specs[0] if t.specs else "nothing left"
        if t.depth <= 1 and t.specs:
            before = t.specs[0]
    # Lines that are gone before lowering (`inline`) show in the spec of the launch.
    return "", s.shows, next(t.specs[0] for t in compiled.trace if t.specs)


def schedule_page() -> str:
    intro = (DOCS / "schedule.in.md").read_text(encoding="utf-8")
    out = [MADE, intro.rstrip("\n"), ""]
    for s in STATEMENTS:
        before, line, after = rewrite(s)
        device = " (the machine `simt` of the [device page](device.md))" if s.device == "simt" else ""
        schedule = "".join(f"    {x}\n" for x in s.lines.splitlines())
        out += [f"## {s.name}", "", "```text", s.form, "```", "", s.text.strip("\n"), ""]
        out += [f"For `{s.op}`{device}:", ""]
        out += [f"```sched fragment {s.device}", f"schedule example for {s.op}:", schedule + "```", ""]
        shown = f"      {before}\n-->   {line}\n      {after}" if before else f"      {after}"
        out += ["```text", shown, "```", ""]
    out += ["## Not yet", "", "These words are part of the language, and wait for their lowering:", ""]
    out += [f"- `{name}`: {what}" for name, what in NOT_YET.items()]
    return "\n".join(out) + "\n"


# ---------------------------------------------------------------- errors


def mistakes() -> dict[str, list[type[AndironError]]]:
    """The classes of mistakes, by the room of the language they are in, in the order of the source."""
    found: dict[str, list[type[AndironError]]] = {room: [] for room in ROOMS}
    for package in ("dsl.errors", "dsl", "codegen", "runtime", "tools"):
        base = importlib.import_module(f"andiron.{package}")
        for info in pkgutil.iter_modules(base.__path__):
            source = Path(base.__path__[0], f"{info.name}.py")
            if not source.exists() or not re.search('^    id[^\n"]*= "', source.read_text(encoding="utf-8"), re.MULTILINE):
                continue
            module = importlib.import_module(f"andiron.{package}.{info.name}")
            for cls in vars(module).values():
                if not (inspect.isclass(cls) and issubclass(cls, AndironError) and cls.__module__ == module.__name__):
                    continue
                if cls in (AndironError, InternalError, UserError, UserErrors, Caution) or "id" not in vars(cls):
                    continue
                room = info.name if package == "dsl.errors" else {"dsl": "op", "codegen": "schedule"}.get(package, "run")
                found.setdefault(room if room in ROOMS else "run", []).append(cls)
    return found


def errors_page() -> str:
    out = [MADE + "# Errors", ""]
    out += [
        "Every mistake has a name, shown in brackets, that does not change. Several are reported at once. A message says what"
    ]
    out += [
        "is wrong, where, and, where it can, a way out. An `error[internal]` is a fault of Andiron's: please report it.",
        "",
    ]
    for room, classes in mistakes().items():
        if classes:
            out += [f"## {ROOMS[room]}", ""]
        if classes and room == "warning":
            out += ["`andiron check` tells these of schedules that compile and are slow. The exit status stays 0.", ""]
        for cls in classes:
            out += [f"### `{cls.id}`", "", inspect.cleandoc(cls.__doc__ or ""), ""]
            out += _case(room, cls.id)
    return "\n".join(out).rstrip("\n") + "\n"


def _case(room: str, id: str) -> list[str]:
    """The test's example of a mistake with its message, where there is one that can be shown."""
    for folder in (room, "syntax", "text", "module", "op", "device", "schedule"):
        case = TESTS / "errors" / folder / f"{id}.sched"
        if not case.exists() or not case.with_suffix(".txt").exists():
            continue
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
    return []


# ---------------------------------------------------------------- command line


def commands_page() -> str:
    os.environ["COLUMNS"] = "100"
    top = cli.parser()
    (commands,) = (a for a in top._actions if isinstance(a.choices, dict))
    out = [MADE + "# The command line", ""]
    intro = (
        "`andiron COMMAND --help` prints what stands here. Exit status: 0 on success (warnings are no failure), 1 if a file or"
    )
    out += [intro, "an argument is invalid, 2 for a usage error. `--json` prints the same for programs to read.", ""]
    for command in cli.COMMANDS:
        said = commands.choices[command.NAME].format_help()
        out += [f"## andiron {command.NAME}", "", "```text", said.rstrip("\n"), "```", ""]
    return "\n".join(out).rstrip("\n") + "\n"


# ---------------------------------------------------------------- architecture


def passes_page() -> str:
    """The page by hand, with the table of passes in its place."""
    return with_parts("passes.md", {"passes": pass_table()})


def pass_table() -> str:
    """The passes in their order, and why each stands where it stands."""
    rows = ["| | pass | takes | gives | why here |", "|---|---|---|---|---|"]
    for n, x in enumerate(PASSES, 1):
        rows.append(f"| {n} | `{x.name}` | {x.takes} | {x.gives} | {x.why} |")
        if x is ONCE[-1]:
            rows.append("| | *again with each choice that is tried:* | | | |")
    return "\n".join(rows)


def architecture_page() -> str:
    """The page by hand, with the table of folders and the grammar of the tile program in their places."""
    doc = inspect.cleandoc(tile_ir.__doc__ or "")
    grammar = inspect.cleandoc("    " + doc.split("\n\n")[1].strip("\n"))
    return with_parts("architecture.md", {"folders": folder_table(), "grammar": f"```text\n{grammar}\n```"})


def with_parts(page: str, parts: dict[str, str]) -> str:
    """A page that is written by hand, with what is made between its marks."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, made in parts.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}\n{made}\n{end}{rest.partition(end)[2]}"
    return text


def folder_table() -> str:
    """Every package of the compiler's parts, in the order of imports, with the first sentence of its docstring."""
    rows = ["| folder | |", "|---|---|"]
    for part in ("grammar", "dsl", "codegen", "runtime", "tools"):
        for file in sorted((DOCS.parent / part).rglob("__init__.py")):
            doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            first = re.split(r"(?<=\.)\s", doc, maxsplit=1)[0].replace("\n", " ")
            rows.append(f"| `{file.parent.relative_to(DOCS.parent).as_posix()}` | {first} |")
    return "\n".join(rows)


# ---------------------------------------------------------------- pictures

# name -> what is drawn, the recipe's file, its schedule, the target, sizes
PICTURES: dict[str, tuple[str, str, str, str, dict[str, int]]] = {
    "gemm-tiles": ("tiles", "gemm", "packed", "cpu:avx2", {"M": 512, "N": 512, "K": 512}),
    "hgemm-banks": ("banks", "hgemm", "ampere", "cuda:sm_80", {"M": 512, "N": 512, "K": 512}),
    "layer-traffic": ("traffic", "layer", "ampere", "cuda:sm_80", {"M": 512, "N": 512, "K": 512}),
    "softmax-traffic": ("traffic", "softmax", "rows", "cuda:sm_80", {"M": 1024, "N": 1024}),
    "layernorm-roofline": ("roofline", "layernorm", "rows", "cuda:sm_80", {"M": 1024, "N": 1024}),
    "turn-padded": ("banks", "turn", "padded", "cuda:sm_80", {"M": 512, "N": 512}),
    "turn-plain": ("banks", "turn", "plain", "cuda:sm_80", {"M": 512, "N": 512}),
    "split-traffic": ("traffic", "split", "split", "cuda:sm_80", {"M": 32, "N": 32, "K": 4096}),
    "stencil-tiles": ("tiles", "stencil", "staged", "cuda:sm_80", {"M": 256, "N": 256}),
    "attention-roofline": ("roofline", "attention", "rows", "cpu:avx2", {"H": 8, "Q": 512, "T": 512, "D": 64}),
}


def drawn(kind: str, file: str, schedule: str, target: str, sizes: dict[str, int]) -> str:
    """The picture, on white, for pages of any colour."""
    (text,) = re.findall(rf'^```sched title="{file}.sched"\n(.*?)^```$', (DOCS / "cookbook.md").read_text("utf-8"), re.M | re.S)
    kernel = compile_kernel(text, schedule=schedule, target=target, **sizes)
    report, device = report_of(kernel), kernel.program.device
    made = {
        "tiles": lambda: tiles(kernel.op, kernel.trace, report.sizes),
        "traffic": lambda: traffic(report, device),
        "roofline": lambda: roofline(report, device),
        "banks": lambda: banks(staged(kernel.program, report.sizes)[0], rows=8, columns=16),
    }[kind]()
    assert made is not None, (kind, file)
    return made.replace('style="', 'style="background:#fff;color:#1f2328;', 1) + "\n"


def main() -> None:
    for name, make in pages().items():
        (DOCS / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
