"""A hook of mkdocs: what CommonMark takes and the site's Markdown does not.

The headers of our samples say more than a language (see `tests/docs/test_docs.py`). Markdown passes over that; the extension
that makes the site's fences does not take such a line for a fence at all, and then takes the next ``` for the beginning of one.

    ```sched fragment cpu:avx2   -->  ```sched
    ```sched append="F"          -->  ```sched title="F (continued)"
    ```sched title="F"           stays

A list may begin on the line below a paragraph; here it gets the blank line that it needs.
"""

from __future__ import annotations

import re
from typing import Any

_HEADER = re.compile(r"^(```+)([A-Za-z]+)[ \t]+(.+)$")
_ITEM = re.compile(r"([-*]|1\.) ")
_PARAGRAPH = re.compile(r"(?![-*] |\d+\. |[#|<>]|```)\S")
_TITLE = re.compile(r'(title|append)="([^"]*)"')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page's text, as the site can read it."""
    out: list[str] = []
    in_fence = False
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            line = line if in_fence else _HEADER.sub(_header, line)
            in_fence = not in_fence
        elif not in_fence and _ITEM.match(line) and out and _PARAGRAPH.match(out[-1]):
            out.append("")
        out.append(line)
    return "\n".join(out) + "\n"


def _header(found: re.Match[str]) -> str:
    ticks, language, rest = found.groups()
    named = _TITLE.search(rest)
    if named is None:
        return f"{ticks}{language}"
    name = named[2] + (" (continued)" if named[1] == "append" else "")
    return f'{ticks}{language} title="{name}"'
