"""Texts of the library with a few words or lines changed: a program, or an author's mistake, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import andiron
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.module import load_with_mistakes
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.syntax import OpDecl, ScheduleDecl

STDLIB = Path(andiron.__file__).parent / "stdlib"
TEXTS = {
    kind: [p.read_text(encoding="utf-8") for p in sorted((STDLIB / kind).glob("*.sched"))] for kind in ("ops", "schedules")
}
WORDS = re.compile(r"\w+|[^\w\s]|\n *| +")
NUMBERS = ("0", "1", "2", "3", "7", "24", "33", "1000", "65536", "2147483647", "4294967296", "9" * 19, "9" * 40)
DIALECTS = {"cpu:generic": "cpp", "cpu:avx2": "cpp", "sm_80": "cuda", "gfx90a": "hip"}
CASES = 30


def changed(rng: Random, text: str) -> str:
    """The text with up to three words or lines left out, repeated, exchanged, or numbers replaced."""
    words = WORDS.findall(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = [i for i, w in enumerate(words) if w.strip()] or [0]
        i, j = rng.choice(at), rng.choice(at)
        match rng.randrange(7):
            case 0:
                words[i] = ""
            case 1:
                words.insert(i, words[i])
            case 2:
                words[i], words[j] = words[j], words[i]
            case 3 | 4:
                numbers = [k for k in at if words[k].isdigit()]
                words[rng.choice(numbers or [i])] = rng.choice(NUMBERS)
            case _:
                lines = "".join(words).split("\n")
                k = rng.randrange(len(lines))
                lines[k : k + 1] = [] if rng.random() < 0.5 else [lines[k], lines[k]]
                words = WORDS.findall("\n".join(lines))
    return "".join(words)


def case(rng: Random, kind: str) -> str:
    """One declaration of a text, or a few, with what the text imports; changed."""
    parts = re.split(r"\n(?=(?:op|device|schedule|strategy|import)\b)", rng.choice(TEXTS[kind]))
    imports = [x for x in parts if x.startswith("import")]
    others = [x for x in parts if not x.startswith("import") and x.strip()]
    k = rng.randrange(len(others))
    return changed(rng, "\n".join([*imports, *others[max(0, k - rng.choice((0, 0, 1))) : k + 1]]) + "\n")


def programs(rng: Random, text: str) -> int:
    """How many programs the text gives; raises what is no mistake of an author's."""
    try:
        module, diagnostics = load_with_mistakes(text=text, base=str(STDLIB / "ops"))
        diagnostics.raise_if_any()
    except UserError as error:
        str(error)  # it can be shown
        return 0
    done = 0
    for declaration in module.file.declarations:
        if isinstance(declaration, OpDecl):
            op, schedule, device = module.ops[declaration.name], None, rng.choice([*DIALECTS])
        elif isinstance(declaration, ScheduleDecl) and declaration.op in module.ops:
            op, schedule = module.ops[declaration.op], declaration
            device = declaration.device if declaration.device in DIALECTS else rng.choice([*DIALECTS])
        else:
            continue
        try:
            bound = bind_params(op, {name: 2 for name, value in op.params if value is None})
            program = compile_program(module, bound, schedule, module.device(device)).program
            done += bool(emit(program, DIALECTS[device]))
        except UserError as error:
            str(error)  # it can be shown
    return done


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", TEXTS)
def test_a_program_or_a_mistake(kind, part):
    done = 0
    for seed in range(part * CASES, (part + 1) * CASES):
        rng = Random(seed)
        text = case(rng, kind)
        try:
            done += programs(rng, text)
        except Exception as fault:
            pytest.fail(f"seed {seed}: {type(fault).__name__}: {fault}\n{text}")
    assert done, "no text was left that is a program"
