"""SVG as text: elements with attributes, colours that work on light and dark pages, numbers without noise."""

from __future__ import annotations

from html import escape
from typing import Any

# One hue a memory or level, outermost first; readable on white and on near-black.
HUES = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948")
INK = "currentColor"
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


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value), quote=True)
