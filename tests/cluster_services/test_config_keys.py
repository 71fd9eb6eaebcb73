"""Settings in the metadata: changes and their history are one."""

from __future__ import annotations

import asyncio

import pytest

from sulina.errors import Refused
from sulina.metadata.keys import config
from sulina.metadata.keys.config import ChangeRecord, StoredSettings
from sulina.metadata.store import MetadataStore, Put


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
