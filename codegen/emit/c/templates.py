"""The templates of a dialect: those in its own folder first, then the shared ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

_TEMPLATES = Path(__file__).parents[2] / "templates"

FOLDERS = {
    "c": ("c",),
    "cpp": ("cpp",),
    "cuda": ("cuda", "gpu", "cpp"),
    "hip": ("hip", "gpu", "cpp"),
    "emulate": ("emulate", "gpu", "cpp"),
}


def folder(dialect: str) -> Path:
    """Of a dialect's own templates."""
    return _TEMPLATES / dialect


@cache
def environment(dialect: str = "cpp") -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([_TEMPLATES / folder for folder in FOLDERS[dialect]]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
