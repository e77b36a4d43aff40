"""SVG as text: elements with attributes, colours that work on light and dark pages, numbers without noise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

# One hue a memory or level, outermost first; readable on white and on near-black.
HUES = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948")
INK = "currentColor"
CHARACTER = 7.4  # of a fixed width, at most
_SIZE = re.compile(r' width="([\d.]+)" height="([\d.]+)"')
STYLE = "font-family:ui-sans-serif,system-ui,sans-serif;font-size:12px"


def tag(name: str, *inside: str, **attributes: Any) -> str:
    """An element. `class_` and the like lose their underscore, others become hyphens; None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items() if value is not None
    )
    return f"<{name}{given}>{''.join(inside)}</{name}>" if inside else f"<{name}{given}/>"


def text(x: float, y: float, said: str, **attributes: Any) -> str:
    """Words whose baseline is at y."""
    return tag("text", escape(said), x=x, y=y, **{"fill": INK, **attributes})


def picture(width: float, height: float, *inside: str, title: str) -> str:
    """A whole picture, with a title for those who cannot see it."""
    return tag(
        "svg",
        tag("title", escape(title)),
        *inside,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        width=width,
        height=height,
        role="img",
        style=STYLE,
    )


def stacked(pictures: Sequence[str], gap: float, title: str) -> str:
    """Whole pictures one below the other, as one."""
    sizes = [tuple(float(x) for x in _SIZE.search(p).groups()) for p in pictures]  # type: ignore[union-attr]
    inside, top = [], 0.0
    for p, (_, height) in zip(pictures, sizes, strict=True):
        inside.append(tag("g", p, transform=f"translate(0 {_value(top)})"))
        top += height + gap
    return picture(max(w for w, _ in sizes), top - gap, *inside, title=title)


def table(rows: Sequence[Sequence[str]], title: str) -> str:
    """Rows as a picture, the first in bold; columns end at the right."""
    widths = [max(len(r[n]) for r in rows) * CHARACTER + 14 for n in range(len(rows[0]))]
    inside = [text(8, 16, title, font_weight="bold")]
    for n, row in enumerate(rows):
        right = 0.0
        for said, width in zip(row, widths, strict=True):
            right += width
            if said:
                at = {"text_anchor": "end", "style": "font-family:ui-monospace,monospace"}
                inside.append(text(right, 36.0 + 17 * n, said, font_weight="bold" if n == 0 else None, **at))
    return picture(max(sum(widths), len(title) * CHARACTER) + 8, 36.0 + 17 * len(rows), *inside, title=title)


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value), quote=True)
