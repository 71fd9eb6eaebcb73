"""Hooks of the documentation site (mkdocs.yml): navigation, and pages from outside docs/.

The navigation is docs/README.md: each `##` heading is a section, and the first link of each list
item below it is a page. Markdown files outside docs/ become pages under `tree/`, so that links to
them work; links to other files of the repository become plain text, because the site has no copy.
A comment `<!-- api: Client Producer -->` becomes the documentation of these names of `sulina`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
_SECTION: Final = re.compile(r"^## (.+)$")
_ITEM: Final = re.compile(r"^- \[([^\]]+)\]\(([^)#]+)(?:#[^)]*)?\)")
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_API: Final = re.compile(r"<!-- api: ([\w ]+) -->")
_NUMBER: Final = re.compile(r"\d+\. ")
_BLOCK: Final = re.compile(r"[-*] |\d+\. |\|")
_PARAGRAPH: Final = re.compile(r"(?![-*] |\d+\. |[|#<])\S")
_FENCE: Final = re.compile(r"^\s*```")


def navigation(index: str) -> list[Any]:
    """The navigation that docs/README.md describes, as mkdocs takes it."""
    found: list[Any] = [{"Start": "README.md"}]
    section: list[Any] = []
    for line in index.splitlines():
        if heading := _SECTION.match(line):
            section = []
            found.append({heading[1]: section})
        elif item := _ITEM.match(line):
            target = place("docs/README.md", item[2])
            if target is not None:
                section.append({item[1].replace("`", ""): target})
    return [each for each in found if all(each.values())]


def place(page: str, link: str) -> str | None:
    """Where on the site a link of a page leads; None for a file that the site does not have.

    `page` is a path from the root of the repository, `link` a relative path without anchor.
    """
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if target.startswith("docs/"):
        target = target.removeprefix("docs/")
        return posixpath.join(target, "README.md") if (ROOT / "docs" / target).is_dir() else target
    if (ROOT / target).is_dir():
        target = posixpath.join(target, "README.md")
    if not target.endswith(".md") or not (ROOT / target).is_file():
        return None
    return posixpath.join("tree", target)


def rewritten(page: str, text: str) -> str:
    """The text of a page with its links as they are on the site.

    Lists and tables that follow a paragraph get a blank line, which Python-Markdown needs.
    """
    here = posixpath.dirname(
        page.removeprefix("docs/") if page.startswith("docs/") else f"tree/{page}"
    )
    lines: list[str] = []
    fenced = numbered = False
    for line in text.splitlines():
        if not fenced and line[:1].strip():
            numbered = bool(_NUMBER.match(line))
        fence = _FENCE.match(line)
        if not fenced and not fence:
            line = _LINK.sub(lambda link: _moved(page, here, link), line)
            if _BLOCK.match(line) and lines and _PARAGRAPH.match(lines[-1]):
                lines.append("")
        fenced ^= bool(fence)
        # Python-Markdown wants four spaces where GitHub takes three.
        lines.append(f" {line}" if numbered and line.startswith("   ") else line)
    return "\n".join(lines) + "\n"


def _moved(page: str, here: str, link: re.Match[str]) -> str:
    path, _, anchor = link[3].partition("#")
    if not path or ":" in path:
        return link[0]
    target = place(page, path)
    if target is None:
        return link[2]
    there = posixpath.relpath(target, here or ".")
    return f"{link[1]}[{link[2]}]({there}{'#' + anchor if anchor else ''})"


def on_config(config: Any) -> None:
    """Called by mkdocs."""
    config.nav = navigation((ROOT / "docs" / "README.md").read_text(encoding="utf-8"))


def on_files(files: Any, config: Any) -> None:
    """Called by mkdocs: adds the markdown files from outside docs/."""
    from mkdocs.structure.files import File

    for path in outside():
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, f"tree/{name}", content=path.read_text("utf-8")))


def outside() -> list[Path]:
    """The markdown files of the repository outside docs/."""
    found = list(ROOT.glob("*.md"))
    for folder in ROOT.iterdir():
        if folder.is_dir() and folder.name not in ("docs", "site") and folder.name[0] != ".":
            found += folder.rglob("*.md")
    return sorted(found)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs for each page."""
    name = page.file.src_uri
    name = name.removeprefix("tree/") if name.startswith("tree/") else f"docs/{name}"
    return _API.sub(_documented, rewritten(name, markdown))


def _documented(names: re.Match[str]) -> str:
    """The directives by which mkdocstrings writes the documentation of what a comment names."""
    return "\n\n".join(f"::: sulina.{name}" for name in names[1].split())
