"""The desired states of brokers in the metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sulina.errors import Refused
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import members
from sulina.metadata.keys.members import BrokerMode, BrokerState
from tests.metadata.manual_clock import ManualClock

DRAINING = BrokerState(BrokerMode.DRAINING)


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(ManualClock())
    yield store
    await store.close()


async def test_of_two_brokers_drained_at_the_same_time_one_stays_active(
    store: EmbeddedStore,
) -> None:
    outcomes = await asyncio.gather(
        members.set_state(store, "one", DRAINING, ["two"]),
        members.set_state(store, "two", DRAINING, ["one"]),
        return_exceptions=True,
    )
    [refused] = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert isinstance(refused, Refused)
    assert "is the only active broker" in str(refused)


async def test_a_broker_is_drained_again_once_another_is_active(store: EmbeddedStore) -> None:
    await members.set_state(store, "one", DRAINING, ["two"])
    with pytest.raises(Refused, match="two is the only active broker"):
        await members.set_state(store, "two", DRAINING, ["one"])
    await members.set_state(store, "one", BrokerState(), ["two"])
    await members.set_state(store, "two", DRAINING, ["one"])
