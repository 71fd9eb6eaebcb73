"""Settings that change without a restart: which values are in force, and how they are changed.

A value set for this broker takes precedence over one set for all brokers, then comes what the
broker was started with, then the default. Brokers watch the metadata, so a change reaches all of
them within moments; a broker that is disconnected catches up when it is back.

Values are checked before they are stored. A stored value that this version cannot read, because a
newer version wrote it, is logged once and ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from broker_containers.settable import SettingScope
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.setting import Setting
from broker_containers.settings.setting_list import SETTINGS, find
from sulina.errors import Refused
from sulina.metadata.keys import config
from sulina.metadata.keys.config import ChangeRecord, StoredSettings
from sulina.metadata.keys.path import name_of
from sulina.metadata.prefix_cache import CachedTable, PrefixCache
from sulina.metadata.store import MetadataStore
from sulina.operations.cluster import PastChange, SettingChange
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_SEEN_SECONDS = 2.0
_LONGEST_NAME = 200


class RuntimeConfig:
    """Use as ``async with``: once entered, ``current`` reflects what is stored.

    ``base`` is what the broker was started with.
    """

    def __init__(self, store: MetadataStore, clock: Clock, base: LiveSettings) -> None:
        self.base = base
        self.broker = base.broker.broker_id
        self.current = base
        """The settings in force. Do not keep a copy: read it when needed."""
        self.ignored: Mapping[str, str] = {}
        """StoredSettings settings that have no effect here, with the reason."""
        self._store = store
        self._clock = clock
        self._cluster: CachedTable[str] = CachedTable(config.CLUSTER, config.decode)
        self._brokers: CachedTable[str] = CachedTable(config.BROKERS, config.decode)
        self.prefix_cache = PrefixCache(store, clock, config.CONFIG, [self._cluster, self._brokers])
        self.prefix_cache.on_advance(self._look)
        self._watchers: list[Callable[[LiveSettings], None]] = []

    async def __aenter__(self) -> RuntimeConfig:
        await self.prefix_cache.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.prefix_cache.__aexit__(*exc)

    def on_change(self, apply: Callable[[LiveSettings], None]) -> None:
        """Call ``apply`` with the settings in force, now and after every change."""
        self._watchers.append(apply)
        apply(self.current)

    def stored(self) -> StoredSettings:
        """What is stored, as far as this broker has seen."""
        found = StoredSettings(
            {name_of(rest): text for rest, text in self._cluster.items.items()}, {}
        )
        for rest, text in self._brokers.items.items():
            owner = config.owner_of(rest)
            if owner is not None:
                found.brokers.setdefault(owner[0], {})[owner[1]] = text
        return found

    # ---- changing ----

    async def set(self, name: str, value: Any, *, broker: str = "", by: str = "") -> SettingChange:
        """Change a setting for all brokers or for one; returns what was done.

        Durable when this returns, and in force on this broker unless its watch is behind.
        Raises ``NotFound`` for an unknown name and ``Refused`` for a bad value.
        """
        setting = find(name)
        return await self._change(setting, setting.text(setting.parse(value)), broker, by)

    async def unset(self, name: str, *, broker: str = "", by: str = "") -> SettingChange:
        """Remove a stored value, also of a setting that only newer versions know."""
        known = SETTINGS.get(name)
        if known is None and name not in self.stored().of(broker):
            find(name)
        return await self._change(known or name, None, broker, by)

    async def _change(
        self, setting: Setting | str, new: str | None, broker: str, by: str
    ) -> SettingChange:
        name = setting if isinstance(setting, str) else setting.name
        if broker and new is not None and SETTINGS[name].scope is SettingScope.CLUSTER:
            raise Refused(
                f"{name} can only be set for all brokers, because the leader uses it: "
                "leave out the broker"
            )

        def check(before: StoredSettings, after: StoredSettings) -> None:
            if isinstance(setting, Setting):
                self._check(setting, before, after)

        wanted = ChangeRecord(name, broker, None, new, by[:_LONGEST_NAME], self._clock.wall_us())
        done = await config.change(self._store, wanted, check)
        if done is None:
            return SettingChange(name, broker, new, new, changed=False)
        noted, revision = done
        try:
            await within(self._clock, _SEEN_SECONDS, self.prefix_cache.reached(revision))
        except TimeoutError:
            _log.warning("%s was changed, but this broker has not seen the change yet", name)
        return SettingChange(name, broker, noted.old, noted.new, changed=True)

    def _check(self, setting: Setting, before: StoredSettings, after: StoredSettings) -> None:
        """Raise ``Refused`` if the change makes settings contradict each other."""
        for broker in ("", *after.brokers):
            try:
                self._together(setting, after, broker)
            except Refused as error:
                try:
                    self._together(setting, before, broker)
                except Refused:
                    continue
                whose = f" on {broker}" if broker else ""
                raise Refused(f"invalid value for {setting.name}{whose}: {error}") from None

    def _together(self, setting: Setting, stored: StoredSettings, broker: str) -> None:
        layers = [stored.cluster, stored.of(broker)] if broker else [stored.cluster]
        values, _ = _read(layers)
        inside = {path: value for path, value in values.items() if path[:-1] == setting.path[:-1]}
        self.base.with_all(inside)

    async def history(self, limit: int) -> list[PastChange]:
        """The last changes, newest first, each with its time, author, old and new value."""
        found = await config.history(self._store, limit)
        return [PastChange(number, **asdict(noted)) for number, noted in found]

    # ---- following ----

    def _look(self) -> None:
        stored = self.stored()
        live, ignored = settle(self.base, [stored.cluster, stored.of(self.broker)])
        for name in ignored.keys() - self.ignored.keys():
            _log.error("the stored setting %s is ignored: %s", name, ignored[name])
        self.ignored = ignored
        if live == self.current:
            return
        self.current = live
        for apply in self._watchers:
            try:
                apply(live)
            except Exception:
                _log.exception("applying changed settings failed")


def settle(
    base: LiveSettings, layers: Sequence[Mapping[str, str]]
) -> tuple[LiveSettings, dict[str, str]]:
    """``base`` with the values of the layers, later ones first; and what was ignored."""
    values, ignored = _read(layers)
    try:
        return base.with_all(values), ignored
    except Refused:
        pass
    # They contradict each other: take those that do not, in the order of the list of settings.
    live = base
    for setting in SETTINGS.values():
        if setting.path in values:
            try:
                live = live.with_all({setting.path: values[setting.path]})
            except Refused as error:
                ignored[setting.name] = str(error)
    return live, ignored


def _read(
    layers: Sequence[Mapping[str, str]],
) -> tuple[dict[tuple[str, ...], Any], dict[str, str]]:
    values: dict[tuple[str, ...], Any] = {}
    ignored: dict[str, str] = {}
    for number, layer in enumerate(layers):
        for name, text in layer.items():
            setting = SETTINGS.get(name)
            if setting is None:
                ignored[name] = "this version has no such setting"
            elif number and setting.scope is SettingScope.CLUSTER:
                ignored[name] = "it cannot be set for a single broker"
            else:
                try:
                    values[setting.path] = setting.parse(text)
                except Refused as error:
                    ignored[name] = str(error)
    return values, ignored
