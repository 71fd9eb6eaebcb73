"""Settings: declared, documented and validated; a change and its history are stored together."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_containers.load.rules import PlacementRule
from broker_containers.settable import SettingType
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.setting import Setting
from broker_containers.settings.setting_list import FIXED, SECTIONS, SETTINGS, find
from broker_containers.settings.settings_page import renewed
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import config
from sulina.metadata.keys.config import ChangeRecord, StoredSettings
from sulina.metadata.store import MetadataStore, Put


def _paths(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    if not is_dataclass(value):
        return {path}
    beneath = [_paths(getattr(value, item.name), (*path, item.name)) for item in fields(value)]
    return set().union(*beneath)


def _fixed_path(name: str) -> tuple[str, ...]:
    section, _, field = name.partition(".")
    return (*SECTIONS[section], field)


def test_every_field_of_the_settings_can_change_or_has_a_reason_why_not() -> None:
    listed = {setting.path for setting in SETTINGS.values()} | set(map(_fixed_path, FIXED))
    assert listed == _paths(LiveSettings()), (
        "declare it with broker_containers.settable, or say in FIXED why it cannot change"
    )


def test_no_setting_is_both_live_and_fixed() -> None:
    assert not SETTINGS.keys() & FIXED.keys()
    assert not {s.path for s in SETTINGS.values()} & set(map(_fixed_path, FIXED))


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_the_default_is_allowed_and_survives_being_stored(setting: Setting) -> None:
    default = LiveSettings().at(setting.path)
    again = setting.parse(setting.text(default))
    assert again == default
    assert type(again) is type(default)
    assert setting.help and setting.allowed


def _setting(
    kind: SettingType, unit: str = "", low: float | None = None, high: float | None = None
) -> Setting:
    return Setting("test.it", (), kind, "", unit, low, high, choices=())


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        ("bytes", "1048576", 1 << 20),
        ("bytes", "1MiB", 1 << 20),
        ("bytes", " 1.5 gib ", 3 << 29),
        ("bytes", "10kB", 10_000),
        ("seconds", "500ms", 0.5),
        ("seconds", "2h", 7200),
        ("milliseconds", "1s", 1000),
        ("", "1_000", 1000),
        ("", "1e3", 1000),
    ],
)
def test_numbers_may_have_units(unit: str, text: str, value: float) -> None:
    assert _setting(SettingType.NUMBER, unit).parse(text) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("broker.cache_bytes", "a lot"),
        ("broker.cache_bytes", "1KiB"),
        ("broker.cache_bytes", "-1GiB"),
        ("broker.cache_bytes", "1.0000001MiB"),
        ("broker.cache_bytes", "9" * 5000),
        ("broker.cache_bytes", 10**400),
        ("broker.cache_bytes", "1e400"),
        ("broker.cache_bytes", True),
        ("broker.cache_bytes", None),
        ("broker.cache_bytes", float("nan")),
        ("broker.cursor_flush_seconds", "5MiB"),
        ("broker.auto_create_topics", "perhaps"),
        ("log.level", "loud"),
        ("balance.ranking", "best"),
        ("balance.rules", "not JSON"),
        ("balance.rules", '{"pattern": "/a/*"}'),
        ("balance.rules", '[{"pattern": "a"}]'),
        ("balance.blacklist_topics", [1]),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(name: str, value: Any) -> None:
    with pytest.raises(Refused, match=r"invalid value|is not a rule|matches no topic") as refused:
        SETTINGS[name].parse(value)
    assert len(str(refused.value)) < 20_000


def test_lists_and_rules_come_as_text_or_as_json() -> None:
    patterns = SETTINGS["balance.blacklist_topics"]
    assert patterns.parse("/a/*, /b/c,") == patterns.parse(["/a/*", "/b/c"]) == ("/a/*", "/b/c")
    rules = SETTINGS["balance.rules"]
    wanted = (PlacementRule("/a/*", require=("zone=a",)),)
    assert rules.parse('[{"pattern": "/a/*", "require": ["zone=a"]}]') == wanted
    assert rules.parse(rules.text(wanted)) == wanted


def test_an_unknown_name_is_told_which_there_are() -> None:
    with pytest.raises(NotFound, match=r"ledger\.roll_bytes"):
        find("roll_bytes")
    with pytest.raises(NotFound, match=r"identifies.*restart"):
        find("broker.broker_id")


@settings(deadline=None)
@given(text=st.text(max_size=50))
def test_whatever_is_written_is_a_value_or_refused(text: str) -> None:
    for setting in SETTINGS.values():
        try:
            value = setting.parse(text)
        except Refused:
            continue
        assert setting.parse(setting.text(value)) == value


def _anything(before: StoredSettings, after: StoredSettings) -> None:
    pass


async def _set(store: MetadataStore, name: str, new: str | None, broker: str = "") -> int | None:
    done = await config.change(store, ChangeRecord(name, broker, None, new, "me", 7), _anything)
    return None if done is None else done[1]


async def test_what_was_set_is_there_and_in_the_history(store: MetadataStore) -> None:
    await _set(store, "a", "1")
    await _set(store, "a", "2", "broker/1")
    await _set(store, "a", "3")
    await _set(store, "a", None)
    assert await config.list_all(store) == StoredSettings({}, {"broker/1": {"a": "2"}})
    assert await config.history(store, 10) == [
        (4, ChangeRecord("a", "", "3", None, "me", 7)),
        (3, ChangeRecord("a", "", "1", "3", "me", 7)),
        (2, ChangeRecord("a", "broker/1", None, "2", "me", 7)),
        (1, ChangeRecord("a", "", None, "1", "me", 7)),
    ]
    assert [number for number, _ in await config.history(store, 2)] == [4, 3]


async def test_a_change_that_changes_nothing_is_none(store: MetadataStore) -> None:
    assert await _set(store, "a", "1") is not None
    assert await _set(store, "a", "1") is None
    assert await _set(store, "b", None) is None
    assert len(await config.history(store, 10)) == 1


async def test_a_check_that_fails_prevents_the_change(store: MetadataStore) -> None:
    await _set(store, "a", "1")

    def refuse(before: StoredSettings, after: StoredSettings) -> None:
        assert (before.cluster, after.cluster) == ({"a": "1"}, {"a": "2"})
        raise Refused("no")

    with pytest.raises(Refused):
        await config.change(store, ChangeRecord("a", new="2"), refuse)
    assert (await config.list_all(store)).cluster == {"a": "1"}
    assert len(await config.history(store, 10)) == 1


async def test_changes_at_once_all_happen_one_after_the_other(store: MetadataStore) -> None:
    await asyncio.gather(*(_set(store, f"s{n}", str(n)) for n in range(6)))
    assert len((await config.list_all(store)).cluster) == 6
    assert [number for number, _ in await config.history(store, 10)] == [6, 5, 4, 3, 2, 1]


async def test_the_history_keeps_the_last_thousand(store: MetadataStore) -> None:
    await _set(store, "a", "first")
    await store.put(config.CHANGES, b'{"count":1000}')
    await _set(store, "a", "second")
    assert await config.history(store, 10) == [
        (1001, ChangeRecord("a", "", "first", "second", "me", 7))
    ]


async def test_what_cannot_be_read_can_be_unset(store: MetadataStore) -> None:
    await store.txn((), [Put(config.key("a"), b"\xff{"), Put(config.BROKERS + "odd", b"x")])
    assert set((await config.list_all(store)).cluster) == {"a"}
    await _set(store, "a", None)
    assert (await config.list_all(store)).cluster == {}


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
