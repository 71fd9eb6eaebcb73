"""Without the packages of the lake there is a sentence instead of an ImportError."""

from __future__ import annotations

import pytest

from sulina import lake
from sulina.errors import Refused


def test_nothing_is_said_where_all_is_installed() -> None:
    lake.require_lake()


def test_missing_packages_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"numpy and pyarrow: pip install 'sulina\[lake\]'"):
        lake.require_lake()
