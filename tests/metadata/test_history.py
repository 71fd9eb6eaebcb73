"""The shared history of the embedded store: bounded, and slow watches pay for it themselves."""

from __future__ import annotations

import asyncio

import pytest

from sulina.metadata.embedded.history import ChangeHistory, HistoryWatch
from sulina.metadata.embedded.state import Change, KeyStored
from sulina.metadata.store import Compacted, KeyValue


def change(revision: int, key: str = "/a", value: bytes = b"") -> list[Change]:
    return [KeyStored(KeyValue(key, value, revision, revision, 1, 0))]


async def test_a_watch_that_is_too_slow_is_told_to_list_again() -> None:
    history = ChangeHistory(1, max_events=10)
    slow = HistoryWatch(history, "/a", 2)
    for revision in range(2, 6):
        history.record(change(revision))
    assert (await anext(slow)).mod_revision == 2
    for revision in range(6, 20):
        history.record(change(revision))
    with pytest.raises(Compacted) as caught:
        await anext(slow)
    assert caught.value.revision == 10
    again = HistoryWatch(history, "/a", caught.value.revision)
    assert [(await anext(again)).mod_revision for _ in range(10)] == list(range(10, 20))


async def test_a_quiet_watch_is_not_too_slow_however_much_happens_elsewhere() -> None:
    history = ChangeHistory(1, max_events=10)
    quiet = HistoryWatch(history, "/quiet", 2)
    coming = asyncio.ensure_future(anext(quiet))
    await asyncio.sleep(0)
    for revision in range(2, 1_000):
        history.record(change(revision))
    history.record(change(1_000, "/quiet"))
    assert (await coming).mod_revision == 1_000


async def test_a_quiet_watch_whose_wait_was_given_up_is_not_too_slow_either() -> None:
    history = ChangeHistory(1, max_events=10)
    quiet = HistoryWatch(history, "/quiet", 2)
    coming = asyncio.ensure_future(anext(quiet))
    await asyncio.sleep(0)
    for revision in range(2, 100):
        history.record(change(revision))
    coming.cancel()
    await asyncio.wait([coming])
    history.record(change(100, "/quiet"))
    assert (await anext(quiet)).mod_revision == 100


async def test_an_event_that_arrives_while_a_wait_is_given_up_is_not_lost() -> None:
    history = ChangeHistory(1)
    watch = HistoryWatch(history, "/a", 2)
    coming = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    coming.cancel()
    history.record(change(2))
    await asyncio.wait([coming])
    assert coming.cancelled()
    assert (await anext(watch)).mod_revision == 2


async def test_events_that_arrive_before_a_woken_watch_runs_are_not_skipped() -> None:
    history = ChangeHistory(1)
    watch = HistoryWatch(history, "/a", 2)
    coming = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    for revision in (2, 3, 4):
        history.record(change(revision))
    assert (await coming).mod_revision == 2
    assert [(await anext(watch)).mod_revision for _ in range(2)] == [3, 4]


async def test_history_is_bounded_in_bytes() -> None:
    history = ChangeHistory(1, max_bytes=10_000)
    watch = HistoryWatch(history, "/a", 2)
    for revision in range(2, 20):
        history.record(change(revision, value=bytes(1_000)))
    with pytest.raises(Compacted):
        await anext(watch)
    assert history.compacted > 10


async def test_the_events_of_one_revision_are_forgotten_together() -> None:
    history = ChangeHistory(1, max_events=3)
    history.record(change(2, "/a") + change(2, "/b"))
    history.record(change(3, "/a") + change(3, "/b"))
    assert history.compacted == 3
    watch = HistoryWatch(history, "/", 3)
    assert [(await anext(watch)).key for _ in range(2)] == ["/a", "/b"]


async def test_a_transaction_larger_than_the_history_compacts_everything() -> None:
    history = ChangeHistory(1, max_events=3)
    watch = HistoryWatch(history, "/", 2)
    coming = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    history.record([each for number in range(5) for each in change(2, f"/{number}")])
    with pytest.raises(Compacted) as caught:
        await coming
    assert caught.value.revision == 3
