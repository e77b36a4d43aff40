"""Small rewrites of tile programs, as text: what goes into a transform, and what comes out.

A file `PASS.tile` holds cases. A case is a line `# what is shown`, the statements of a launch, a line `-->`, and the statements
after the pass. What a pass adds above the launch (`instr`, `need`, another launch) stands there too. The program around the
statements is `HEAD`.
`python -m tests.codegen.transforms.rewrites.cases` writes what the passes make of the cases; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from andiron.codegen.ir.parser import parse
from andiron.codegen.ir.printer import show
from andiron.codegen.ir.program import Program
from andiron.codegen.transforms.barriers.place_barriers import place_barriers
from andiron.codegen.transforms.licm import hoist_invariants
from andiron.codegen.transforms.multiversion import vectorize_accesses, with_narrow_sizes
from andiron.codegen.transforms.pipelining.software_pipeline import pipeline_copies
from andiron.codegen.transforms.prove_guards import prove_guards
from andiron.codegen.transforms.split_loops import split_loops
from andiron.codegen.transforms.version_guards import version_guards
from andiron.dsl.module import std_device

HERE = Path(__file__).parent
ARROW = "-->\n"
HEAD = """\
program t(N) on sm_80
finite grid: grids
input X: f32[N] in global of grid strides (1) size N
input c: f32[] in global of grid size 1
output Y: f32[N] in global of grid strides (1) size N
"""
LAUNCH = "\nlaunch t_Y over block block < (N + 63)/64, warp warp < 2, thread thread < 32:\n"
TRANSFORMS: dict[str, Callable[[Program], Program]] = {
    "pipeline_copies": lambda p: pipeline_copies(p, lambda text: None),
    "prove_guards": prove_guards,
    "place_barriers": lambda p: place_barriers(p, lockstep=True),
    "hoist_invariants": hoist_invariants,
    "vectorize": lambda p: vectorize_accesses(p, None)[0],
    "narrow_indices": lambda p: with_narrow_sizes(vectorize_accesses(p, None)[0]),
    "split_loops": split_loops,
    "version_guards": version_guards,
}


class Rewrite(NamedTuple):
    transform: str
    title: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.transform}: {self.title}"

    @property
    def program(self) -> Program:
        return program_of(self.before)

    def result(self) -> str:
        return statements_of(TRANSFORMS[self.transform](self.program))


def program_of(statements: str) -> Program:
    """The statements in the program that all cases share."""
    return parse(HEAD + LAUNCH + "".join(f"    {x}\n" if x else "\n" for x in statements.splitlines()), std_device)


def statements_of(program: Program) -> str:
    """The text of a program without what all cases share; with two programs, all of both."""
    text = show(program)
    for shared in (*HEAD.splitlines(keepends=True), LAUNCH) if program.instead is None else ():
        text = text.replace(shared, "", 1)
    lines = text.splitlines()
    if program.instead is None:
        lines = [x.removeprefix("    ") for x in lines]
    return "\n".join(lines).strip("\n") + "\n"


def rewrites(transform: str) -> Iterator[Rewrite]:
    """The cases of a file."""
    text = (HERE / f"{transform}.tile").read_text(encoding="utf-8")
    for case in text.split("\n# "):
        title, _, body = case.removeprefix("# ").partition("\n")
        before, _, after = body.partition(ARROW)
        yield Rewrite(transform, title, before.strip("\n") + "\n", after.strip("\n") + "\n")


def main() -> None:
    for transform in TRANSFORMS:
        cases = [f"# {x.title}\n{x.before}{ARROW}{x.result()}" for x in rewrites(transform)]
        (HERE / f"{transform}.tile").write_text("\n".join(cases), encoding="utf-8")


if __name__ == "__main__":
    main()
