"""Settings that change at run time: who wins, what is refused, and who hears of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.load.settings import RankingName
from broker_containers.operations.settings import SettingHandlers
from broker_containers.security.access import ACTING, Access
from broker_containers.settings.live_settings import LiveSettings
from broker_containers.settings.runtime_config import RuntimeConfig
from sulina.errors import NotFound, Refused, Unavailable
from sulina.metadata.keys import config as keys
from sulina.metadata.store import MetadataStore
from sulina.runtime.real_clock import RealClock
from tests.cluster_services.conftest import until
from tests.metadata.unreliable import UnreliableStore

MIB = 1 << 20


@asynccontextmanager
async def broker(
    store: MetadataStore, name: str = "b1", **started_with: Any
) -> AsyncIterator[RuntimeConfig]:
    base = LiveSettings(broker=BrokerSettings(broker_id=name, **started_with))
    async with RuntimeConfig(store, RealClock(), base) as config:
        yield config


async def test_a_broker_wins_over_the_cluster_and_that_over_the_start(store: MetadataStore) -> None:
    async with broker(store, cache_bytes=7 * MIB) as config:

        def cache() -> int:
            return config.current.broker.cache_bytes

        assert cache() == 7 * MIB
        await config.set("broker.cache_bytes", "8MiB")
        assert cache() == 8 * MIB
        await config.set("broker.cache_bytes", 9 * MIB, broker="b1")
        assert cache() == 9 * MIB
        await config.set("broker.cache_bytes", "10MiB", broker="b2")
        await config.set("broker.cache_bytes", "11MiB")
        assert cache() == 9 * MIB
        await config.unset("broker.cache_bytes", broker="b1")
        assert cache() == 11 * MIB
        await config.unset("broker.cache_bytes")
        assert cache() == 7 * MIB


async def test_a_change_reaches_the_other_brokers_and_those_that_start_later(
    store: MetadataStore,
) -> None:
    async with broker(store) as one, broker(store, "b2") as two:
        await one.set("balance.enabled", "false")
        await one.set("balance.ranking", "simple")
        await one.set("weights.cpu", 2)
        await one.set("ledger.roll_bytes", "1GiB", broker="b2")
        await until(lambda: two.current.broker.ledger.roll_bytes == 1 << 30)
        async with broker(store, "b2") as later:
            assert later.current == two.current
        balance = two.current.cluster.balance
        assert not balance.enabled
        assert balance.ranking is RankingName.SIMPLE
        assert balance.weights.cpu == 2
        assert one.current.broker.ledger.roll_bytes != 1 << 30


async def test_who_applies_is_told_now_and_with_each_change(store: MetadataStore) -> None:
    async with broker(store) as config:
        told: list[int] = []

        def broken(live: LiveSettings) -> None:
            if told:
                raise RuntimeError("no way")

        config.on_change(broken)
        config.on_change(lambda live: told.append(live.broker.max_requests))
        await config.set("broker.max_requests", 10)
        await config.set("broker.max_requests", 10)
        await config.set("broker.max_requests", 20, broker="another")
        await config.set("broker.max_requests", 30)
        assert told == [BrokerSettings().max_requests, 10, 30]


async def test_what_is_not_allowed_is_refused_before_it_is_stored(store: MetadataStore) -> None:
    async with broker(store) as config:
        with pytest.raises(NotFound, match=r"choose from broker\.cache_bytes"):
            await config.set("cache", "1GiB")
        with pytest.raises(Refused, match="whole number from 1 MiB to"):
            await config.set("broker.cache_bytes", "1")
        with pytest.raises(Refused, match="only be set for all brokers"):
            await config.set("balance.enabled", False, broker="b1")
        with pytest.raises(Refused, match="restart"):
            await config.set("cluster.lease_seconds", 5)
        with pytest.raises(Refused, match="'load' is reserved"):
            await config.set("broker.cache_bytes", "1GiB", broker="load")
        with pytest.raises(NotFound):
            await config.unset("cache")
        assert await config.history(10) == []
        assert (await store.range("/")).items == ()


async def test_values_must_agree_with_each_other(store: MetadataStore) -> None:
    async with broker(store) as config:
        with pytest.raises(Refused, match="thresholds must rise"):
            await config.set("balance.high_stop", 1.5)
        await config.set("balance.high_start", 2.0)
        await config.set("balance.high_stop", 1.5)
        with pytest.raises(Refused, match="thresholds must rise"):
            await config.unset("balance.high_start")
        assert config.current.cluster.balance.high_stop == 1.5


async def test_what_newer_versions_wrote_is_logged_and_ignored(
    store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def write(name: str, value: str, broker: str = "") -> None:
        await store.put(keys.key(name, broker), b'{"value":"%b"}' % value.encode())

    await write("broker.cache_bytes", "unlimited")
    await write("broker.warp", "9")
    await write("balance.enabled", "false", "b1")
    await write("balance.high_start", "1.01")
    await write("broker.max_requests", "99")
    await store.put(keys.key("log.level"), b"\x00")
    async with broker(store) as config:
        assert config.current == replace(
            config.base, broker=replace(config.base.broker, max_requests=99)
        )
        assert set(config.ignored) == {
            "broker.cache_bytes", "broker.warp", "balance.enabled", "balance.high_start",
        }  # fmt: skip
        assert "broker.warp is ignored" in caplog.text
        # A change elsewhere in the same place goes through, and what is bad can be taken away.
        await config.set("balance.quiet", 0.1)
        await config.unset("balance.high_start")
        await config.unset("broker.warp")
        await config.unset("balance.enabled", broker="b1")
        await config.set("broker.cache_bytes", "1GiB")
        assert config.ignored == {}
        assert config.current.cluster.balance.quiet == 0.1


async def test_the_history_says_who_changed_what(store: MetadataStore) -> None:
    async with broker(store) as config:
        await config.set("log.level", "debug", by="ann@desk")
        await config.unset("log.level", by="bob@desk")
        newest, oldest = await config.history(10)
        assert (newest.by, newest.old, newest.new) == ("bob@desk", "debug", None)
        assert (oldest.by, oldest.old, oldest.new) == ("ann@desk", None, "debug")
        assert oldest.at_us > 0


async def test_a_broker_that_hears_nothing_says_yes_only_to_what_is_stored(
    store: MetadataStore,
) -> None:
    deaf = UnreliableStore(store)
    deaf.deaf = True
    async with broker(deaf) as config:
        done = await config.set("log.level", "debug")
        assert done.changed
        assert (await keys.list_all(store)).cluster == {"log.level": "debug"}
        await config.prefix_cache.refresh()
        assert config.current.log_level == "debug"
        deaf.listing_errors = [Unavailable("gone")]
        with pytest.raises(Unavailable):
            await config.set("log.level", "info")


async def test_operations_list_set_and_unset_settings(store: MetadataStore) -> None:
    async with broker(store, cache_bytes=7 * MIB) as config:
        handlers = SettingHandlers(config)
        await handlers.set("ledger.roll_seconds", "2h", by="ann")
        await handlers.set("ledger.roll_seconds", 60, broker="b2")
        answer = await handlers.list()
        rows = {row.name: row for row in answer.settings}
        roll = rows["ledger.roll_seconds"]
        assert (roll.value, roll.source, roll.cluster) == (7200, "cluster", 7200)
        assert roll.brokers == {"b2": 60}
        assert rows["broker.cache_bytes"].source == "start"
        assert rows["broker.cache_bytes"].default == 256 * MIB
        assert rows["log.level"].source == "default"
        fixed = {row.name: row for row in answer.fixed}
        assert fixed["broker.broker_id"].value == "b1"
        assert (await handlers.unset("ledger.roll_seconds")).changed
        assert [row.name for row in await handlers.history(limit=1)] == ["ledger.roll_seconds"]
        acting = ACTING.set(Access("eve", ()))
        await handlers.set("ledger.roll_seconds", 90, by="ann")
        ACTING.reset(acting)
        by = [row.by for row in await handlers.history()]
        assert by == ["eve", "root", "root", "ann"], "only root may name somebody"
