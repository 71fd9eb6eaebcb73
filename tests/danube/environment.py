"""The environment of the stock client: ``.venv-danube``, made from its lock the first time."""

from __future__ import annotations

from pathlib import Path

from tests.support.environment import environment


def stock_python() -> Path:
    """The interpreter that has the stock client. Raises ``Unavailable`` with what pip said."""
    return environment("danube") / "python"
