"""Handlers of the operations on settings; any broker runs them for the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_containers.operations.running import handles
from broker_containers.security.access import author
from broker_containers.settable import SettingScope
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.runtime_config import RuntimeConfig
from broker_containers.settings.setting import Setting
from broker_containers.settings.setting_list import FIXED, SECTIONS, SETTINGS
from sulina.errors import Refused
from sulina.metadata.keys.config import KEPT, StoredSettings
from sulina.operations.cluster import (
    ConfigOperations,
    FixedSetting,
    PastChange,
    SettingChange,
    SettingList,
    SettingRow,
)


class SettingHandlers:
    """Settings that change without a restart."""

    def __init__(self, config: RuntimeConfig) -> None:
        self._config = config

    @handles(ConfigOperations.list)
    async def list(self) -> SettingList:
        config = self._config
        stored = config.stored()
        return SettingList(
            broker=config.broker,
            settings=tuple(_row(setting, config, stored) for setting in SETTINGS.values()),
            fixed=tuple(
                FixedSetting(name, _fixed(config.current, name), reason)
                for name, reason in FIXED.items()
            ),
            ignored=dict(config.ignored),
        )

    @handles(ConfigOperations.set)
    async def set(self, name: str, value: Any, *, broker: str = "", by: str = "") -> SettingChange:
        return await self._config.set(name, value, broker=broker, by=author(by))

    @handles(ConfigOperations.unset)
    async def unset(self, name: str, *, broker: str = "", by: str = "") -> SettingChange:
        return await self._config.unset(name, broker=broker, by=author(by))

    @handles(ConfigOperations.history)
    async def history(self, *, limit: int = 100) -> tuple[PastChange, ...]:
        return tuple(await self._config.history(min(limit, KEPT)))


def _row(setting: Setting, config: RuntimeConfig, stored: StoredSettings) -> SettingRow:
    value = config.current.at(setting.path)
    return SettingRow(
        name=setting.name,
        value=setting.plain(value),
        text=setting.write(value),
        source=_source(setting, config, stored),
        default=setting.plain(LiveSettings().at(setting.path)),
        started_with=setting.plain(config.base.at(setting.path)),
        cluster=_stored_value(setting, stored.cluster),
        brokers={
            broker: _stored_value(setting, values)
            for broker, values in stored.brokers.items()
            if setting.name in values
        },
        unit=setting.unit,
        kind=setting.kind.value,
        allowed=setting.allowed,
        per_broker=setting.scope is SettingScope.BROKER,
        effect=setting.effect.value,
        help=setting.help,
    )


def _stored_value(setting: Setting, values: Mapping[str, str]) -> Any:
    """What is set, or None; a value that this version can't read, as it is stored."""
    if setting.name not in values:
        return None
    try:
        return setting.plain(setting.parse(values[setting.name]))
    except Refused:
        return values[setting.name]


def _source(setting: Setting, config: RuntimeConfig, stored: StoredSettings) -> str:
    if setting.name not in config.ignored:
        if setting.name in stored.of(config.broker):
            return "broker"
        if setting.name in stored.cluster:
            return "cluster"
    same = config.base.at(setting.path) == LiveSettings().at(setting.path)
    return "default" if same else "start"


def _fixed(live: LiveSettings, name: str) -> Any:
    section, _, field = name.partition(".")
    value = live.at((*SECTIONS[section], field))
    return list(value) if isinstance(value, tuple) else value
