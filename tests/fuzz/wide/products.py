"""Products whose types an instruction of the device takes, and schedules whose tiles are made of its shape.

Odd multiples and what does not divide, operands staged and loaded by instructions or not, the reduction split or not, in names
of the op or of a role.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from random import Random

from andiron.dsl.device import Device, Instr
from andiron.dsl.values import loads

from ..model import Apply, Binary, Expr, Named, Op, Read, Reduce, Statement, Tensor, computes_in
from ..schedules import Line
from .heads import headed

MOST_POINTS = 12_000
ROLES = "bmnk"


@dataclass(frozen=True)
class Product:
    """`roles`: b, m, n, k -> the indices of the op that play it. `shape`: the extents of m, n, k in the instruction."""

    op: Op
    instr: Instr
    roles: dict[str, tuple[str, ...]]
    shape: dict[str, int]
    left: str
    right: str
    result: str


def computing(device: Device) -> list[Instr]:
    """Instructions that add a product of two operands."""
    return [i for i in device.instrs if i.accumulate and len(loads(i.statement.value)) == 2]


def shape_of(instr: Instr) -> dict[str, int]:
    """The extents of m (the first operand's own), n (the second's own) and k in an instruction; 1 where it has none."""
    s = instr.statement
    a, b = loads(s.value)
    over = s.reduction.indices if s.reduction else ()
    at = {x.tensor: tuple(str(e) for e in x.indices) for x in (a, b)}
    extents = {i: n for x in (a, b) for i, n in zip(at[x.tensor], instr.operand(x.tensor).shape, strict=True)}
    own = {"m": [i for i in at[a.tensor] if i not in over], "n": [i for i in at[b.tensor] if i not in over], "k": list(over)}
    return {role: prod(extents[i] for i in indices) for role, indices in own.items()}


def random_product(rng: Random, device: Device, name: str) -> Product | None:
    found = computing(device)
    wide = [i for i in found if computes_in(sums := i.operand(i.statement.target).dtype.name) == sums]
    found = wide if wide and rng.random() < 0.95 else found  # few ops are sums in a type that computes in another
    if not found:
        return None
    names = sorted({(i.family or i.name) for i in found})
    family = rng.choice(names)  # each as often, however many members it has
    instr = rng.choice([i for i in found if (i.family or i.name) == family])
    a, b = loads(instr.statement.value)
    types = [instr.operand(x.tensor).dtype.name for x in (a, b)]
    sums = instr.operand(instr.statement.target).dtype.name
    shape = shape_of(instr)
    if rng.random() < 0.2:  # what the instruction's m is, is the op's n
        types.reverse()
        shape = {"m": shape["n"], "n": shape["m"], "k": shape["k"]}
    roles = {"b": ("g",) if rng.random() < 0.15 else (), "m": ("m",), "n": ("n",), "k": ("k",)}
    if rng.random() < 0.15:
        role = rng.choice("mnk")
        roles[role] = (role, f"{role}2")
    dims = {i: i.upper() for x in roles.values() for i in x}
    left = [*roles["b"], *roles["m"], *roles["k"]]
    right = [*roles["b"], *roles["k"], *roles["n"]]
    for x in (left, right):
        if rng.random() < 0.4:
            rng.shuffle(x)
    free = [*roles["b"], *roles["m"], *roles["n"]]
    if rng.random() < 0.15:
        rng.shuffle(free)
    tensors = rng.choice((("A", "B", "C"), ("X", "W", "Y"), ("Q", "V", "S")))
    gram = types[0] == types[1] and rng.random() < 0.06 and len(left) == len(right)
    if gram:  # one tensor is both
        turned = {"m": "n", "m2": "n2"}
        right: list[str] = [turned.get(i, i) for i in left]
        roles["n"] = tuple(turned[i] for i in roles["m"])
        dims |= {n: dims[m] for m, n in zip(roles["m"], roles["n"], strict=True)}
        dims = {i: dims[i] for x in roles.values() for i in x}
        free = [*roles["b"], *roles["m"], *roles["n"]]
    inputs = [Tensor(tensors[0], types[0], tuple(Named(dims[i]) for i in left))]
    if not gram:
        inputs.append(Tensor(tensors[1], types[1], tuple(Named(dims[i]) for i in right)))
    reads = [
        cast(rng, Read(t.name, tuple(map(Named, at))), t.dtype, sums)
        for t, at in zip((inputs[0], inputs[-1]), (left, right), strict=True)
    ]
    both: Expr = Binary("*", *reads)
    value: Expr = Reduce("sum", roles["k"], Apply("-", (both,)) if instr.family == "minus" else both)
    types_in = computes_in(sums)
    if rng.random() < 0.3:
        inputs.append(Tensor("bias", types_in, tuple(Named(dims[i]) for i in roles["n"][:1])))
        value = Binary("+", value, Read("bias", (Named(roles["n"][0]),)))
        if rng.random() < 0.5:
            value = Apply("relu", (value,))
    ranges = tuple((i, Named(dims[i])) for x in roles.values() for i in x)
    statements = [Statement(tensors[2], tuple(free), value, ranges)]
    narrow = {"f32": ("f32", "f32", "f16", "bf16"), "i32": ("i32", "i32", "i8", "i16")}.get(types_in, (types_in,))
    stored = sums if sums in ("f16", "bf16") and rng.random() < 0.8 else rng.choice(narrow)
    outputs = [Tensor(tensors[2], stored, tuple(Named(dims[i]) for i in free))]
    op = Op(name, tuple(dict.fromkeys(dims.values())), tuple(inputs), tuple(outputs), tuple(statements))
    return Product(op, instr, roles, shape, inputs[0].name, inputs[1].name if not gram else inputs[0].name, tensors[2])


def cast(rng: Random, read: Read, dtype: str, sums: str) -> Expr:
    wide = computes_in(sums)
    if computes_in(dtype) != wide or (dtype != sums and rng.random() < 0.7):
        return Apply(wide, (read,))
    return read


def product_sizes(rng: Random, p: Product) -> dict[str, int]:
    """Sizes about the instruction's shape: less, as much, more, several times as much and a rest."""
    of = {i: role for role, x in p.roles.items() for i in x}
    extents = {n.name: of[i] for i, n in p.op.statements[0].ranges if isinstance(n, Named)}
    while True:
        out = {}
        for dim, role in extents.items():
            e = p.shape.get(role, 1)
            n = rng.choice((e, 2 * e, e + 1, 2 * e + 3, max(1, e - 1), 3 * e, 1, rng.randint(1, 40)))
            out[dim] = rng.randint(1, 3) if role == "b" else max(1, n // rng.choice((1, 4, 8))) if len(p.roles[role]) > 1 else n
        if rng.random() < 0.04:
            out[rng.choice(list(out))] = 0
        total = prod(max(1, out[n.name]) for _, n in p.op.statements[0].ranges if isinstance(n, Named))
        if total <= MOST_POINTS or rng.random() < 0.005:
            return out


# ---------------------------------------------------------------- schedules


class Guided:
    """Lines about an instruction."""

    def __init__(self, rng: Random, p: Product, device: Device) -> None:
        self.rng, self.p, self.device = rng, p, device
        self.names = {role: x[0] if len(x) == 1 else f"f{role}" for role, x in p.roles.items() if x}
        self.shape = p.shape
        self.left, self.right, self.result = p.left, p.right, p.result
        if self.left == self.right and rng.random() < 0.9:  # one tensor is both: its two reads have names of their own
            self.left, self.right = f"{p.result}.left", f"{p.result}.right"
        self.bounded = False  # whether the reduced index is short, so that what spans it may be held
        self.held: set[tuple[str, str]] = set()

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def times(self, role: str, most: int) -> int:
        """So many of the instruction along an index; now and then what it does not divide."""
        n = self.shape.get(role, 1) * self.rng.choice([x for x in (1, 1, 2, 2, 3, 4) if x <= most])
        return max(1, n + self.rng.choice((-1, 1, 3))) if self.maybe(0.04) else n

    def tile(self, sizes: dict[str, int], level: str = "", modifiers: str = "") -> list[Line]:
        axes = [f"{self.names[r]}: {n}" for r, n in sizes.items() if r in self.names]
        arrow = f" -> {level}" if level else ""
        return [Line(f"tile {', '.join(axes)}{arrow}{modifiers}")] if axes else []

    def loop_words(self, k: bool = False) -> str:
        words = [
            w
            for w, chance in (("peel", 0.12), ("unroll", 0.12), ("pipeline 2", 0.25 * k), ("pipeline 3 through", 0.06 * k))
            if self.maybe(chance)
        ]
        return "".join(f" {w}" for w in words)

    def lying(self) -> str:
        return self.rng.choice(
            (
                "",
                "",
                "",
                "",
                " swizzle",
                " swizzle",
                " pad 8",
                " pad 1",
                f" swizzle ({self.rng.choice('123')})",
                " swizzle (2, 4)",
            )[: 8 if self.maybe(0.1) else 6]
        )

    def copying(self, memory: str) -> str:
        """An instruction that copies to such a memory."""
        last = self.device.memories[-1].name
        if memory == last and not self.maybe(0.5):
            return ""
        fits = [
            i.family for i in self.device.instrs
            if i.family and not i.accumulate and i.family != "shuffle" and len(i.operands) == 2
            and i.operands[-1].memory == memory and (memory == last or i.operands[0].memory != last)
        ]  # fmt: skip
        return f" with {self.rng.choice(sorted(set(fits)))}" if fits and self.maybe(0.2) else ""

    def lines(self) -> list[Line]:
        """Tiles for the outer level, results and copies, tiles for the instruction's level, its operands, the instruction."""
        rng, device, p = self.rng, self.device, self.p
        depth = device.depth(p.instr.level)
        levels = [x for x in device.levels[1 : depth + 1] if x.most != 1 or x.units == "shaped"]
        out = [Line(f"fuse {', '.join(x)} as f{role}") for role, x in p.roles.items() if len(x) > 1]
        inner = {"m": self.times("m", 3), "n": self.times("n", 4)}
        whole = {r: n * rng.choice((1, 1, 2)) for r, n in inner.items()}
        k = self.shape.get("k", 1) if self.maybe(0.75) else self.times("k", 2)
        first = levels[0].name if len(levels) > 1 else ""
        if "b" in self.names:
            out += self.tile({"b": 1}, levels[0].name if levels and self.maybe(0.5) else "")
        if first or self.maybe(0.5):
            words = rng.choice(("", "", " raster 2", " raster 3", f" order {self.names['n']}, {self.names['m']}"))
            out += self.tile(whole, first, words if "order" in words or (first and levels[0].units == "open") else "")
        if not first and levels:  # one level alone: its units hold the results
            if self.maybe(0.25):
                if not out or self.maybe(0.3):
                    out += self.tile(whole)
                out += self.tile({"k": k * rng.choice((2, 4, 8))})
                self.bounded = True
                out += self.staged(0, k, True)
            out += self.tile(inner, levels[0].name)
        focus = device.depth(levels[0].name) if levels else 0
        keep = self.keep(focus)
        out += keep
        deep = self.maybe(0.75)
        if deep:
            out += self.tile({"k": k * rng.choice((1, 2, 2, 4))}, modifiers=self.loop_words(True))
            self.bounded = True
        out += self.staged(focus, k, deep)
        if first:
            axes = {"k": k} if self.maybe(0.05) else dict(inner)
            if len(axes) > 1 and self.maybe(0.2):
                axes.pop(rng.choice("mn"))
            turned = f" order {', '.join(self.names[r] for r in reversed(axes))}" if len(axes) > 1 and self.maybe(0.2) else ""
            out += self.tile(axes, levels[-1].name, turned)
        if self.maybe(0.25):
            some = {r: self.times(r, 2) for r in rng.sample("mn", rng.randint(1, 2))}
            out += self.tile(some, modifiers=self.loop_words())
        if self.maybe(0.6):
            out += self.tile({"k": k}, modifiers=self.loop_words(True))
            self.bounded = True
        for t in (self.left, self.right):
            if self.maybe(0.4 if self.bounded else 0.02):
                out.append(Line(f"move {t} -> {device.memories[-1].name}{self.copying(device.memories[-1].name)}"))
        names = (p.instr.name, p.instr.family or p.instr.name, p.instr.family or p.instr.name)
        out.append(Line(f"compute with {'auto' if self.maybe(0.06) else rng.choice(names)}"))
        return out if self.maybe(0.75) else self.disturbed(out)

    def near(self, focus: int) -> list[str]:
        """Memories that a unit of the level in focus has, or shares with what it can wait for."""
        device = self.device
        fits = [m for m in device.memories[1:-1] if device.depth(m.level) <= focus]
        apart = [x.siblings == "nothing" and x.units == "open" for x in device.levels]
        return [m.name for m in fits if not any(apart[device.depth(m.level) + 1 : focus + 1]) or self.maybe(0.02)]

    def keep(self, focus: int) -> list[Line]:
        line, shared = Line(f"keep {self.result}"), self.near(focus)
        if self.maybe(0.6):
            line.text += f" in {self.device.memories[-1].name}"
        if shared and self.maybe(0.15):
            line.block = [Line(f"move {self.result} -> {self.rng.choice(shared)}{self.lying()}")]
            if self.maybe(0.6):
                line.block += self.tile({"m": 1, "n": self.rng.choice((1, 2, 4, 8))}, self.device.levels[-1].name)
        return [line] if self.maybe(0.93) else []

    def staged(self, focus: int, k: int, looped: bool) -> list[Line]:
        """Copies of the operands to a memory that the units in focus share."""
        rng, out, shared = self.rng, [], self.near(focus)
        for t in (self.left, self.right):
            if not shared or not self.maybe(0.55 if self.bounded else 0.03):
                continue
            memory = rng.choice(shared)
            if (t, memory) in self.held and self.maybe(0.95):
                continue
            self.held.add((t, memory))
            line = Line(
                f"move {t} -> {memory}{self.lying()}{' pipeline 2' if looped and self.maybe(0.2) else ''}{self.copying(memory)}"
            )
            if self.maybe(0.2):
                mine = {"m" if t == self.left else "n": rng.choice((1, 2, 4)), "k": rng.choice((1, 2, 4))}
                line.block = self.tile(mine, self.device.levels[-1].name if self.maybe(0.7) else "")
                if self.maybe(0.4):
                    line.block.append(Line(f"move {t} -> {self.device.memories[-1].name}"))
            out.append(line)
        return out

    def disturbed(self, lines: list[Line]) -> list[Line]:
        """One line is left out, or two change places."""
        rng, lines = self.rng, list(lines)
        for _ in range(rng.randint(1, 2)):
            n = rng.randrange(len(lines))
            if self.maybe(0.6) and len(lines) > 1:
                lines.pop(n)
            elif n:
                lines[n - 1], lines[n] = lines[n], lines[n - 1]
        return lines


PATTERN = """op pat[X1, Y1, Z1](P: {a}[X1, Z1], R: {b}[Z1, Y1]) -> (T: f32[X1, Y1]):
    T[x, y] = sum(z) f32(P[x, z]) * f32(R[z, y])

"""


def product_schedule(rng: Random, p: Product, device: Device, where: str = "", name: str = "s") -> str:
    """The text of a schedule for a product, in its own names or in those of a role."""
    g = Guided(rng, p, device)
    what, before = p.op.name, ""
    single = all(len(x) == 1 for r, x in p.roles.items() if r != "b") and p.left != p.right
    pick = rng.random()
    if pick < 0.15:
        what = "contraction"
        g.names = {role: role for role in g.names}
        g.left, g.right, g.result = "left", "right", "result"
    elif pick < 0.4 and single and not p.roles["b"]:
        own = rng.random() < 0.5
        before = PATTERN.format(a="f16", b="f32") if own else "import std.ops.gemm\n\n"
        role, names, tensors = ("pat", "xyz", "PRT") if own else ("gemm", "mnk", "ABC")
        g.names = dict(zip("mnk", names, strict=True))
        given = dict(zip(tensors, (g.left, g.right, g.result), strict=True))
        g.left, g.right, g.result = tensors
        whole = isinstance(
            p.op.statements[0].value, Reduce
        )  # what else is in the statement, its sum has no name in common with
        share = rng.choice((0.0, 0.4, 0.7, 1.0))  # of the tensors, those that the head names
        bound = [f"{x} = {y}" for x, y in given.items() if rng.random() < share and (whole or y != p.result)]
        what = f"{p.op.name} as {role}" + (f"({', '.join(bound)})" if bound or rng.random() < 0.5 else "")
        if rng.random() < 0.15:
            what = role
    lines = g.lines()
    if what == "contraction":
        lines = [x for x in lines if not x.text.startswith("fuse")]
    return headed(rng, name, what, device, where, lines, before)
