"""Documents: links lead somewhere, every page is in the index, pictures match their sources."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.documents.markdown import ROOT, anchors, links, name, pages


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}: there is no such file"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{name(page)} links to {link}: no such heading"


def test_the_navigation_of_the_site_is_the_index() -> None:
    site = runpy.run_path(str(ROOT / "docs" / "site.py"))
    index = (ROOT / "docs" / "README.md").read_text()
    sections = [title for each in site["navigation"](index) for title in each]
    assert sections == ["Start", *re.findall(r"^## (.+)$", index, re.M)]


def test_links_out_of_the_site_lead_to_its_copies_or_become_text() -> None:
    rewritten = runpy.run_path(str(ROOT / "docs" / "site.py"))["rewritten"]
    text = "See [it](../infra/README.md#rules), [code](../sulina/errors.py), [here](client.md)."
    assert rewritten("docs/http.md", text) == (
        "See [it](tree/infra/README.md#rules), code, [here](client.md).\n"
    )
    assert rewritten("README.md", "![a](docs/img/a.svg)") == "![a](../img/a.svg)\n"


def test_the_picture_is_what_its_source_makes() -> None:
    picture = runpy.run_path(str(ROOT / "docs" / "img" / "architecture.py"))["picture"]()
    committed = (ROOT / "docs" / "img" / "architecture.svg").read_text(encoding="utf-8")
    assert committed == picture, "run: python docs/img/architecture.py"
    assert "to come" not in committed
