"""Random attentions whose scores are of one to three products, of operands of any types, by the compiler's own pass (a slow
one, too): right, each point once, and fed back the same.

`FUZZ=1000 pytest -n 2 tests/codegen/autoschedule/one_pass/test_random_sums.py` looks further.
"""

from __future__ import annotations

from random import Random

import pytest
from andiron.codegen.autoschedule.gpu.passes import one_pass_choice
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

from ....support.programs.attention_rows import right_and_once, right_in_two_tiles
from ....support.random.counts import case_count, first_seed

CASES = case_count(12)
FIRST = first_seed()
DEVICES = ("sm_80", "gfx942", "cpu:avx512", "sm_75", "gfx1100", "sm_90a", "cpu:avx2", "gfx950")


def random_attention(rng: Random) -> str:
    dtype = rng.choice(("f16", "f16", "f16", "bf16", "f32"))
    rounded, read = ("f32({}({}))", "f32({})") if dtype != "f32" else ("{1}", "{}")
    inputs, body, dims = {"v": "H, T, E"}, [], ["H", "Q", "T", "E"]

    def operand(name: str, shapes: list[str], width: str) -> str:
        """A load: of a tensor of its own, or of one that another product reads."""
        same = [n for n, shape in inputs.items() if shape in shapes and shape.endswith(width)]
        if not same or rng.random() < 0.8:
            inputs[name] = rng.choice(shapes)
        else:
            name = rng.choice(same)
        indices = inputs[name].lower().replace("q", "i")
        return read.format(f"{name}[{indices}]")

    terms = []
    for n in range(rng.choice((1, 2, 2, 2, 3))):
        width = rng.choice(("D", "R", "E"))
        dims += [width] if width not in dims else []
        left = operand(f"q{n}", [f"H, Q, {width}", f"H, Q, {width}", f"Q, H, {width}"], width)
        right = operand(f"k{n}", [f"H, T, {width}", f"T, {width}", f"T, H, {width}"], width)
        term = f"sum({width.lower()}) {left} * {right}"
        if rng.random() < 0.4:
            body.append(f"x{n}[h, i, t] = {term}")
            term = f"x{n}[h, i, t]"
        if rng.random() < 0.2:
            body.append(f"y{n}[h, i, t] = ({term}) * 0.5")
            term = f"y{n}[h, i, t]"
        terms.append(f"({term})")
    scores = terms[0]
    for x in terms[1:]:
        scores = rng.choice(("{} + {}", "{} - {}", "max({}, {})", "{} + 0.125 * {}")).format(scores, x)
    where = ""
    if (edge := rng.random()) < 0.25:
        where = " where t <= i + T - Q"
    elif edge < 0.4:
        scores = f"where(t % 3 < i + 2, {scores}, -inf)"
    body.append(f"s[h, i, t]{where} = ({scores}) * 0.25")
    body += ["m[h, i] = max(t) s[h, i, t]", "p[h, i, t] = exp(s[h, i, t] - m[h, i])", "l[h, i] = sum(t) p[h, i, t]"]
    product = rounded.format(dtype, "p[h, i, t]")
    body.append(f"o[h, i, e] = (sum(t) {product} * {read.format('v[h, t, e]')}) / l[h, i]")
    outputs = [f"o: {dtype}[H, Q, E]"]
    if rng.random() < 0.3:
        outputs.append("y: f32[H, Q]")
        body.append("y[h, i] = m[h, i] + log(l[h, i])")
    narrow = (dtype, "bf16", "f16", "f8e4m3", "f8e5m2", "i8") if dtype != "f32" and rng.random() < 0.5 else (dtype,)
    ins = ", ".join(f"{n}: {rng.choice(narrow)}[{shape}]" for n, shape in inputs.items())
    head = f"op f[{', '.join(dims)}]({ins}) -> ({', '.join(outputs)}){' where Q <= T' if where else ''}:"
    return "\n".join((head, *(f"    {x}" for x in body))) + "\n"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_random_sums(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_pass_choice, "ALIKE", 1e9)
    rng = Random(seed)
    text, device = random_attention(rng), DEVICES[seed % len(DEVICES)]
    module = loads(text)
    cores = device.startswith("cpu")
    features = {x: rng.choice((1, 3, 5, 8)) if cores else rng.choice((1, 3, 8, 9, 16, 17, 24)) for x in "DRE"}
    rows, keys = (133, 140) if cores else (rng.choice((1, 3, 17, 33)), rng.choice((37, 40, 64, 70)))
    sizes = {"H": rng.choice((1, 2)), "Q": rows, "T": keys, **features}
    op = specialise(module.ops["f"], {v.name: sizes[v.name] for v in module.ops["f"].dims})
    made = compile_program(module, op, None, module.device(device))
    assert " online" in made.schedule, text
    assert not {"s", "s.sum1", "s.sum2", "s.sum3"} & {b.name for b in made.program.buffers if b.kind == "workspace"}
    if cores:
        right_in_two_tiles(text, "f", device, made, sizes)
    else:
        right_and_once(made.program, op)
    again = loads(text + made.schedule)
    assert compile_program(again, op, again.schedules["f_auto"], again.device(device)).schedule == made.schedule
