"""A hook of mkdocs: the headers of code fences as the site's Markdown knows them.

The headers of our samples say more than a language (see `tests/test_docs.py`). Markdown passes over that; the extension that
makes the site's fences does not take such a line for a fence at all, and then takes the next ``` for the beginning of one.

    ```sched fragment cpu:avx2   -->  ```sched
    ```sched append="F"          -->  ```sched title="F (continued)"
    ```sched title="F"           stays
"""

from __future__ import annotations

import re
from typing import Any

_HEADER = re.compile(r"^(```+)([A-Za-z]+)[ \t]+(.+)$", re.MULTILINE)
_TITLE = re.compile(r'(title|append)="([^"]*)"')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page's text, with headers of fences that the site can read."""
    return _HEADER.sub(_header, markdown)


def _header(found: re.Match[str]) -> str:
    ticks, language, rest = found.groups()
    named = _TITLE.search(rest)
    if named is None:
        return f"{ticks}{language}"
    name = named[2] + (" (continued)" if named[1] == "append" else "")
    return f'{ticks}{language} title="{name}"'
