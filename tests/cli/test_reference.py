"""docs/reference/cli.md is generated from the commands."""

from __future__ import annotations

from pathlib import Path

from sulina.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_reference_of_the_command_line_is_current() -> None:
    assert PAGE.read_text() == reference(), (
        "run: .venv/bin/python -m sulina.cli.reference > docs/reference/cli.md"
    )
