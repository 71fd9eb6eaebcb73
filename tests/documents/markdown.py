"""The markdown files of the repository: their links, anchors and code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^ *```$", re.M | re.S
)
_LINK: Final = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.M)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code."""

    page: str
    language: str
    text: str
    note: str
    """What an HTML comment right above it says: `not run: why`, or `run on: what`."""


def pages() -> list[Path]:
    """Every markdown file of the repository, without those of environments and builds."""
    found = list(ROOT.glob("*.md")) + list(ROOT.glob(".github/**/*.md"))
    for folder in ROOT.iterdir():
        if folder.is_dir() and not folder.name.startswith(".") and folder.name != "site":
            found += folder.rglob("*.md")
    return sorted(found)


def name(page: Path) -> str:
    """Its path from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


def links(page: Path) -> list[str]:
    """The targets of the links outside code, without those to other sites."""
    text = re.sub(r"`[^`\n]*`", "``", _FENCE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in _LINK.findall(text) if "://" not in link and "mailto:" not in link]


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as GitHub and the site make them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-"))
    return found


def blocks(page: Path) -> list[Block]:
    """The code blocks, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        comment = re.search(r"<!-- (.*) -->\s*\Z", text[: match.start()])
        body = re.sub(f"^{match['indent']}", "", match["body"], flags=re.M)
        note = comment[1] if comment else ""
        found.append(Block(name(page), match["language"], body, note))
    return found
