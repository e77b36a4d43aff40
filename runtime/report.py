"""What is known of a kernel, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..dsl.op import Op
from .measure import argument_bytes, flops
from .variant import Variant


@dataclass(frozen=True)
class Report:
    """`facts` are the compiler's: footprints, bytes moved, predicted time; `flops` and `bytes` are None while sizes are open.

    `compiler` is None until the kernel was built.
    """

    op: str
    target: str
    device: str
    sizes: dict[str, int]
    threads: int
    variants: int
    compiler: str | None
    cached: bool | None
    flops: int | None
    bytes: int | None
    facts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(op: Op, variants: Sequence[Variant], sizes: Mapping[str, int], threads: int, notes: Iterable[str]) -> Report:
        first = variants[0]
        built = next((v.library for v in variants if v.library), None)
        known = dict(sizes)
        closed = all(d.name in known for d in op.dims)
        if closed:
            for var, expr in op.derived:
                known[var.name] = expr.evaluate(known)
        return Report(
            op=op.name,
            target=first.target.name,
            device=first.program.device.name,
            sizes=known,
            threads=threads,
            variants=len(variants),
            compiler=built.compiler if built else None,
            cached=built.cached if built else None,
            flops=flops(op, known) if closed else None,
            bytes=argument_bytes(op, known) if closed else None,
            facts=first.facts,
            notes=tuple(sorted(notes)),
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        rows: list[tuple[str, object]] = [("op", self.op), ("target", f"{self.target} ({self.device})")]
        rows.append(("sizes", ", ".join(f"{n}={v}" for n, v in self.sizes.items()) or "open"))
        rows.append(("threads", self.threads))
        rows.append(("compiler", self.compiler or "not built yet"))
        if self.variants > 1:
            rows.append(("variants", self.variants))
        if self.flops is not None and self.bytes is not None:
            rows += [("flops", f"{self.flops:,}"), ("bytes", f"{self.bytes:,}")]
        rows += [(name, value) for name, value in self.facts.items() if value not in ((), None, "")]
        rows += [("note", note) for note in self.notes]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
