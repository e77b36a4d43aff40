"""Random devices of what the first generator does not write: those that extend one of the library, and instructions whose
fragments are dealt to lanes and registers in any way, that copy, that are awaited, that come for several types."""

from __future__ import annotations

from random import Random

from ..devices import random_device

CPUS = ("cpu:generic", "cpu:avx2", "cpu:avx512")
GPUS = ("sm_75", "sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100")
LANES = {"sm_75": 32, "sm_80": 32, "sm_90a": 32, "gfx90a": 64, "gfx942": 64, "gfx1100": 32}
BYTES = {"cpu:generic": 16, "cpu:avx2": 32, "cpu:avx512": 64}


def random_wide_device(rng: Random, how: str, name: str = "odd") -> str:
    """The text of device `name`. `how` cases will be run on it tells which of the library it may extend."""
    if how == "native" or (how != "emulate" and rng.random() < 0.25):
        return _like_a_cpu(rng, rng.choice(CPUS), name, how)
    if how == "emulate" or rng.random() < 0.4:
        return _like_a_gpu(rng, rng.choice(GPUS), name, how)
    text = random_device(rng, how, name)
    lines = text.rstrip("\n").split("\n")
    gpu = "memory global" in text
    lanes = next((int(x.rsplit(" ", 1)[1]) for x in lines if "width" in x), None)
    more: list[str] = []
    if gpu and lanes and "level warp" in text:
        for n in range(rng.randint(1, 3)):
            more += product(rng, lanes, "warp", f"odd{n}")
    if gpu and rng.random() < 0.4:
        more += copy(rng, "thread", "global", "register", "take")
        if "memory shared" in text:
            more += copy(rng, "thread", "global", "shared", "fetch", rng.choice(("group", "counter")))
    if gpu and rng.random() < 0.3:
        more += dot(rng, "thread")
    if not gpu and rng.random() < 0.6:
        width = next(int(x.split()[-2]) for x in lines if x.endswith(" bytes"))
        more += row(rng, "core", max(1, width // 4), "rows")
    if "finite 1" in text and rng.random() < 0.3:
        more.append("in-order start 1, clock 1.5 GHz")
    if rng.random() < 0.1:
        lines[0] = lines[0].removesuffix(":")
        return (
            f"{lines[0].replace(name, f'{name}_base')}:\n" + "\n".join(lines[1:]) + f"\n\ndevice {name} extends {name}_base\n"
        )
    lines = [x for x in lines if "clock" not in x] if any("clock" in x for x in more) else lines
    return "\n".join([*lines, *(f"    {x}" for x in more)]) + "\n"


def _like_a_cpu(rng: Random, parent: str, name: str, how: str) -> str:
    width = BYTES[parent] // 4
    choices = [
        [f"level core: finite {rng.choice((1, 2, 3, 5))}"],
        [f"level lane: at most {rng.choice((1, 2, 3, 16))} units"],
        [f"memory l2 of core: {rng.choice((4, 16, 100))} KiB"],
        [f"memory l1 of core: {rng.choice((1, 2.5, 8))} KiB, in dram"],
        [f"memory register of lane: {rng.choice((6, 8, 32))} x {rng.choice((4, 8, '4.0'))} B"],
        ["units 2, clock 2.5 GHz, f32 10.5 GFLOP/s per core"],
        row(rng, "core", width, "minus", "c = c - a * b;"),
    ]
    if how != "native":
        choices += [[f"level lane: {rng.choice((8, 12, 16))} bytes"], row(rng, "core", width, "many")]
    return _extending(rng, parent, name, choices)


def _like_a_gpu(rng: Random, parent: str, name: str, how: str) -> str:
    lanes, group = LANES[parent], "wave" if parent.startswith("gfx") else "warp"
    choices = [
        [f"level block: at most {rng.choice((64, 128, 256))} threads"],
        [f"level {group}: at most {rng.choice((1, 2, 3))} units"],
        [f"memory shared of block: {rng.choice((4, 16, 31.5))} KiB"],
        [f"memory register of thread: {rng.choice((32, 64, 128))} x 4 B"],
        ["units 3, clock 1.25 GHz, f32 10.5 GFLOP/s per unit"],
    ]
    if how != "emulate":
        choices += [product(rng, lanes, group, "odd"), copy(rng, "thread", "global", "register", "take"), dot(rng, "thread")]
        choices += [copy(rng, "thread", "global", "shared", "fetch", rng.choice(("group", "counter")))]
    if parent == "sm_80":
        choices.append(["without mma_m16n8k8_f16, cost mma_m16n8k16_f16 4 cycles, latency mma_m16n8k16_f16 30"])
    return _extending(rng, parent, name, choices)


def _extending(rng: Random, parent: str, name: str, choices: list[list[str]]) -> str:
    lines = [x for some in rng.sample(choices, rng.choice((0, 1, 1, 2, 3))) for x in some]
    return f"device {name} extends {parent}" + (":" if lines else "") + "\n" + "".join(f"    {x}\n" for x in lines)


# ---------------------------------------------------------------- instructions


def product(rng: Random, lanes: int, level: str, name: str) -> list[str]:
    """A product of small tiles of any shape: the result is dealt out whole, operands are dealt out or lie in every lane."""
    whole = lanes * rng.choice((1, 1, 2, 3, 4))
    rows = rng.choice([n for n in range(1, whole + 1) if whole % n == 0 and n <= 32 and whole // n <= 32] or [1])
    columns, deep = whole // rows, rng.choice((1, 2, 3, 4, 5, 8))
    a, b, c, body = rng.choice((
        ("f32", "f32", "f32", "{A} * {B}"), ("f16", "f16", "f32", "f32({A}) * f32({B})"),
        ("i8", "i8", "i32", "i32({A}) * i32({B})"), ("bf16", "bf16", "f32", "f32({A}) * f32({B})"),
        ("tf32", "tf32", "f32", "f32({A}) * f32({B})"),
        ("f64", "f64", "f64", "{A} * {B}"), ("i32", "i32", "i32", "{A} * {B}"), ("u8", "i8", "i32", "i32({A}) * i32({B})"),
    ))  # fmt: skip
    turned = rng.random() < 0.3  # B by columns
    shape_b, at_b = ((columns, deep), "B[n, k]") if turned else ((deep, columns), "B[k, n]")
    lines = [
        f"instr {name}_m{rows}n{columns}k{deep} on {level} in {name}:",
        f"    op (A: {a}[{rows}, {deep}], B: {b}[{shape_b[0]}, {shape_b[1]}], C: {c}[{rows}, {columns}]):",
        "        C[m, n] += sum(k) " + body.format(A="A[m, k]", B=at_b),
        "    A in register at " + place(rng, lanes, {"m": rows, "k": deep}, False),
        "    B in register at " + place(rng, lanes, dict(zip("nk" if turned else "kn", shape_b, strict=True)), False),
        "    C in register at " + place(rng, lanes, {"m": rows, "n": columns}, True),
    ]
    return [*lines, f"    cost {rng.choice((0.5, 2, 4))} cycles, latency 16"]


def place(rng: Random, lanes: int, axes: dict[str, int], result: bool) -> str:
    """Which lane holds which element: all dealt out, in any order of lanes, registers and axes, or all in every lane."""
    whole = 1
    for n in axes.values():
        whole *= n
    if whole % lanes == 0 and (result or rng.random() < 0.7):
        regs = whole // lanes
        number = rng.choice((f"lane + {lanes}*r", f"{regs}*lane + r")) if regs > 1 else "lane"
        coords = "(lane, r)" if regs > 1 else "(lane)"
    else:
        number, coords = "r", rng.choice(("(r)", "(lane, r)")) if whole > 1 else "(lane)"
        if whole == 1:
            return "()" + ": " + ", ".join(f"{i} = 0" for i in axes)
    order, below, maps = rng.sample(list(axes), len(axes)), 1, {}
    for i in order:
        e = number if below == 1 else f"({number}) / {below}"
        maps[i] = "0" if axes[i] == 1 else e if below * axes[i] == whole else f"({e}) % {axes[i]}"
        below *= axes[i]
    return f"{coords}: " + ", ".join(f"{i} = {maps[i]}" for i in axes)


def row(rng: Random, level: str, width: int, name: str, emit: str = "c = c + a * b;") -> list[str]:
    """`C[n] += A * B[n]`, or `-=` in words, over one vector or over several."""
    count = 1 if emit != "c = c + a * b;" else rng.choice((1, 2, 3))
    value = "-(A[] * B[n])" if "-" in emit else "A[] * B[n]"
    at = "(lane): n = lane" if count == 1 else f"(lane, r): n = lane + {width}*r"
    lines = [
        f"instr {name}_f32x{count * width} on {level} in {name}:",
        f"    op (A: f32[], B: f32[{count * width}], C: f32[{count * width}]):",
        f"        C[n] += {value}",
        f"    A in register at (){rng.choice(('', '', ':'))}",
        f"    B in register at {at}",
        f"    C in register at {at}",
    ]
    if count == 1:
        lines.append(f'    emit cpp: "{emit}"')
    return [*lines, "    cost 1 cycles, latency 4"]


def dot(rng: Random, level: str) -> list[str]:
    """A short sum of products in one lane."""
    n, dtype = rng.choice((2, 3, 4, 5)), rng.choice(("i8", "u8"))
    name, kinds = f"dots_{n}", []
    if rng.random() < 0.3:
        name, dtype, kinds = f"dots_{n}_${{T}}", "T", ["    for u8, i8: FOUR = 4"]
    return [
        f"instr {name} on {level}{rng.choice((' in dots', ' in dots', ''))}:",
        *kinds,
        f"    op (A: {dtype}[{n}], B: i8[{n}], C: i32[]):",
        f"        {rng.choice(('C[]', 'C'))} += sum(k) i32(A[k]) * i32(B[k])",
        "    A in register at (r): k = r",
        "    B in register at (r): k = r",
        "    C in register at ()",
        f"    cost 2 cycles, latency {'FOUR' if kinds else '4'}",
    ]


def copy(rng: Random, level: str, source: str, target: str, name: str, awaits: str = "") -> list[str]:
    """A copy of some elements, for several types; it may be complete only when it was waited for."""
    kinds = rng.choice(
        ("f32, f16", "16 B", "4 B", "f32 x 3", "f32 x 4, f16 x 8", "f32 x 2, i32 x 2, f64 x 1", "f32 x 5, i8 x 3")
    )
    many = "4" if kinds == "f32, f16" else "N"
    lines = [f"instr {name} on {level} in {name} for {kinds}:"]
    cost, late = str(rng.choice((1, 4))), "100"
    if valued := rng.random() < 0.4:
        each = kinds.split(", ") if rng.random() < 0.6 else [kinds]
        given = rng.choice(("", ", CYCLES = {}", ", CYCLES = {}, LATE = 100"))
        tags = (rng.choice((f"k{n}", f'"k{n}"')) for n in range(len(each)))
        lines = [f"instr {name}_${{TAG}}_${{T}} on {level} in {name}:"]
        lines += [
            f"    for {k}: TAG = {tag}{given.format(rng.choice(('1', '2.5')))}" for k, tag in zip(each, tags, strict=True)
        ]
        cost, late = "CYCLES" if given else cost, "LATE" if "LATE" in given else late
    lines += [
        f"    op (S: T[{many}]) -> (D: T[{many}]):",
        "        D[i] = S[i]",
        f"    S in {source} at (r): i = r",
        f"    D in {target} at (r): i = r",
    ]
    facts = [f"cost {cost} cycles, latency {late}"]
    if kinds in ("16 B", "4 B"):
        facts.append(f"align S {kinds}")
        if target != "register":
            facts.append(f"align D {kinds}")
    if rng.random() < 0.2:
        tag = "  // TAG" if valued else ""
        lines += ["    emit cpp:", '        """', f"        for (int i = 0; i < {many}; i++) d[i] = s[i];{tag}", '        """']
    lines.append("    " + ", ".join(facts))
    return [*lines, f"    await {awaits}"] if awaits else lines
