"""Administrative methods about settings: list, set, unset, history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_containers.arguments import Arguments, Method, number, text
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.runtime_config import RuntimeConfig
from broker_containers.settings.setting import Setting, SettingScope
from broker_containers.settings.setting_list import FIXED, SECTIONS, SETTINGS
from sulina.errors import Refused
from sulina.metadata.keys.config import KEPT, Stored

_SHOWN = 100


def config_methods(config: RuntimeConfig) -> dict[str, Method]:
    """The methods, for ``Admin`` to offer. Every broker can answer them for the whole cluster."""

    async def list_(_: Arguments) -> Any:
        stored = config.stored()
        return {
            "broker": config.broker,
            "settings": [_row(setting, config, stored) for setting in SETTINGS.values()],
            "fixed": [
                {"name": name, "value": _fixed(config.current, name), "reason": reason}
                for name, reason in FIXED.items()
            ],
            "ignored": dict(config.ignored),
        }

    async def set_(arguments: Arguments) -> Any:
        if "value" not in arguments:
            raise Refused("value is missing")
        name = text(arguments, "name")
        return await config.set(name, arguments["value"], **_who_and_where(arguments))

    async def unset(arguments: Arguments) -> Any:
        return await config.unset(text(arguments, "name"), **_who_and_where(arguments))

    async def history(arguments: Arguments) -> Any:
        return await config.history(min(number(arguments, "limit", _SHOWN), KEPT))

    return {
        "config.list": list_,
        "config.set": set_,
        "config.unset": unset,
        "config.history": history,
    }


def _who_and_where(arguments: Arguments) -> dict[str, str]:
    found = {}
    for name in ("broker", "by"):
        value = arguments.get(name) or ""
        if not isinstance(value, str):
            raise Refused(f"{name} must be a name, not {value!r}")
        found[name] = value
    return found


def _row(setting: Setting, config: RuntimeConfig, stored: Stored) -> dict[str, Any]:
    value = config.current.at(setting.path)
    default = LiveSettings().at(setting.path)
    return {
        "name": setting.name,
        "value": setting.plain(value),
        "text": setting.write(value),
        "source": _source(setting, config, stored),
        "default": setting.plain(default),
        "started_with": setting.plain(config.base.at(setting.path)),
        "cluster": _given(setting, stored.cluster),
        "brokers": {
            broker: _given(setting, values)
            for broker, values in stored.brokers.items()
            if setting.name in values
        },
        "unit": setting.unit,
        "kind": setting.kind.value,
        "allowed": setting.allowed,
        "per_broker": setting.scope is SettingScope.BROKER,
        "effect": setting.effect.value,
        "help": setting.help,
    }


def _given(setting: Setting, values: Mapping[str, str]) -> Any:
    """What is set, or None; a value that can't be read as it is stored."""
    if setting.name not in values:
        return None
    try:
        return setting.plain(setting.parse(values[setting.name]))
    except Refused:
        return values[setting.name]


def _source(setting: Setting, config: RuntimeConfig, stored: Stored) -> str:
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
