"""Traffic: a box for each memory, outermost on top, with arrows for the bytes read from it and written to it."""

from __future__ import annotations

from math import sqrt

from ...codegen.lower.schedule_trace import bytes_text
from ...dsl.device import Device
from ...runtime.report import Report
from .svg import HUES, INK, picture, tag, text

BOX, ROW, LEFT, WIDTH = 44.0, 84.0, 10.0, 560.0


def traffic(report: Report, device: Device) -> str | None:
    """None while sizes are open."""
    names = [m.name for m in device.memories if report.read.get(m.name) or report.written.get(m.name)]
    if not names:
        return None
    most = max(max(report.read.get(n, 0), report.written.get(n, 0)) for n in names)
    inside = []
    for n, name in enumerate(names):
        inside += _row(report, device, name, 8 + n * ROW, HUES[n % len(HUES)], most)
    bottom = 8 + len(names) * ROW
    inside.append(tag("rect", x=LEFT, y=bottom, width=WIDTH - 2 * LEFT, height=28, rx=4, fill=INK, fill_opacity=0.08))
    inside.append(
        text(WIDTH / 2, bottom + 18, f"{device.levels[-1].name}s: {report.flops or 0:,} operations", text_anchor="middle")
    )
    return picture(WIDTH, bottom + 36, *inside, title=f"Bytes moved by {report.op}")


def _row(report: Report, device: Device, name: str, top: float, hue: str, most: int) -> list[str]:
    memory = device.memory(name)
    read, written = report.read.get(name, 0), report.written.get(name, 0)
    held = report.footprints.get(name)
    said = name if held is None else f"{name}: holds {bytes_text(held[0])}" + (f" of {bytes_text(held[1])}" if held[1] else "")
    if memory.bandwidth:
        said += f", {memory.bandwidth / 1e9:,.0f} GB/s"
    out = [
        tag("rect", x=LEFT, y=top, width=WIDTH - 2 * LEFT, height=BOX - 10, rx=4, fill=hue, fill_opacity=0.2, stroke=hue),
        text(LEFT + 10, top + 21, said),
    ]
    if held is not None and held[1]:
        share = min(held[0] / held[1], 1.0) * (WIDTH - 2 * LEFT)
        out.append(tag("rect", x=LEFT, y=top + BOX - 14, width=share, height=4, fill=hue))
    for x, amount, down in ((WIDTH * 0.3, read, True), (WIDTH * 0.7, written, False)):
        if not amount:
            continue
        width = 2 + 16 * sqrt(amount / most)
        y1, y2 = top + BOX - 8, top + ROW - 2
        tip = y2 if down else y1
        base = tip - 8 if down else tip + 8
        out.append(tag("line", x1=x, y1=y1 if down else base, x2=x, y2=base if down else y2, stroke=hue, stroke_width=width))
        out.append(
            tag(
                "path", d=f"M{x - width / 2 - 5:.4g} {base:.4g}L{x + width / 2 + 5:.4g} {base:.4g}L{x:.4g} {tip:.4g}Z", fill=hue
            )
        )
        out.append(text(x + width / 2 + 10, (y1 + y2) / 2 + 4, f"{bytes_text(amount)} {'read' if down else 'written'}"))
    return out
