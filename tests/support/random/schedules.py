"""Random schedules for an op on a CPU-like device: lines in random order, most of them legal."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from andiron.dsl.device import Device
from andiron.dsl.op import Op
from andiron.dsl.values import Load, loads


@dataclass(frozen=True)
class _Facts:
    """What a schedule for the op may name."""

    free: tuple[str, ...]  # indices that are free in every statement
    reduced: tuple[str, ...]
    inputs: tuple[str, ...]
    axes: dict[str, tuple[str, ...]]  # plain axes of an input, where all are plain
    results: dict[str, tuple[str, ...]]  # what `keep` may name -> its indices


def facts_of(op: Op) -> _Facts:
    reduced = {i for s in op.statements if s.reduction for i in s.reduction.indices}
    every = list(dict.fromkeys(i for s in op.statements for i, _ in s.ranges))
    reads: dict[str, list[Load]] = {}
    for s in op.statements:
        for ld in loads(s.value):
            reads.setdefault(ld.tensor, []).append(ld)
    inputs = tuple(t.name for t in op.inputs if t.name in reads)
    axes = {}
    for name in inputs:
        forms = {tuple(map(str, ld.indices)) for ld in reads[name]}
        if len(forms) == 1 and all(x in every for x in next(iter(forms))):
            axes[name] = next(iter(forms))
    results = {s.target: s.indices for s in op.statements if "." not in s.target}
    return _Facts(tuple(i for i in every if i not in reduced), tuple(i for i in every if i in reduced), inputs, axes, results)


class _Writer:
    def __init__(self, rng: Random, facts: _Facts, device: Device) -> None:
        self.rng, self.facts, self.device = rng, facts, device
        self.tiled: set[str] = set()
        self.level = "socket"
        self.out: list[str] = []
        self.single: set[str] = set()
        self.copied: set[tuple[str, str]] = set()  # tensors and the memories that they were moved to
        self.held: set[str] = set()  # indices that number registers from here on
        self.width = (device.level("lane").bytes or 16) // 4

    def size(self) -> int:
        return self.rng.choice((1, 2, 3, 4, 4, 5, 7, 8, 8, 16))

    def pick(self, pool, most: int = 2) -> list[str]:
        pool = [i for i in pool if i not in self.single]
        return self.rng.sample(pool, min(len(pool), self.rng.randint(1, most)))

    def loop(self) -> None:
        pool = [*self.facts.free, *self.facts.reduced]
        mine = self.pick(pool)
        if not mine:
            return
        axes = []
        for i in mine:
            n = self.size()
            axes.append(f"{i}: {n}")
            self.tiled.add(i)
        text = "tile " + ", ".join(axes)
        if len(mine) > 1 and self.rng.random() < 0.2:
            text += f" order {', '.join(reversed(mine))}"
        if self.rng.random() < 0.2:
            text += self.rng.choice((" unroll", " unroll 2", " unroll 4"))
        elif self.rng.random() < 0.2:
            text += self.pipeline() + self.rng.choice(("", " through"))
        self.out.append(text)

    def ahead(self, name: str) -> None:
        """A loop, and moves of an input right below it that run ahead over it."""
        axes = [i for i in self.facts.axes.get(name, ()) if i not in self.single]
        if not axes:
            return
        missing = [i for i in axes if i not in self.tiled]
        if missing:
            self.out.append("tile " + ", ".join(f"{i}: {self.size()}" for i in missing))
            self.tiled.update(missing)
        on_move = self.rng.random() < 0.3
        turn = self.rng.choice([*axes, *(i for i in axes if i in self.facts.reduced)])
        words = self.pipeline() + self.rng.choice(("", "", " through"))
        self.out.append(f"tile {turn}: {self.rng.choice((1, 1, 2, 3, 4))}" + ("" if on_move else words))
        for other in (name, *self.facts.axes):
            if other != name and (turn not in self.facts.axes[other] or self.rng.random() < 0.5):
                continue
            memory = self.memory()
            if (other, memory) in self.copied:
                continue
            self.copied.add((other, memory))
            if memory == "register":
                self.held.update(self.facts.axes[other])
            self.out.append(f"move {other} -> {memory}" + (words if on_move else ""))

    def pipeline(self) -> str:
        return f" pipeline {self.rng.choice((2, 2, 3, 4))}"

    def cores(self) -> None:
        pool = self.facts.free if self.rng.random() < 0.85 else self.facts.reduced
        mine = self.pick([i for i in pool if i not in self.held or self.rng.random() < 0.1])
        for line in [mine] if self.rng.random() < 0.8 else [[i] for i in mine]:
            if line:
                self.out.append("tile " + ", ".join(f"{i}: {self.size()}" for i in line) + " -> core")
                self.tiled.update(line)
                self.level = "core"

    def lanes(self) -> None:
        """One index (rarely two) dealt to lanes; what is dealt has a bound."""
        pool = self.facts.free if self.rng.random() < 0.8 else self.facts.reduced
        mine = self.pick(pool, 2 if self.rng.random() < 0.2 else 1)
        if not mine:
            return
        axes = []
        for i in mine:
            chunk = self.rng.choice((1, 1, 1, 2))
            if self.rng.random() < 0.3:
                axes.append(f"{i}: {chunk} every {chunk * self.rng.choice((2, 4, 8))}")
                if i not in self.tiled:
                    self.out.append(f"tile {i}: {self.rng.choice((8, 16, 32))}")
            else:
                axes.append(f"{i}: {chunk}")
                self.out.append(f"tile {i}: {chunk * self.rng.choice((2, 3, 4, self.width)) if len(mine) == 1 else 2 * chunk}")
            self.tiled.add(i)
            self.single.add(i)
        self.out.append("tile " + ", ".join(axes) + " -> lane")
        self.level = "lane"

    def memory(self) -> str:
        inner = self.level != "socket"
        return self.rng.choice(("l3", "register", "register", *(("l2", "l1") if inner else ())))

    def keep(self, name: str) -> None:
        if not name:
            return
        mine = self.facts.results[name]
        memory = self.memory()
        bounded = self.rng.random() < 0.9
        missing = [i for i in mine if i not in self.tiled]
        if missing and bounded:
            self.out.append("tile " + ", ".join(f"{i}: {self.size()}" for i in missing))
            self.tiled.update(missing)
        if memory == "register":
            self.held.update(mine)
        line = f"keep {name} in {memory}"
        if memory != "register" and mine and self.rng.random() < 0.3:
            line += f" pad {self.rng.randint(1, 3)}"
        if memory == "register" and mine and self.level != "lane" and self.rng.random() < 0.1:
            hop = self.rng.choice(("l3", "l1" if self.level == "core" else "l3"))
            line += f":\n    move {name} -> {hop}" + (f"\n    tile {mine[0]}: {self.size()}" if self.rng.random() < 0.6 else "")
        self.out.append(line)

    def move(self, name: str) -> None:
        memory = self.memory()
        if (name, memory) in self.copied and self.rng.random() < 0.9:
            return
        self.copied.add((name, memory))
        axes = self.facts.axes.get(name, ())
        missing = [i for i in axes if i not in self.tiled]
        if missing and self.rng.random() < 0.9:
            self.out.append("tile " + ", ".join(f"{i}: {self.size()}" for i in missing))
            self.tiled.update(missing)
        if memory == "register":
            if name not in self.facts.axes and self.rng.random() < 0.9:
                return  # read at several places
            self.held.update(axes)
        line = f"move {name} -> {memory}"
        if self.rng.random() < 0.2:
            line += self.pipeline()
        if memory != "register" and axes and len(set(axes)) == len(axes):
            pick = self.rng.random()
            if pick < 0.2:
                line += f" layout ({', '.join(self.rng.sample(axes, len(axes)))})"
            elif pick < 0.4:
                line += f" layout panels({self.rng.choice(axes)}: {self.size()})"
            if self.rng.random() < 0.2:
                line += f" pad {self.rng.randint(1, 3)}"
            if self.rng.random() < 0.3:
                line += ":" + self.block(name, axes)
        self.out.append(line)

    def block(self, name: str, axes: tuple[str, ...]) -> str:
        """The schedule of a copy."""
        rng, lines = self.rng, []
        axes = tuple(a for a in axes if a not in self.single)
        todo = list(axes)
        if todo and rng.random() < 0.4:
            lines.append(f"tile {rng.choice(todo)}: {self.size()}")
        if todo and self.level == "socket" and rng.random() < 0.5:
            lines.append(f"tile {rng.choice(todo)}: {self.size()} -> core")
        if rng.random() < 0.2:
            lines.append(f"move {name} -> register")
        if todo and self.level != "lane" and rng.random() < 0.4:
            lines.append(f"tile {rng.choice(todo)}: 1 -> lane")
        lines.append("compute")
        return "".join("\n    " + x for x in lines)


def random_schedule(rng: Random, op: Op, device: Device, name: str = "s") -> str:
    """The text of a schedule; equal states of the generator give equal texts."""
    facts = facts_of(op)
    w = _Writer(rng, facts, device)
    head = f"schedule {name} for {op.name}:\n"
    if rng.random() < 0.08 and len(op.statements) == 1:
        facts = _fused(w, facts, op)
        w.facts = facts
    steps: list = []
    steps += [w.loop] * rng.randint(0, 4)
    keeps = [n for n in facts.results if rng.random() < (0.5 if len(facts.results) < 3 else 0.35)]
    moves = [n for n in facts.inputs if rng.random() < 0.35]
    steps += [lambda n=n: w.keep(n) for n in keeps]
    steps += [lambda n=n: w.move(n) for n in moves]
    if facts.axes and rng.random() < 0.2:
        steps.append(lambda: w.ahead(rng.choice(list(facts.axes))))
    if moves and rng.random() < 0.15:
        steps.append(lambda: w.move(moves[0]))
    rng.shuffle(steps)
    core = rng.randint(0, len(steps)) if rng.random() < 0.6 else None
    lane = rng.randint(core or 0, len(steps)) if rng.random() < 0.5 else None
    for n in range(len(steps) + 1):
        if n == core:
            w.cores()
        if n == lane:
            w.lanes()
        if n < len(steps):
            steps[n]()
    families = sorted({i.family for i in device.instrs if i.family})
    end = rng.random()
    if end < 0.5:
        w.out.append("compute" if rng.random() < 0.8 or not facts.free else f"compute order {rng.choice(facts.free)}")
    elif end < 0.75 and families and any(s.reduction and s.reduction.kind == "sum" for s in op.statements):
        w.out.append(f"compute with {rng.choice(families)}")
    lines = w.out
    if rng.random() < 0.2 and lines:
        lines = lines[: rng.randint(0, len(lines))]
    elif rng.random() < 0.1:
        lines = [x for x in lines if rng.random() < 0.8]
    inner = [t.name for t in op.tensors if t.role == "intermediate"]
    if len(inner) > 1 and rng.random() < 0.15:  # a launch of their own for two of them
        block = [f"keep {', '.join(rng.sample(inner, 2))} in {device.memories[0].name}:"]
        block += ["    " + y for x in lines or ["auto"] for y in x.split("\n")]
        lines = [*block, "auto"]
    body = "\n".join(lines) or "auto"
    return head + "".join("    " + x + "\n" for x in body.split("\n"))


def _fused(w: _Writer, facts: _Facts, op: Op) -> _Facts:
    s = op.statements[0]
    pool = s.indices if len(s.indices) > 1 and w.rng.random() < 0.6 else s.reduction.indices if s.reduction else ()
    if len(pool) < 2:
        return facts
    mine = w.rng.sample(pool, 2)
    w.out.append(f"fuse {', '.join(mine)} as f")

    def swap(indices: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys("f" if i in mine else i for i in indices))

    axes = {n: a for n, a in facts.axes.items() if not set(a) & set(mine)}
    results = {n: swap(i) for n, i in facts.results.items()}
    return _Facts(swap(facts.free), swap(facts.reduced), facts.inputs, axes, results)
