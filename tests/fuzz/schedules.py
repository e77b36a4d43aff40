"""Random schedules for an op on any device: lines from the whole grammar at any height, most of them legal.

A writer follows what each line leaves (the level in focus, how far each index still reaches, how many units are taken), so that
what is written is mostly legal, and with a small chance writes what is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from random import Random

from andiron.dsl.device import Device, Level, Memory

from .facts import Facts

CHUNKS = (1, 1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16, 32, 64)
HOPS = ("shared", "l3", "l2", "l1")


@dataclass
class Spot:
    """What the lines above leave. `level`: the number of the level in focus; `units`: those taken of each level; `held`: the
    memories that a tensor is in; `owned`: indices of what registers hold; `strided`: indices with chunks apart; `looped`: those
    that a loop above is over; `split`: reduced indices that were dealt."""

    level: int
    extents: dict[str, int | None]
    units: dict[str, int] = field(default_factory=dict)
    held: dict[str, set[str]] = field(default_factory=dict)
    owned: set[str] = field(default_factory=set)
    strided: set[str] = field(default_factory=set)
    looped: set[str] = field(default_factory=set)
    split: set[str] = field(default_factory=set)

    def copy(self) -> Spot:
        """For a block; what registers hold there is its own."""
        held = {n: set(x) for n, x in self.held.items()}
        return Spot(self.level, dict(self.extents), dict(self.units), held, set(), set(self.strided), set(self.looped))


@dataclass
class Line:
    text: str
    block: list[Line] | None = None

    def lines(self, indent: int) -> list[str]:
        out = ["    " * indent + self.text + (":" if self.block is not None else "")]
        for x in self.block or ():
            out += x.lines(indent + 1)
        return out


class Writer:
    def __init__(self, rng: Random, facts: Facts, device: Device) -> None:
        self.rng, self.facts, self.device = rng, facts, device
        self.wild = 0.02 if rng.random() < 0.85 else 0.15  # the share of what is likely to be refused

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    # ------------------------------------------------------------ tiles

    def indices(self, pool: tuple[str, ...], most: int) -> list[str]:
        pool = tuple(dict.fromkeys(pool))
        return self.rng.sample(pool, min(len(pool), self.rng.choice((1, 1, 1, 2, 2, 3)[: most + 2])))

    def chunk(self, extent: int | None) -> int:
        """A tile's size: a number as people write it, or one that an extent makes odd."""
        if extent is not None and extent > 1 and self.maybe(0.25):
            return max(1, self.rng.choice((extent // 2, extent // 3, extent - 1, extent, extent + 1, (extent + 3) // 4)))
        n = self.rng.choice(CHUNKS)
        return n if extent is None or n < 2 * extent or self.maybe(0.1) else max(1, extent // 2)

    def bounding(self, spot: Spot, i: str, below: int = 64) -> list[Line]:
        """A loop that leaves an open or long index short enough."""
        extent = spot.extents[i]
        if (extent is not None and extent <= below) or self.maybe(self.wild):
            return []
        n = self.rng.choice([x for x in (2, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64, 100) if x <= max(2, below)])
        spot.extents[i] = n
        spot.looped.add(i)
        return [Line(f"tile {i}: {n}")]

    def loop(self, spot: Spot, pool: tuple[str, ...]) -> list[Line]:
        mine = self.indices(pool, 3)
        if not mine:
            return []
        axes, last = [], 1
        for i in mine:
            last = n = self.chunk(spot.extents[i])
            extent = spot.extents[i]
            axes.append(f"{i}: auto" if self.maybe(0.01) else f"{i}: {n}")
            spot.extents[i] = n if extent is None else min(n, extent)
            spot.strided.discard(i)
            spot.looped.add(i)
        return [Line("tile " + ", ".join(axes) + self.loop_modifiers(mine, last))]

    def loop_modifiers(self, mine: list[str], last: int) -> str:
        rng, out = self.rng, []
        if len(mine) > 1 and self.maybe(0.2):
            out.append("order " + ", ".join(rng.sample(mine, len(mine))))
        if self.maybe(0.15):
            out.append(rng.choice(("unroll", "unroll 2", "unroll 3", "unroll 4", "unroll auto")))
        if self.maybe(0.12):
            out.append("peel")
        if self.maybe(0.1):
            out.append(f"pipeline {rng.choice((2, 2, 3, 4))}" + rng.choice(("", "", " through")))
        if self.maybe(0.08):
            out += self.vector(last)
        if self.maybe(self.wild / 4):
            out.append(rng.choice(("persistent", "online", "carry", "raster 2", "swizzle", "by atomic")))
        rng.shuffle(out)
        return "".join(" " + x for x in out)

    def vector(self, n: int) -> list[str]:
        """So many neighbours of the last index side by side, of a tile of this size."""
        fits = [x for x in (2, 4, 8) if n % x == 0 or self.maybe(self.wild)]
        return [f"vector {self.rng.choice(fits)}"] if fits else []

    def deal(self, spot: Spot, pool: tuple[str, ...], level: int | None = None, main: bool = True) -> list[Line]:
        """Tiles of some indices to the units of a level inside the one in focus (or, again, of that one)."""
        rng, levels = self.rng, self.device.levels
        inner = [n for n in range(len(levels)) if n > spot.level or (n == spot.level and n > 0)]
        inner = [n for n in inner if n > 0 or levels[n].most != 1]
        if not inner:
            return []
        if level is None:
            near = [n for n in inner if n == spot.level + 1]
            level = rng.choice(near) if near and self.maybe(0.6) else rng.choice(inner)
        own, lines, axes, counts = levels[level], [], [], []
        shaped = own.units == "shaped"
        if not self.maybe(self.wild):
            pool = tuple(i for i in pool if i not in spot.strided and (shaped or i not in spot.owned))
        mine = self.indices(pool, 2)
        if not mine:
            return []
        left = (own.most or 64) // max(1, spot.units.get(own.name, 1))
        last, reach = 1, {}
        for i in mine:
            if shaped:
                lines += self.bounding(spot, i, 256)
            extent = spot.extents[i]
            n = self.chunk(extent)
            if shaped and extent is not None and -(-extent // n) > max(1, left) and not self.maybe(self.wild):
                n = -(-extent // max(1, left))
            every = ""
            if extent is not None and self.maybe(0.15):
                apart = n * rng.choice((1, 2, 3, 4, 8))
                every = f" every {apart}"
                count = max(1, min(-(-apart // n), left))
                reach[i] = extent
                spot.strided.add(i)
            else:
                count = -(-extent // n) if extent is not None else 0
                reach[i] = n if extent is None else min(n, extent)
            left = max(1, left // max(1, count))
            last = n
            axes.append(f"{i}: {n}{every}")
            counts.append(count)
        spot.extents.update(reach)
        spot.split |= {i for i in mine if i in self.facts.reduced}
        if shaped:
            spot.units[own.name] = spot.units.get(own.name, 1) * prod(max(1, c) for c in counts)
        first, spot.level = level != spot.level, level
        text = "tile " + ", ".join(axes) + f" -> {own.name}" + self.unit_modifiers(spot, own, mine, counts, last, main)
        sliced = [m.name for m in self.device.memories if m.slices > 1]
        if sliced and own.units == "open" and (first or self.maybe(self.wild)) and "within" not in text and self.maybe(0.3):
            text += f" within {rng.choice(sliced)}"
        return [*lines, Line(text)]

    def unit_modifiers(self, spot: Spot, own: Level, mine: list[str], counts: list[int], last: int, main: bool) -> str:
        rng, out = self.rng, []
        if any(i in self.facts.reduced for i in mine) and main:
            kept = any(spot.held.get(n) and set(mine) & set(self.facts.over(n)) for n in self.facts.kinds)
            ways = ["", ""] + (["shuffle"] if own.exchanges_registers or self.maybe(self.wild) else [])
            ways += ["workspace", "atomic"] if not kept or self.maybe(self.wild) else []
            by = rng.choice(ways)
            out += [f"by {by}"] if by else []
        if len(mine) > 1 and self.maybe(0.2):
            out.append("order " + ", ".join(rng.sample(mine, len(mine))))
        elif len(mine) == 2 and self.maybe(0.1) and own.units == "open":
            out.append(f"raster {rng.choice((1, 2, 3, 4))}")
        elif self.maybe(0.08) and all(counts) and not any("." in i for i in mine):
            if len(mine) == 2:
                a, b = counts
                out.append(f"arrange u: {mine[0]} = u % {a}, {mine[1]} = u / {a}" + (f" % {b}" if self.maybe(0.5) else ""))
            elif len(mine) == 1:
                out.append(f"arrange u: {mine[0]} = {rng.choice((f'u % {counts[0]}', f'{counts[0] - 1} - u', 'u'))}")
        if self.maybe(0.08):
            out += self.vector(last)
        if self.maybe(self.wild / 4):
            out.append(rng.choice(("peel", "unroll", "pipeline 2", "persistent", "multicast m", "within l2")))
        return "".join(" " + x for x in out)

    # ------------------------------------------------------------ keep, move

    def memory(self, spot: Spot, register: float) -> Memory:
        """One that the units in focus have, or that they share where they can wait for each other."""
        last, levels = self.device.memories[-1], self.device.levels
        others = []
        for m in self.device.memories[1:-1]:
            depth = self.device.depth(m.level)
            apart = any(x.siblings == "nothing" and x.units == "open" for x in levels[depth + 1 : spot.level + 1])
            if (depth <= spot.level and not apart) or self.maybe(self.wild):
                others.append(m)
        if not others or self.maybe(register):
            return last
        return self.rng.choice(others)

    def bounded(self, spot: Spot, indices: tuple[str, ...], most: int) -> list[Line]:
        """Loops that leave at most so many elements over these indices."""
        lines: list[Line] = []
        for _ in range(6):
            known = [spot.extents[i] for i in indices if i in spot.extents]
            if None not in known and prod(x for x in known if x) <= most:
                break
            for i in indices:
                if i in spot.extents and (spot.extents[i] is None or (spot.extents[i] or 0) > 4) and self.maybe(0.7):
                    lines += self.bounding(spot, i, max(1, round(most ** (1 / max(1, len(indices))))))
            most = most if self.maybe(0.9) else 4 * most
        return lines

    def lying(self, name: str, axes: tuple[str, ...]) -> str:
        """`layout`, `pad` and `swizzle` of a tensor with these axes."""
        rng, out = self.rng, []
        if any("." in a for a in axes):
            axes = ()
        if axes and self.maybe(0.2):
            out.append(f"layout ({', '.join(rng.sample(axes, len(axes)))})")
        elif axes and self.maybe(0.12):
            out.append(f"layout panels({rng.choice(axes)}: {rng.choice((2, 3, 4, 8))})")
        elif axes and self.maybe(0.08):
            i, n = rng.choice(axes), rng.choice((2, 4))
            rest = [f"{i}/{n}", *(a for a in axes if a != i), f"{i} % {n}"]
            out.append(f"layout ({', '.join(rest)})")
        if self.maybe(0.15):
            out.append(f"pad {rng.choice((1, 2, 3, 8))}")
        elif self.maybe(0.12):
            out.append(rng.choice(("swizzle", "swizzle", "swizzle (2, 2)", "swizzle (1)")))
        return "".join(" " + x for x in out)

    def keep(self, spot: Spot, name: str) -> list[Line]:
        rng = self.rng
        mine = self.facts.results[name]
        memory = self.memory(spot, 0.65)
        register = memory.registers is not None
        above = spot.held.get(name, set())
        nearer = bool(above) and name in self.facts.kinds and register and self.device.memories[-1].name not in above
        taken = (above and not nearer) or spot.split & set(self.facts.over(name))
        if not self.maybe(self.wild) and taken:
            return []
        lines = self.bounded(spot, mine, 64 if register else 512)
        spot.held[name] = {memory.name, *above}
        spot.owned |= set(mine) if register else set()
        text = f"keep {name}"
        if not (register and self.maybe(0.2)):
            text += f" in {'auto' if self.maybe(0.02) else memory.name}"
        if not register:
            text += self.lying(name, mine)
        if name in self.facts.kinds and self.maybe(self.wild / 2):
            text += " by shuffle"
        others = [n for n in self.facts.results if n != name and self.facts.results[n] == mine]
        if others and self.maybe(0.1):
            text = text.replace(name, f"{name}, {rng.choice(others)}", 1)
        block = None
        if self.maybe(0.15):
            block = self.written_back(spot, name, mine) if name in self.facts.outputs else self.made(spot, name)
        return [*lines, Line(text, block or None)]

    def written_back(self, spot: Spot, name: str, mine: tuple[str, ...]) -> list[Line]:
        inner, out = spot.copy(), []
        hops = [m for m in self.device.memories[1:-1] if m.name in HOPS or not m.backing]
        if hops and self.maybe(0.5):
            out.append(Line(f"move {name} -> {self.rng.choice(hops).name}" + self.lying(name, mine)))
        return out + self.nest(inner, mine)

    def made(self, spot: Spot, name: str) -> list[Line]:
        """The block of an intermediate: its statement, with its reduced indices."""
        own = next((f, r) for (f, r), t in zip(self.facts.nests, self.facts.results, strict=False) if t == name)
        indices = tuple(i for x in own for i in x if i in spot.extents)
        return self.nest(spot.copy(), indices, main=True)

    def nest(self, spot: Spot, pool: tuple[str, ...], main: bool = False) -> list[Line]:
        """Tiles of a block."""
        pool = tuple(i for i in pool if i in spot.extents)
        out: list[Line] = []
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            if not pool:
                break
            out += self.deal(spot, pool, main=main) if self.maybe(0.55) else self.loop(spot, pool)
        if self.maybe(0.4):
            out.append(Line("compute"))
        return out

    def move(self, spot: Spot, name: str) -> list[Line]:
        memory = self.memory(spot, 0.35)
        held = spot.held.setdefault(name, set())
        register = memory.registers is not None
        axes = self.facts.moved[name]
        owner = self.device.memories[-1].name in held or (register and name not in self.facts.plain)
        if (memory.name in held or owner) and not self.maybe(self.wild):
            return []
        held.add(memory.name)
        spot.owned |= set(axes) if register else set()
        lines = self.bounded(spot, axes, 64 if register else 1024)
        text = f"move {name}"
        if not self.maybe(0.03):
            text += f" -> {'auto' if self.maybe(0.02) else memory.name}"
        if not register:
            text += self.lying(name, self.facts.plain.get(name, ()))
        if self.maybe(0.3 if spot.looped & set(axes) else self.wild):
            text += f" pipeline {self.rng.choice((2, 2, 3, 4))}"
        if self.maybe(0.06):
            copies = [
                f
                for f in dict.fromkeys(i.family for i in self.device.instrs if i.family)
                if "cp" in f or "copy" in f or "ld" in f
            ]
            text += f" with {self.rng.choice(copies or ['auto'])}"
        block = None
        plain = self.facts.plain.get(name, ())
        if not register and plain and self.maybe(0.25):
            inner = spot.copy()
            block = [Line(f"move {name} -> {self.device.memories[-1].name}")] if self.maybe(0.2) else []
            block += self.nest(inner, plain)
        return [*lines, Line(text, block or None)]

    # ------------------------------------------------------------ the main nest

    def steps(self, spot: Spot) -> list[Line]:
        rng, facts = self.rng, self.facts
        keeps = [n for n in facts.kept if self.maybe(0.45 if len(facts.results) < 3 else 0.25)]
        staged = [n for n in facts.staged if "." not in n or self.maybe(self.wild)]
        moves = [n for n in staged if self.maybe(0.3 if len(facts.moved) < 4 else 0.12)]
        moves += [n for n in moves if self.maybe(0.2)]
        keeps += [n for n in keeps if n in facts.kinds and self.maybe(0.3)]  # a tile of what a line above keeps
        todo: list = ["loop"] * rng.choice((0, 0, 1, 1, 2, 2, 3, 4)) + ["deal"] * rng.choice((0, 1, 1, 1, 2, 2, 3, 4))
        todo += [("keep", n) for n in keeps] + [("move", n) for n in moves]
        rng.shuffle(todo)
        if self.maybe(0.5):  # as people write them: results before copies
            todo.sort(key=lambda x: isinstance(x, tuple) and x[0] == "move")
        out: list[Line] = []
        for x in todo:
            if x == "loop":
                out += self.loop(spot, self.pool(0.5))
            elif x == "deal":
                out += self.deal(spot, self.pool(0.25))
            elif x[0] == "keep":
                out += self.keep(spot, x[1])
            else:
                out += self.move(spot, x[1])
        return out

    def pool(self, reduced: float) -> tuple[str, ...]:
        """Free indices, or reduced ones, or both together."""
        facts, pick = self.facts, self.rng.random()
        own = facts.main if facts.main and self.maybe(0.85) else (facts.free, facts.reduced)
        if pick < 0.08:
            return own[0] + own[1]
        return (own[1] if pick < reduced and own[1] else own[0]) or own[0] + own[1] or facts.indices

    def end(self, spot: Spot) -> list[Line]:
        rng, facts = self.rng, self.facts
        pick = rng.random()
        if pick < 0.45:
            return []
        if pick < 0.8:
            more = (
                f" order {', '.join(rng.sample(facts.indices, rng.randint(1, len(facts.indices))))}" if self.maybe(0.15) else ""
            )
            return [Line("compute" + more + (" unroll" if self.maybe(0.08) else ""))]
        if pick < 0.88:
            return [Line("auto")]
        computing = [i for i in self.device.instrs if i.accumulate or self.maybe(self.wild)]
        families = sorted({x for i in computing for x in (i.family, i.name) if x})
        if families and "sum" in facts.kinds.values():
            return [Line(f"compute with {rng.choice(families)}")]
        return []

    def body(self) -> list[Line]:
        rng, facts = self.rng, self.facts
        out: list[Line] = []
        if facts.pointwise and self.maybe(0.1):
            out.append(Line(f"inline {rng.choice(facts.pointwise)}"))
        spot = Spot(0, dict(facts.extents))
        out += self.steps(spot)
        out += self.end(spot)
        if out and self.maybe(0.06):
            out = [x for x in out if self.maybe(0.8)]
        if out and self.maybe(0.04):
            out.insert(rng.randrange(len(out)), Line("auto"))
        return out or [Line("auto")]
