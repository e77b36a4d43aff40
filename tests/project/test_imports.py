"""Imports stand at the top of their files. The others are listed here, each with its reason.

An import inside a function saves time at the start: the module is slow to load, and few uses need it. An import under
TYPE_CHECKING names types of a module that the file does not load. A circle cannot hide in a function, since `test_structure`
counts imports inside functions too. A circle of types has an entry here.

The milliseconds are the time to load what the importing file has not loaded yet, on one machine with two cores.
"""

import json
import subprocess
import sys
from functools import cache

import pytest
from andiron.codegen.emit.printers import DIALECTS

from ..support.imports import LAZY, TOP, TYPING, circles, graph, imports, modules, reached
from ..support.paths import ROOT

FOLDERS = ("grammar", "dsl", "codegen", "runtime", "tools", "stdlib", "docs", "examples", "benchmarks")

# These must start fast: neither they nor the modules that they load may load a slow library.
FAST = {
    "": "import andiron",
    "tools.cli": "andiron --version, andiron --help",
    "dsl.module": "andiron.load, andiron.loads",
    "dsl.text.format": "andiron fmt",
    "dsl.text.upgrade": "andiron fmt --upgrade",
}
SLOW_LIBRARIES = {"islpy": 22, "jinja2": 26, "lark": 14, "numpy": 56}  # ms

# Imported inside functions in any file.
NOT_EVERYWHERE = {
    "distributed": "the extra `cluster`",
    "fcntl": "not every system has it",
    "grp": "not every system has it",
    "lightgbm": "the extra `learn`",
    "psycopg": "the extra `cluster`",
    "pwd": "not every system has it",
    "pyarrow": "the extra `parquet`",
    "rich": "the extra `cluster`",
    "tomli": "the extra `cluster`",
    "tomllib": "Python 3.10 lacks it",
    "ml_dtypes": "the extra `half`",
    "pygments": "the extra `repl`",
    "sqlalchemy": "the extra `cluster`",
    "torch": "the extra `torch`",
}

# The commands load their parts when they run: the start of the command line loads all commands.
COMMAND_LINE = "tools.cli"
SLOW_STANDARD_MODULES = {"statistics": 2}  # ms

# Benchmarks set the number of threads of NumPy and others, which read it when they are imported.
SCRIPTS = "benchmarks."

LAZILY = {
    ("dsl.ops.typecheck", "dsl.semantics.numerics"): "56 ms for NumPy, for reals that an `else` value chooses",
    ("runtime.compile", "codegen.verify.verify_program"): "7 ms, for `verify=True`",
    ("runtime.compile", "runtime.emulator.variant"): "36 ms, for targets that are emulated",
    ("runtime.compile", "runtime.gpu.kernel"): "29 ms, for targets on a GPU",
    ("runtime.compile", "runtime.tuning.database.choose"): "20 ms, for a database of measurements",
    ("runtime.kernel", "runtime.storage.save"): "8 ms, for `Kernel.save`",
    ("runtime.kernel", "runtime.tuning.search"): "65 ms, for `Kernel.tune`",
    ("runtime.tuning.search", "runtime.tuning.cluster.tune_remotely"): "25 ms, for `Kernel.tune` with an executor",
    ("runtime.native.export", "runtime.gpu.clang"): "13 ms, for libraries with kernels of a GPU",
    ("runtime.native.export", "runtime.gpu.nvcc"): "13 ms, for libraries with kernels of a GPU",
    ("runtime.tuning.database.describe", "runtime.gpu.toolchains"): "117 ms, for targets on a GPU",
    ("runtime.tuning.worker", "runtime.gpu.kernel"): "29 ms, for candidates on a GPU",
    ("runtime.variant", "runtime.gpu.toolchains"): "117 ms, for targets on a GPU",
    ("tools.repl.next_lines", "codegen.enumerate_schedules"): "50 ms: the prompt comes before the compiler is loaded",
    ("tools.repl.session", "runtime.compile"): "53 ms: the prompt comes before the compiler is loaded",
    ("tools.repl.session", "tools.checks.compile_schedules"): "49 ms: the prompt comes before the compiler is loaded",
}

# Types of files that import the one that names them: without TYPE_CHECKING, these would be circles.
TYPES_OF_CALLERS = {
    "codegen.autoschedule.gpu.contraction": "its resources and its traffic are counted in files of their own",
    "codegen.emit.c.text_builder": "a text names quotients in its scopes",
    "codegen.autoschedule.rank": "ranking makes a report, which reads the `RankedCandidates`",
    "codegen.ir.program": "`str` of a `Program` is the printer's text",
    "codegen.lower.lower_schedule": "each line is handed the `Lowering`, which lowers the rest of the lines",
    "codegen.lower.lowering_context": "the context holds the trace, which reads the `LoweringContext`",
    "codegen.transforms.pipelining.software_pipeline": "pipelines across two loops have a file of their own",
    "dsl.text.parser": "the parser explains a syntax error, which tries other words on the `ParserMachine`",
    "runtime.compile": "a kernel holds its `CompileRequest`, and tuning compiles others like it",
    "runtime.tuning.cluster.task_run": "the search outwards of a `TaskRun` is in a file of its own",
    "runtime.kernel": "`Kernel.save` and `Kernel.tune` are in files of their own",
    "tools.repl.session": "a `Session` runs commands and views, and hands itself to them",
}
TYPES_OF_LIBRARIES = {
    ("dsl.stdlib_files", "importlib.resources.abc"): "Python 3.10 lacks it",
    ("dsl.support.cached", "functools"): "for a type checker, our `cached_property` is the one of `functools`",
}


@cache
def found():
    known = modules(*FOLDERS)
    return [x for path in known.values() for x in imports(path, known)]


@cache
def loaded(start):
    """The modules of the package that a module loads, itself among them."""
    return {start} | reached(graph(found(), modules(*FOLDERS), (TOP,)), start)


def at(place):
    return [x for x in found() if x.place == place and not x.module.startswith(SCRIPTS)]


def library(x):
    return x.target.partition(".")[0]


def has_general_reason(x):
    """Whether an import inside a function is covered by one of the rules above."""
    if not x.internal and library(x) in NOT_EVERYWHERE:
        return True
    if not x.internal and library(x) in SLOW_LIBRARIES:
        return any(x.module in loaded(start) for start in FAST)
    if x.module in loaded(COMMAND_LINE):
        return x.target not in loaded(COMMAND_LINE) if x.internal else x.target in SLOW_STANDARD_MODULES
    return False


def test_imports_inside_functions_have_a_reason():
    """An entry that is gone is taken off the list."""
    without = {(x.module, x.target) for x in at(LAZY) if not has_general_reason(x)}
    assert without == LAZILY.keys()


@pytest.mark.parametrize("place", [LAZY, TYPING])
def test_modules_that_are_loaded_anyway_are_imported_at_the_top(place):
    assert [x for x in at(place) if x.internal and x.module and x.target in loaded(x.module)] == []


def test_types_come_from_modules_that_are_not_loaded():
    """An entry that is gone is taken off the list."""
    known = modules(*FOLDERS)
    edges = graph(found(), known, (TOP, LAZY))
    callers = {x.target for x in at(TYPING) if x.internal and x.module and x.module in reached(edges, x.target)}
    assert callers == TYPES_OF_CALLERS.keys()
    others = {(x.module, x.target) for x in at(TYPING) if not x.internal and library(x) not in SLOW_LIBRARIES}
    assert others == TYPES_OF_LIBRARIES.keys()


def test_no_entry_is_left_over():
    used = {library(x) for x in at(LAZY) if not x.internal}
    assert used == NOT_EVERYWHERE.keys() | (SLOW_LIBRARIES.keys() - {"jinja2"}) | SLOW_STANDARD_MODULES.keys()
    assert any(x.place == LAZY and x.module.startswith(SCRIPTS) for x in found())


def test_modules_are_loaded_by_name_in_few_places():
    """Calls of `import_module` are imports that the other tests do not see."""
    calls = ("import_module(", "__import__(")
    files = {m for m, path in modules(*FOLDERS).items() if any(call in path.read_text(encoding="utf-8") for call in calls)}
    assert files == {
        "",  # a public name loads its module when it is used
        "codegen.emit.printers",  # a dialect is loaded when it is printed
        "runtime.gpu.arrays",  # the libraries of arrays that a user may have
        "docs.generator.errors",  # the modules of a package, all of them
        "tools.from_torch.load_model",  # the module of a user's model
    }
    edges = graph(found(), modules(*FOLDERS), (TOP, LAZY))
    dialects = {f"codegen.emit.{name}" for name in DIALECTS.values()}
    assert dialects <= edges.keys()
    assert [c for c in circles({**edges, "codegen.emit.printers": dialects}) if "codegen.emit.printers" in c] == []


def test_imports_of_a_file_are_found(tmp_path, monkeypatch):
    text = """
from typing import TYPE_CHECKING
import json
from . import b
if TYPE_CHECKING:
    from .b import C
try:
    import numpy
except ImportError:
    pass
class A:
    def method(self):
        from .. import other
        import lark.exceptions
        return lambda: 0
"""
    monkeypatch.setattr("tests.support.imports.ROOT", tmp_path)
    path = tmp_path / "dsl" / "a.py"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    there = [(x.place, x.target) for x in imports(path, {"dsl.a": path, "dsl.b": path, "other": path})]
    assert there == [
        (TOP, "typing"), (TOP, "json"), (TOP, "dsl.b"), (TYPING, "dsl.b"), (TOP, "numpy"), (LAZY, "other"),
        (LAZY, "lark.exceptions"),
    ]  # fmt: skip


def loaded_after(statement):
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_loads_nothing_more():
    names = loaded_after("import andiron; dir(andiron)")
    assert [m for m in names if m.startswith("andiron")] == ["andiron"]
    assert not {m.partition(".")[0] for m in names} & {*SLOW_LIBRARIES, *NOT_EVERYWHERE, "ziglang"} - {"fcntl", "grp", "pwd"}


@pytest.mark.parametrize("start", [m for m in FAST if m])
def test_what_must_start_fast_loads_no_slow_library(start):
    """And it loads just those modules that the rules above think it does."""
    more = "; andiron.tools.cli.parser()" if start == COMMAND_LINE else ""
    names = loaded_after(f"import andiron.{start}{more}")
    assert not {m.partition(".")[0] for m in names} & SLOW_LIBRARIES.keys()
    ours = {m.partition(".")[2] for m in names if m.partition(".")[0] == "andiron"}
    packages = {m for m, path in modules(*FOLDERS).items() if path.name == "__init__.py"}
    assert ours - packages == loaded(start) - packages


def test_the_files_are_those_of_the_package():
    assert {p.name for p in ROOT.iterdir() if (p / "__init__.py").exists()} - {"tests"} <= {*FOLDERS}
