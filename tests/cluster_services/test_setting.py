"""Settings: every one is accounted for, and takes what its description says."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_containers.load.rules import PlacementRule
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.setting import Setting, SettingType
from broker_containers.settings.setting_list import FIXED, SECTIONS, SETTINGS, find
from sulina.errors import NotFound, Refused


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
        "add what is missing to setting_list.py, or take it out there"
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
