"""Whole schedules of the wider generator: bounds of every form, several fused indices, parameters, strategies in strategies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

from andiron.dsl.device import Device
from andiron.dsl.op import Op

from ..facts import facts_of, fused
from ..heads import contraction_facts, fusable, of_one_statement
from ..schedules import Line
from .schedules import WideWriter

_VALUES = re.compile(r"(?<=: )(\d+)(?= |,|$)|(?<= every )(\d+)|(?<= unroll )(\d+)|(?<= pipeline )(\d+)|(?<= pad )(\d+)")


def random_wide_schedule(rng: Random, op: Op, device: Device, sizes: Mapping[str, int], name: str = "s") -> str:
    """The text of schedule `s` for `op`; `sizes`: what those left open will be."""
    known = {n: x for n, x in op.params if x is not None}
    bounds, where = random_bounds(rng, op, sizes)
    facts = facts_of(op, bounds)
    facts = of_one_statement(rng, op, facts, 0.7, 0.8)
    what, lines = op.name, []
    if rng.random() < 0.06 and (found := contraction_facts(op, facts)) is not None:
        facts, what, known = found, "contraction", {}
    else:
        for n in range(rng.choice((0, 0, 0, 1, 1, 2))):
            mine = tuple(i for i in fusable(rng, facts) if i in facts.extents)
            if len(mine) > 1 and (all(set(mine) <= {*f, *r} for f, r in facts.nests) or rng.random() < 0.1):
                facts = fused(facts, mine, f"f{n}")
                lines.append(Line(f"fuse {', '.join(mine)} as f{n}"))
    if facts.extents:
        lines += WideWriter(rng, facts, device, known).body()
    else:  # numbers alone
        held = [Line(f"keep {n}") for n in facts.results] + [
            Line(f"move {t} -> {device.memories[-1].name}") for t in facts.moved
        ]
        lines += [*rng.sample(held, rng.randint(0, len(held))), Line(rng.choice(("compute", "auto")))]
    if rng.random() < 0.03:
        what = rng.choice((f"({what}, {what})", f"({what}, {what} as {what}, {what})", f"({what} as {what})", f"({what},)"))
    return headed(rng, name, what, device, where, lines)


def headed(rng: Random, name: str, what: str, device: Device, where: str, lines: list[Line], before: str = "") -> str:
    """The text of a schedule with these lines, some of which become strategies and parameters."""
    text = before
    for n in range(rng.choice((0, 0, 0, 0, 1, 1, 2, 3))):
        more, lines = strategy(rng, lines, f"piece{n}", n)
        text += more
    for n in range(rng.choice((0, 0, 0, 1, 2))):
        lines = param(rng, lines, f"R{n}")
    on = f" on {device.name}" if rng.random() < 0.15 else ""
    body = "\n".join(x for line in lines for x in line.lines(1))
    return f"{text}schedule {name} for {what}{on}{where}:\n{body}\n"


def random_bounds(rng: Random, op: Op, sizes: Mapping[str, int]) -> tuple[dict[str, int], str]:
    """Upper bounds of sizes that are open, and conditions that these satisfy."""
    bounds: dict[str, int] = {}
    texts: list[str] = []
    for v in op.dims:
        if v.name not in sizes or rng.random() < 0.6:
            continue
        n, x = v.name, sizes[v.name]
        most = max(1, x + rng.choice((0, 0, 1, 3, 7, x)))
        pick = rng.random()
        if pick < 0.5:
            texts.append(f"{n} <= {most}" if rng.random() < 0.8 else f"{n} < {most + 1}")
        elif pick < 0.6:
            texts.append(f"{n} == {x}")
            most = x
        elif pick < 0.75:
            least = rng.randint(0, x)
            texts.append(f"{n} >= {least}" if least == 0 or rng.random() < 0.6 else f"{n} > {least - 1}")
            most = 0
        elif pick < 0.85:
            texts += [f"{n} <= {most}", f"{n} >= {rng.randint(0, x)}"]
        else:
            texts.append(rng.choice((f"{most} >= {n}", f"2*{n} <= {2 * most}", f"{n} - {x} <= {most - x}", f"{n} <= {most}*1")))
            most = 0
        if most:
            bounds[n] = most
    return bounds, f" where {', '.join(texts)}" if texts else ""


# ---------------------------------------------------------------- parameters, strategies


def blocks(lines: list[Line]) -> list[list[Line]]:
    """The lines, and those of each block among them."""
    return [lines, *(b for x in lines if x.block for b in blocks(x.block))]


def param(rng: Random, lines: list[Line], name: str) -> list[Line]:
    """A number of some line is a parameter; the line that declares it stands anywhere above."""
    found = [(x, m) for block in blocks(lines) for x in block for m in _VALUES.finditer(x.text)]
    found = [(x, m) for x, m in found if not x.text.startswith("param")]
    if not found:
        return lines
    line, m = rng.choice(found)
    value = m[0]
    values = [value, *(str(rng.choice((1, 2, 4, 8, 16))) for _ in range(rng.randint(0, 2)))]
    default = f" = {value}" if rng.random() < 0.5 else ""
    if default:
        rng.shuffle(values)
    in_size = line.text[: m.start()].endswith(": ")
    word = rng.choice((name, name, f"2*{name}/2", f"{name} + 0", f"max({name}, 1)")) if in_size else name
    line.text = line.text[: m.start()] + word + line.text[m.end() :]
    at = next(n for n, x in enumerate(lines) if x is line or line in [y for b in blocks(x.block or []) for y in b])
    at = rng.randint(0, at)
    values = [f"{x}*1" if rng.random() < 0.1 else x for x in dict.fromkeys(values)]
    return [*lines[:at], Line(f"param {name} in {', '.join(values)}{default}"), *lines[at:]]


def strategy(rng: Random, lines: list[Line], name: str, n: int) -> tuple[str, list[Line]]:
    """Some neighbouring lines, at any depth, are a strategy; what they say of sizes, levels, memories and tensors is passed."""
    block = rng.choice(blocks(lines))
    a = rng.randint(0, len(block) - 1)
    b = rng.randint(a + 1, len(block))
    text = "\n".join(x for line in block[a:b] for x in line.lines(1))
    given: dict[str, str] = {}
    for pattern in (
        r"(?<=: )(\d+)(?= |,|$)",
        r"(?<=-> )(\w+)",
        r"(?<=move )(\w+)(?= )",
        r"(?<=keep )(\w+)(?= )",
        r"(?<=with )(\w+)",
    ):
        for found in re.findall(pattern, text, re.MULTILINE):
            if rng.random() < 0.5 and found not in given.values() and found != "auto" and not re.match(r"p\d|R\d", found):
                given[f"p{n}_{len(given)}"] = found
    for p, value in given.items():
        around = (
            r"(?<=: ){}(?= |,|$)" if value.isdigit() else r"(?<=-> ){0}\b|(?<=move ){0}(?= )|(?<=keep ){0}(?= )|(?<=with ){0}\b"
        )
        text = re.sub(around.format(value), p, text, flags=re.MULTILINE)
    names = list(given)
    least = next((k for k in range(len(names)) if all(given[p].isdigit() for p in names[k:])), len(names))
    defaults = names[rng.randint(least, len(names)) :] if least < len(names) else []
    head = ", ".join(p + (f" = {given[p]}" if p in defaults else "") for p in names)
    arguments = _arguments(rng, names, given, defaults)
    called = f"apply {name}({', '.join(arguments)})" if arguments or rng.random() < 0.5 else f"apply {name}"
    block[a:b] = [Line(called)]
    return f"strategy {name}({head}):\n{text}\n\n", lines


def _arguments(rng: Random, names: Sequence[str], given: Mapping[str, str], defaults: Sequence[str]) -> list[str]:
    """By position, then by name in any order; some that have defaults are left out."""
    first = rng.randint(0, len(names)) if rng.random() < 0.5 else len(names)
    out = [f"{given[p]}" if not given[p].isdigit() or rng.random() < 0.9 else f"{given[p]}*1" for p in names[:first]]
    rest = [p for p in names[first:] if p not in defaults or rng.random() < 0.5]
    return out + [f"{p} = {given[p]}" for p in rng.sample(rest, len(rest))]
