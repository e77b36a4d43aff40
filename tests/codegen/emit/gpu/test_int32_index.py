"""Index expressions of GPU text: what is `int` never overflows, and what need not be 64 bits wide is not."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess

import pytest
from andiron.codegen.emit.c.index_printer import IndexPrinter
from andiron.codegen.emit.gpu.int32_index import GpuIndex
from andiron.dsl.index.expr import Expr, Var, as_expr, maximum, xor

ENDS = [3, 31, 255, 1 << 16, 1 << 30, (1 << 31) - 1, None]
HELPERS = """
#include <stdint.h>
#include <stdio.h>
static int64_t floordiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static int64_t floormod(int64_t a, int64_t b) { return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0); }
static int64_t imin(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t imax(int64_t a, int64_t b) { return a > b ? a : b; }
"""


def printer(variables: list[Var]) -> GpuIndex:
    index = GpuIndex(lambda v: v.name, lambda name: None)
    index.bounds = {v: v.hi for v in variables if v.hi is not None}
    return index


def expression(rng: random.Random, variables: list[Var], depth: int) -> Expr:
    if not depth:
        return as_expr(rng.choice([*variables, *variables, rng.randrange(200)]))
    a, b = expression(rng, variables, depth - 1), expression(rng, variables, depth - 1)
    match rng.randrange(9):
        case 0:
            return a * b
        case 1:
            return a // rng.choice([2, 3, 32, 128])
        case 2:
            return a % rng.choice([4, 32, 100])
        case 3:
            return xor(a % 64, b % 8)
        case 4:
            return maximum(a, b)
        case 5 | 6 if a.interval[0] is not None and a.interval[0] >= 0:  # by a multiple of a size
            by = rng.choice(variables) * rng.choice([1, 16, 4096])
            return a // by if rng.random() < 0.5 else a % by
        case _:
            return a * rng.choice([1, 1, 2, 64, 4096]) + b * rng.choice([1, -1, 8]) + rng.choice([0, 7])


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_int_never_overflows(tmp_path):
    """Where C would overflow an int, the sanitiser stops the program. 64 bits are wide enough for all values here."""
    rng = random.Random(11)
    lines, wanted = [], []
    for n in range(400):
        variables = [Var(f"v{i}", 0, rng.choice(ENDS)) for i in range(3)]
        e = expression(rng, variables, rng.choice([1, 2, 2, 3]))
        values = {v.name: v.hi if v.hi is not None else (1 << 33) + 5 for v in variables}
        if rng.random() < 0.3:
            values = {name: rng.randint(1, top) for name, top in values.items()}
        if abs(e.evaluate(values)) >= 1 << 62 or any(b >= 1 << 62 for b in [biggest(e, values)]):
            continue
        index = printer(variables)
        given = " ".join(
            f"volatile {'int' if v.hi is not None else 'int64_t'} v{i}_ = {values[v.name]}LL;" for i, v in enumerate(variables)
        )
        named = " ".join(
            f"{'int' if v.hi is not None else 'int64_t'} v{i} = v{i}_; (void)v{i};" for i, v in enumerate(variables)
        )
        lines.append(f'{{ {given} {named} printf("%lld\\n", (long long)({index.text(e)})); }}  // {n}')
        wanted.append(int(e.evaluate(values)))
    source, program = tmp_path / "index.cpp", tmp_path / "index"
    source.write_text(HELPERS + "int main() {\n" + "\n".join(lines) + "\n}\n", encoding="utf-8")
    flags = ["-O0", "-w", "-fsanitize=signed-integer-overflow", "-fno-sanitize-recover=all"]
    subprocess.run(["g++", *flags, str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [int(x) for x in done.stdout.split()] == wanted


def biggest(e: Expr, values: dict[str, int]) -> int:
    """What a partial sum or product may come to."""
    total = abs(e.const)
    for atom, c in e.terms:
        part = values[atom.name] if isinstance(atom, Var) else max(1, *(biggest(x, values) for x in atom.args))
        if not isinstance(atom, Var) and atom.kind == "mul":
            part = biggest(atom.args[0], values) * biggest(atom.args[1], values)
        total += abs(c) * part
    return total


def test_what_fits_is_not_widened():
    k, row, big = Var("k", 0, 1 << 20), Var("row", 0, 127), Var("big", 0, 1 << 30)
    index = printer([k, row, big])
    assert index.text(k * 128 + row) == "128 * k + row"
    assert index.text(as_expr(big) + row * 64) == "big + 64 * row"
    assert index.text(big * 4 + row) == "4 * (int64_t)big + row"
    assert index.text(k * row) == "k * row"
    assert index.text(big * row) == "(int64_t)big * row"
    assert index.text((big * 4 + row) // 8) == "(4 * (int64_t)big + row) / 8"
    assert index.fits(as_expr(big) // 8 + row)
    assert not index.fits(as_expr(Var("open")) + row)


def test_multiples_of_what_fits_are_divided_by_in_steps():
    """STEPS: no division is of 64 bits where a quotient of 32 will do."""
    x, n, lane = Var("x", 0, (1 << 31) - 1), Var("n", 0, (1 << 31) - 1), Var("lane", 0, 31)
    index = printer([x, n, lane])
    assert index.text(x // (n * 16)) == "x / n / 16"
    assert index.text(x % (n * 16)) == "(x / n % 16 * n + x % n)"
    assert index.fits(x % (n * 16))
    assert index.text(x // (lane * 16)) == "x / (16 * lane)"
    assert index.text((x + 5) // (n * 16)) == "((int64_t)x + 5) / (16 * (int64_t)n)"
    assert not index.fits((x - lane) % (n * 16))


def test_plain_text_means_the_expression() -> None:
    """The text of the host, by Python's own reading of it: operators bind as in C, and nothing is negative."""
    variables = [Var(n, 0, 50) for n in ("L", "N", "M")]
    rng = random.Random(4)
    low, length, most = (as_expr(v) for v in variables)
    cases = [10 * ((low + 31) // 32) * ((length + 31) // 32), 6 * (low % 7) * most, 3 * (low * (most // 4)) + 1]
    cases += [expression(rng, variables, 3) for _ in range(300)]
    helpers = {"floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b, "imin": min, "imax": max}
    for e in cases:
        text = IndexPrinter(lambda v: v.name, lambda _: None).text(e)
        for _ in range(5):
            values = {v.name: rng.randrange(51) for v in variables}
            with contextlib.suppress(ZeroDivisionError):
                assert eval(text.replace("/", "//"), helpers | values) == e.evaluate(values), text


def test_a_remainder_of_a_difference_divides_nothing_negative():
    def text(e: Expr) -> str:
        return IndexPrinter(lambda v: v.name, lambda _: None).text(e)

    x, y, size = Var("x", 0, 50), Var("y", 0, 50), Var("size")
    assert text((x - 3 * y) % 7) == "(x + 4 * y) % 7"
    assert text((x - 1) % 7) == "(x + 6) % 7"
    assert text((x - size) % 7) == "floormod(x - size, 7)"  # 6 * size may need more than 64 bits
    assert text((Var("z", -9, 9) + x) % 7) == "floormod(x + z, 7)"
    rng = random.Random(9)
    for _ in range(200):
        a, b, c = (rng.randint(-20, 20) for _ in range(3))
        e = 5 * ((a * x + b * y + c) % rng.randint(2, 9)) + x
        shown = text(e)
        for _ in range(10):
            values = {"x": rng.randint(0, 50), "y": rng.randint(0, 50)}
            assert "floormod" not in shown
            assert eval(shown, {}, values) == e.evaluate(values), shown
