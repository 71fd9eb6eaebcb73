"""docs/configuration.md names every setting as it is."""

from __future__ import annotations

import re
from pathlib import Path

from broker_containers.settings.setting_list import find
from broker_containers.settings.settings_page import renewed

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert page == renewed(page), (
        "run: python -m broker_containers.settings.settings_page docs/configuration.md"
    )


def test_the_examples_of_the_page_are_allowed() -> None:
    examples = re.findall(r"config set ([a-z._]+) ('[^']+'|[^ `\n]+)", PAGE.read_text())
    assert len(examples) >= 4
    for name, value in examples:
        find(name).parse(value.strip("'"))
