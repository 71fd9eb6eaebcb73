"""Every setting that can change while brokers run, and those that cannot, with the reason.

A test fails if a field of the settings is in neither list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from broker_containers.settable import SettingType
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.setting import Setting
from sulina.errors import NotFound
from sulina.runtime.logs import LEVELS

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "broker": ("broker",),
    "ledger": ("broker", "ledger"),
    "tier": ("broker", "tier"),
    "subscription": ("broker", "subscription"),
    "policy": ("broker", "policy"),
    "cluster": ("cluster",),
    "balance": ("cluster", "balance"),
    "weights": ("cluster", "balance", "weights"),
    "full": ("cluster", "balance", "full"),
    "http": ("broker", "http"),
    "tables": ("broker", "tables"),
}
"""Where the settings of each section are in ``LiveSettings``."""


def _declared(*sections: str) -> dict[str, Setting]:
    found = (
        Setting(f"{section}.{each.name}", (*SECTIONS[section], each.name), **about)
        for section in sections
        for each in fields(LiveSettings().at(SECTIONS[section]))
        if (about := each.metadata.get("setting"))
    )
    return {setting.name: setting for setting in found}


SETTINGS: Final[Mapping[str, Setting]] = {
    **_declared("broker", "ledger", "tier", "subscription", "policy"),
    "log.level": Setting(
        "log.level",
        ("log_level",),
        SettingType.CHOICE,
        "The lowest severity that is logged.",
        choices=LEVELS,
    ),
    **_declared("http", "cluster", "balance", "weights", "full"),
}
"""By name, in display order."""

FIXED: Final[Mapping[str, str]] = {
    "broker.broker_id": "it identifies the broker; a different id is a different broker",
    "tables.catalog": "the catalog is opened once",
    "tables.lake": "the catalog's tables are about these objects",
    "tables.database": "the catalog is opened once",
    "cluster.lease_seconds": "the lease is granted with it when the broker registers",
    "cluster.proxy_url": "clients may keep it for a long time",
    "cluster.shared_name": "the certificates of brokers are for it",
}
"""What can only be set when a broker starts, and why."""


def find(name: str) -> Setting:
    """The setting called ``name``. Raises ``NotFound``, which lists the known names."""
    found = SETTINGS.get(name)
    if found is not None:
        return found
    if name in FIXED:
        raise NotFound(
            f"{name} cannot change while a broker runs ({FIXED[name]}): restart the broker"
        )
    raise NotFound(f"there is no setting {name!r}: choose from {', '.join(SETTINGS)}")
