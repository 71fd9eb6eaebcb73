"""``sulina config`` against a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.operations.settings import SettingHandlers
from broker_containers.settings.apply import single_broker_config
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.memory_cluster import MemoryCluster
from tests.cli.runner import SulinaCommand
from tests.support.shell import CommandResult

Run = Callable[..., Awaitable[CommandResult]]


@pytest.fixture
async def sulina() -> AsyncIterator[Run]:
    """The command line, as a process, and a broker that has the methods."""
    settings = BrokerSettings(broker_id="b1")
    async with (
        MemoryCluster(MemoryDisk(), settings=settings) as cluster,
        single_broker_config(cluster.broker) as config,
    ):
        cluster.server.services.operations.serve(SettingHandlers(config))
        command = SulinaCommand(f"sulina://127.0.0.1:{cluster.port}")

        async def run(*arguments: str, code: int = 0) -> CommandResult:
            return await asyncio.to_thread(command, "config", *arguments, code=code)

        yield run


async def test_settings_are_changed_shown_and_told_to_people(sulina: Run) -> None:
    done = await sulina("set", "ledger.roll_bytes", "512MiB")
    assert done.stdout == "ledger.roll_bytes is 536870912 for all brokers (was not set)\n"
    await sulina("set", "ledger.roll_bytes", "1GiB", "--broker", "b2")
    listed = await sulina("list", "--changed")
    assert "512 MiB" in listed.stdout
    assert "b2=1073741824" in listed.stdout
    undone = await sulina("unset", "ledger.roll_bytes")
    assert undone.stdout == "ledger.roll_bytes is not set for all brokers (was 536870912)\n"
    told = await sulina("history")
    assert "@" in told.stdout and "ledger.roll_bytes" in told.stdout


async def test_scripts_get_json(sulina: Run) -> None:
    done = await sulina("set", "log.level", "debug", "--broker", "b1", "--json")
    assert done.json() == {
        "name": "log.level", "broker": "b1", "old": None, "new": "debug", "changed": True,
    }  # fmt: skip
    [row] = (await sulina("list", "--changed", "--json")).json()["settings"]
    assert (row["value"], row["source"]) == ("debug", "broker")
    [change] = (await sulina("history", "--json")).json()
    assert (change["name"], change["broker"], change["new"]) == ("log.level", "b1", "debug")


async def test_a_mistake_is_told_as_a_sentence_with_what_is_allowed(sulina: Run) -> None:
    wrong = await sulina("set", "ledger.roll_bytes", "soon", code=1)
    assert "64 KiB to 64 GiB" in wrong.stderr
    unknown = await sulina("get", "roll", code=1)
    assert "ledger.roll_bytes" in unknown.stderr
    fixed = await sulina("set", "broker.broker_id", "b9", code=1)
    assert "restart" in fixed.stderr
