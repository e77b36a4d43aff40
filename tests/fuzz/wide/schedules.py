"""Random schedules of what the first generator does not write.

Three and more indices a line, sizes that are expressions, names or `auto`, any bijection by `arrange` (with `every` as well),
blocks in blocks in blocks, instructions for copies, words that wait for their lowering.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from random import Random

from andiron.dsl.device import Device, Level

from ..facts import Facts
from ..schedules import Line, Spot, Writer

DEEPEST = 3  # blocks inside each other
_SIZE = re.compile(r"(?<=: )(\d+)(?= |,|$)")


class WideWriter(Writer):
    """`known`: sizes and parameters that have a number when a kernel is compiled, which lines may name."""

    def __init__(self, rng: Random, facts: Facts, device: Device, known: Mapping[str, int]) -> None:
        super().__init__(rng, facts, device)
        self.known, self.depth = known, 0
        self.copies = sorted({i.family for i in device.instrs if i.family and not i.accumulate})

    def indices(self, pool: tuple[str, ...], most: int) -> list[str]:
        pool = tuple(dict.fromkeys(pool))
        return self.rng.sample(pool, min(len(pool), self.rng.choice((1, 1, 2, 2, 3, 4)[: most + 3])))

    # ------------------------------------------------------------ tiles

    def loop_modifiers(self, mine: list[str], last: int) -> str:
        out = super().loop_modifiers(mine, last)
        if "peel" not in out and self.maybe(0.15):
            out += " peel"
        if "unroll" not in out and self.maybe(0.08):
            out += " unroll" + self.rng.choice(("", " 2", " 5", " auto"))
        if "vector" not in out and self.maybe(0.04):
            out += " vector auto"
        if "pipeline" not in out and self.maybe(0.03):
            out += " pipeline auto"
        return out

    def unit_modifiers(self, spot: Spot, own: Level, mine: list[str], counts: list[int], last: int, main: bool) -> str:
        rng = self.rng
        out = super().unit_modifiers(spot, own, mine, counts, last, main)
        if "arrange" not in out and all(counts) and self.maybe(0.2) and not any("." in i for i in mine):
            out = re.sub(r" (order [\w, ]+?|raster \d+)(?= by| vector| within|$)", "", out)
            out += f" arrange u: {self.arranged(mine, counts)}"
        elif len(mine) == 2 and own.units == "open" and "raster" not in out and "order" not in out and self.maybe(0.1):
            out += " raster " + rng.choice(("2", "3", "auto"))
        if len(mine) > 2 and "order" not in out and "arrange" not in out and self.maybe(0.2):
            out += " order " + ", ".join(rng.sample(mine, rng.randint(2, len(mine))))
        return out

    def arranged(self, mine: list[str], counts: list[int]) -> str:
        """A map of the unit's number to tiles: digits in any order, each backwards or moved round."""
        rng, below, maps = self.rng, 1, {}
        whole = prod(counts)
        for n in rng.sample(range(len(mine)), len(mine)):
            count = counts[n]
            e = "u" if below == 1 else f"u/{below}"
            if below * count != whole or self.maybe(0.5):
                e = f"{e} % {count}"
            if self.maybe(0.2):
                e = f"{count - 1} - {e}" if self.maybe(0.5) or count == 1 else f"({e} + {rng.randint(1, count)}) % {count}"
            below *= count
            maps[mine[n]] = e
        return ", ".join(f"{i} = {maps[i]}" for i in mine)

    # ------------------------------------------------------------ blocks

    def nest(self, spot: Spot, pool: tuple[str, ...], main: bool = False) -> list[Line]:
        """Tiles, copies and results of a block, which may have blocks of their own."""
        self.depth += 1
        out = super().nest(spot, pool, main)
        end = [out.pop()] if out and out[-1].text == "compute" else []
        if self.depth < DEEPEST and main and self.facts.staged and self.maybe(0.4):
            out += self.move(spot, self.rng.choice(self.facts.staged))
            if self.maybe(0.5):
                out += self.loop(spot, tuple(i for i in pool if i in spot.extents))
        if self.depth < DEEPEST and main and self.facts.kept and self.maybe(0.2):
            out += self.keep(spot, self.rng.choice(self.facts.kept))
        self.depth -= 1
        return out + end

    def move(self, spot: Spot, name: str) -> list[Line]:
        lines = super().move(spot, name)
        if not lines:
            return lines
        line = lines[-1]
        if self.copies and " with " not in line.text and self.maybe(0.25):
            line.text += f" with {self.rng.choice(self.copies)}"
        if "->" in line.text and self.maybe(0.04):
            line.text = line.text.replace(f"move {name} -> {self.memory_of(line)}", f"move {name} -> auto")
        if "->" in line.text and self.maybe(0.08):
            line.text = self.viewed(line.text, self.facts.moved[name])
        plain = self.facts.plain.get(name, ())
        if self.depth < DEEPEST and plain and line.block is None and self.maybe(0.25):
            line.block = self.copied(spot, name, plain) or None
        return lines

    def viewed(self, text: str, axes: tuple[str, ...]) -> str:
        """The copy by indices of the focus: those that the tensor is read by in any order, now and then others."""
        mine = [i for i in axes if "." not in i]
        if not mine or self.maybe(0.1):
            mine = list(self.facts.indices)
        if self.maybe(0.1):
            mine.append(self.rng.choice(self.facts.indices))
        view = f" as ({', '.join(self.rng.sample(mine, len(mine) if self.maybe(0.9) else 1))})"
        text = re.sub(r" layout \(.*?\)| layout panels\(.*?\)", "", text)
        return re.sub(r"^(move [\w.]+) ->", rf"\1{view} ->", text) if self.maybe(0.6) else text + view

    def memory_of(self, line: Line) -> str:
        found = re.search(r"-> (\w+)", line.text)
        return found[1] if found else ""

    def copied(self, spot: Spot, name: str, plain: tuple[str, ...]) -> list[Line]:
        """The block of a copy: the source one hop further, with a block of its own, and tiles."""
        inner, out = spot.copy(), []
        self.depth += 1
        hops = [m.name for m in self.device.memories[1:] if m.name not in inner.held.get(name, ())]
        if hops and self.maybe(0.6):
            hop = self.rng.choice(hops)
            inner.held.setdefault(name, set()).add(hop)
            block = self.copied(inner, name, plain) if self.depth < DEEPEST and self.maybe(0.5) else None
            if self.maybe(0.7):
                out += self.loop(inner, plain)
            out.append(Line(f"move {name} -> {hop}" + (" vector 4" if self.maybe(0.1) else ""), block or None))
        elif self.maybe(0.2):
            out.append(Line(f"keep {name} in {self.device.memories[-1].name}"))
        out += self.nest(inner, plain)
        self.depth -= 1
        return out

    def keep(self, spot: Spot, name: str) -> list[Line]:
        lines = super().keep(spot, name)
        if lines and self.copies and self.maybe(0.06):
            lines[-1].text += f" with {self.rng.choice(self.copies)}"
        return lines

    # ------------------------------------------------------------ words

    def decorated(self, lines: list[Line]) -> list[Line]:
        """Numbers as expressions and names, `auto` for some, and now and then a word that waits for its lowering."""
        return [self.one(x) for x in lines]

    def one(self, line: Line) -> Line:
        rng, text = self.rng, line.text
        if text.startswith("tile") and self.maybe(0.15):
            text = _SIZE.sub(lambda m: self.expression(int(m[1])), text)
        elif text.startswith("tile") and self.maybe(0.03):
            text = (
                _SIZE.sub("auto", text, count=1) if self.maybe(0.5) else re.sub(r"tile (\w+): \d+(?= ->|$)", r"tile \1", text)
            )
        for word in ("pad", "vector", "pipeline", "raster"):
            if f" {word} " in text and self.maybe(0.06):
                text = re.sub(rf" {word} \d+", f" {word} auto", text)
        if "swizzle (" in text and self.maybe(0.3):
            text = re.sub(r"swizzle \(.*?\)", f"swizzle ({rng.randint(1, 3)}, {rng.choice((1, 2, 4))})", text)
        if "layout panels(" in text and self.maybe(0.6):
            digits = self.rng.choice((r"panels(\1: \2, \1: 2)", r"panels(\1: 8, \1: 4, \1: 2)", "panels"))
            text = re.sub(r"panels\((\w+): (\d+)\)", digits, text)
        if text.startswith(("keep", "move")) and self.maybe(0.02):
            text += " with auto"
        return Line(text, self.decorated(line.block) if line.block is not None else None)

    def expression(self, n: int) -> str:
        """An expression that is this number."""
        rng = self.rng
        named = [x for x, value in self.known.items() if value == n]
        if named and self.maybe(0.6):
            return rng.choice(named)
        near = [(x, value) for x, value in self.known.items() if value > 0]
        if near and self.maybe(0.4):
            name, value = rng.choice(near)
            return rng.choice(
                (
                    f"{name} - {value - n}" if value >= n else f"{name} + {n - value}",
                    f"min({name}, {n})" if n <= value else f"max({name}, {n})",
                )
            )
        return rng.choice(
            (
                f"2*{n}/2",
                f"{n} + 0",
                f"({n + 1} - 1)",
                f"min({n}, {n + 3})",
                f"{3 * n + 2} / 3",
                f"-{n} + {2 * n}",
                f"{n} % {n + 1}",
            )
        )

    def waiting(self, line: Line) -> list[Line]:
        """The line with a word of the language that is not lowered yet, or with another line of such words."""
        rng, text, more = self.rng, line.text, []
        if self.maybe(0.25):
            more.append(Line(rng.choice(("budget global 4 GiB", "budget dram 1.5 GiB", "share buffers"))))
        elif text.startswith("tile"):
            words = ("persistent", "online", "carry", "multicast m", "multicast m, n")
            text = "tile nonzeros(A): 4" if self.maybe(0.2) else f"{text} {rng.choice(words)}"
        elif text.startswith("move"):
            text += f" by {rng.choice(('producer', 'consumer'))}"
        return [*more, Line(text, line.block)]

    def body(self) -> list[Line]:
        out = self.decorated(super().body())
        if self.maybe(0.04):
            moves = [n for n, x in enumerate(out) if x.text.startswith("move") and "->" in x.text]
            n = self.rng.choice(moves if moves and self.maybe(0.3) else range(len(out)))
            out[n : n + 1] = self.waiting(out[n])
        return out
