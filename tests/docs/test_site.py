"""The documentation site as a reader gets it: the HTML of every page beside the Markdown that it was made from."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from ..support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md") if not p.name.endswith(".in.md"))
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    pytest.importorskip("material", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", ROOT / "mkdocs.yml", "-d", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "tutorial" / "index.html").exists()
    return folder


@dataclass
class Page(HTMLParser):
    """What is in the article of a page: its text outside code, its headings, its code blocks, its links; and all ids."""

    prose: str = ""
    headings: list[tuple[int, str]] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []

    def inside(self, tag: str, kind: str = "") -> bool:
        return any(t == tag and kind in [*c.split(), ""] for t, c in self.open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {k: v or "" for k, v in attrs}
        self.ids.add(given.get("id", ""))
        if tag not in _VOID:
            self.open.append((tag, given.get("class", "")))
        if not self.inside("article"):
            return
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag == "pre":
            self.blocks.append("")
        if tag == "span" and "filename" in given.get("class", ""):
            self.titles.append("")
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "img":
            self.links.append(given["src"])

    def handle_endtag(self, tag: str) -> None:
        if tag in (t for t, _ in self.open):
            while self.open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self.inside("article") or self.inside("a", "headerlink"):
            return
        for level in range(1, 7):
            if self.inside(f"h{level}"):
                self.headings[-1] = level, self.headings[-1][1] + data
        if self.inside("pre"):
            self.blocks[-1] += data
        elif self.inside("span", "filename"):
            self.titles[-1] += data
        else:
            self.prose += data


def place(site: Path, page: str) -> Path:
    stem = page.removesuffix(".md")
    return site / "index.html" if stem == "index" else site / stem.removesuffix("/index") / "index.html"


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def source(page: str) -> tuple[list[str], list[str], list[tuple[int, str]]]:
    """The headers and texts of the fences of a page, and its headings."""
    headers, fences, headings = [], [], []
    inside: list[str] | None = None
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if inside is not None:
            if line.strip() == "```":
                fences.append("\n".join(inside))
                inside = None
            else:
                inside.append(line)
        elif line.startswith("```"):
            headers.append(line[3:].strip())
            inside = []
        elif found := re.match(r"(#+) (.*)", line):
            headings.append((len(found[1]), found[2]))
    assert inside is None, f"{page}: the last fence is open"
    return headers, fences, headings


def is_indented(page: str, block: str) -> bool:
    """Whether it is a block of code that needs no fence: its lines stand four columns in."""
    lines = [f"    {line}".rstrip() for line in block.strip("\n").splitlines()]
    return "\n".join(["", *lines, ""]) in (DOCS / page).read_text(encoding="utf-8") + "\n"


def plain(text: str) -> str:
    """Without the marks of Markdown, and without what a browser does not show."""
    return re.sub(r"[`*\s\\]|&\w+;", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_its_markdown_says(site, page):
    found = read(place(site, page))
    headers, fences, headings = source(page)
    assert "```" not in found.prose
    assert "```" not in "".join(found.blocks)
    assert re.findall(r"^[-*] .*", found.prose, re.MULTILINE) == [], "a list that is none"
    assert [(n, plain(text)) for n, text in found.headings] == [(n, plain(text)) for n, text in headings]
    indented = [b for b in found.blocks if b.strip("\n") not in fences and is_indented(page, b)]
    assert [b.strip("\n") for b in found.blocks if b not in indented] == [f.strip("\n").expandtabs(4) for f in fences]
    named = [re.search(r'(?:title|append)="([^"]*)"', h) for h in headers]
    assert [t.removesuffix(" (continued)") for t in found.titles] == [n[1] for n in named if n]


def test_there_are_pages():
    """So that the tests of all pages are of some."""
    assert len(PAGES) > 40
    assert {"tutorial.md", "schedule.md", "howto/triton.md"} <= set(PAGES)
    assert sum(len(source(p)[1]) for p in PAGES) > 300


def test_links_resolve(site):
    pages = {path: read(path) for path in site.rglob("*.html")}
    wrong = []
    count = 0
    for page in PAGES:
        path = place(site, page)
        for link in pages[path].links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in pages[target].ids):
                wrong.append(f"{page}: {link}")
    assert wrong == []
    assert count > 200
