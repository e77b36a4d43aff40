"""The roofline: the device's limit at each arithmetic intensity, and the kernel's point below it.

Williams, Waterman, Patterson: "Roofline: An Insightful Visual Performance Model", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, log10

from ...dsl.device import Device
from ...runtime.report import Report
from .svg import HUES, INK, picture, tag, text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560.0, 340.0, 64.0, 16.0, 16.0, 44.0


def roofline(report: Report, device: Device, expected: Sequence[tuple[str, float, float]] = ()) -> str | None:
    """None where the device states no rates, or sizes are open.

    expected   what a model says: a name, bytes moved to and from the outermost memory, seconds
    """
    flops, seconds = report.flops, report.seconds
    peak = flops / seconds["arithmetic"] if flops and seconds.get("arithmetic") else None
    roofs = {m.name: m.bandwidth for m in device.memories if m.bandwidth and _moved(report, m.name, m.bandwidth)}
    if peak is None or not roofs or not flops:
        return None
    points = {name: flops / _moved(report, name, bandwidth) for name, bandwidth in roofs.items()}
    low = min([*points.values(), *(peak / b for b in roofs.values())]) / 4
    high = max([*points.values(), *(peak / b for b in roofs.values())]) * 4
    floor_ = min(low * min(roofs.values()), peak / 100, *(flops / seconds / 2 for _, _, seconds in expected))
    x = _scale(low, high, LEFT, WIDTH - RIGHT)
    y = _scale(floor_, peak * 2, HEIGHT - BOTTOM, TOP)
    inside = [*_axes(x, y, low, high, floor_, peak * 2)]
    inside.append(tag("line", x1=x(low), y1=y(peak), x2=x(high), y2=y(peak), stroke=INK, stroke_width=1.5))
    inside.append(text(x(high) - 4, y(peak) - 6, f"arithmetic {_rate(peak)}FLOP/s", text_anchor="end"))
    bound = report.bound or ""
    for n, (name, bandwidth) in enumerate(roofs.items()):
        ridge, hue = peak / bandwidth, HUES[n % len(HUES)]
        start = max(low, floor_ / bandwidth)
        inside.append(tag("line", x1=x(start), y1=y(start * bandwidth), x2=x(ridge), y2=y(peak), stroke=hue, stroke_width=1.5))
        inside.append(text(x(start) + 6, y(start * bandwidth) - 8, f"{name} {_rate(bandwidth)}B/s", fill=hue))
        reached = min(peak, points[name] * bandwidth)
        inside.append(
            tag(
                "line",
                x1=x(points[name]),
                y1=HEIGHT - BOTTOM,
                x2=x(points[name]),
                y2=y(reached),
                stroke=hue,
                stroke_dasharray="3 3",
            )
        )
        inside.append(
            tag(
                "circle",
                tag("title", f"{name}: {points[name]:.3g} FLOP a byte, at most {_rate(reached)}FLOP/s"),
                cx=x(points[name]), cy=y(reached), r=5.5 if name == bound else 4, fill=hue,
            )
        )  # fmt: skip
    inside += _expected(x, y, [(name, flops / max(moved, 1.0), flops / took) for name, moved, took in expected])
    said = f"{report.op}: at most {_rate(flops / max(seconds.values()))}FLOP/s, bound by {bound}"
    inside.append(text(LEFT + 8, TOP + 12, said, font_weight="bold"))
    return picture(WIDTH, HEIGHT, *inside, title=f"Roofline of {said}")


def _expected(x, y, points: Sequence[tuple[str, float, float]]) -> Iterator[str]:
    """Candidates: how fast the model says they are, at the intensity that their tiles have; those at one place together."""
    places: dict[tuple[int, int], list[tuple[str, float, float]]] = {}
    for name, intensity, rate in points:
        places.setdefault((round(x(intensity) / 10), round(y(rate) / 10)), []).append((name, intensity, rate))
    for found in places.values():
        said = "; ".join(f"{name}: {intensity:.3g} FLOP a byte, {_rate(rate)}FLOP/s" for name, intensity, rate in found)
        left, top = x(found[0][1]), y(found[0][2])
        square = tag("rect", x=left - 3, y=top - 3, width=6, height=6, fill=INK, fill_opacity=0.7)
        yield tag("g", tag("title", said), square, text(left + 6, top + 14, ", ".join(name for name, _, _ in found)))


def _moved(report: Report, memory: str, bandwidth: float) -> float:
    """Bytes of a memory that has a part in the prediction, so that the picture says what the prediction says."""
    if memory not in report.seconds:
        return 0.0
    return report.seconds[memory] * bandwidth


def _scale(low: float, high: float, start: float, end: float):
    span = log10(high / low) or 1.0
    return lambda value: start + (end - start) * log10(max(value, low) / low) / span


def _axes(x, y, low: float, high: float, bottom: float, top: float) -> Iterator[str]:
    yield tag("line", x1=LEFT, y1=HEIGHT - BOTTOM, x2=WIDTH - RIGHT, y2=HEIGHT - BOTTOM, stroke=INK)
    yield tag("line", x1=LEFT, y1=TOP, x2=LEFT, y2=HEIGHT - BOTTOM, stroke=INK)
    for value in _decades(low, high):
        yield tag("line", x1=x(value), y1=HEIGHT - BOTTOM, x2=x(value), y2=HEIGHT - BOTTOM + 4, stroke=INK)
        yield text(x(value), HEIGHT - BOTTOM + 17, f"{value:g}", text_anchor="middle")
    for value in _decades(bottom, top):
        yield tag("line", x1=LEFT - 4, y1=y(value), x2=LEFT, y2=y(value), stroke=INK)
        yield text(LEFT - 8, y(value) + 4, _rate(value).strip(), text_anchor="end")
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "arithmetic intensity, FLOP a byte", text_anchor="middle")
    yield text(14, HEIGHT / 2, "FLOP/s", transform=f"rotate(-90 14 {HEIGHT / 2})", text_anchor="middle")


def _decades(low: float, high: float) -> list[float]:
    return [10.0**e for e in range(floor(log10(low)) + 1, floor(log10(high)) + 1)]


def _rate(value: float) -> str:
    """`192 G`: a number of at most three digits, and the prefix."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "
