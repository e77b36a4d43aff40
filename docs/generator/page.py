"""What all makers of pages share: where things are, and pages that are made only in part."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parent.parent
ROOT = DOCS.parent
TESTS = ROOT / "tests"
MADE = "<!-- Made by docs/generate.py; edit what it is made from. -->\n\n"


def with_parts(page: str, parts: dict[str, str]) -> str:
    """A page that is written by hand, with what is made between its marks."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, made in parts.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}\n{made}\n{end}{rest.partition(end)[2]}"
    return text
