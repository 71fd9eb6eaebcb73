"""The tables of docs/configuration.md, made from the list of settings.

``python -m broker_containers.settings.settings_page docs/configuration.md`` brings the page up to
date; a test checks that it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.setting import SettingScope
from broker_containers.settings.setting_list import FIXED, SETTINGS

BEGIN: Final = "<!-- settings: made by broker_containers.settings.settings_page -->"
END: Final = "<!-- end of settings -->"


def tables() -> str:
    """What changes while brokers run, and what does not, in Markdown."""
    defaults = LiveSettings()
    live = (
        (
            f"`{setting.name}`",
            setting.write(defaults.at(setting.path)),
            setting.allowed,
            "yes" if setting.scope is SettingScope.BROKER else "no",
            setting.effect.value,
            setting.help,
        )
        for setting in SETTINGS.values()
    )
    fixed = ((f"`{name}`", reason) for name, reason in FIXED.items())
    return (
        _table(("setting", "default", "allowed", "per broker", "holds", "what it is"), live)
        + "\nThese are given when a broker starts, and change only with a restart:\n\n"
        + _table(("setting", "why"), fixed)
    )


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = tuple(heads)
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def renewed(page: str) -> str:
    """The page with the tables of today between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(renewed(place.read_text()))
