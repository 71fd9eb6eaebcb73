"""``sulina up --tier`` and ``sulina ledger`` on the command line, with objects in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import BlockingClient, SulinaCommand
from tests.support.server import SulinaProcess

TOPIC = "/default/tiered"
EXPIRING = "/default/expiring"
PARTED = "/default/parted"
COUNT = 500
NUMBERS = [str(number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("objects")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory, objects: Path) -> Iterator[SulinaProcess]:
    data = tmp_path_factory.mktemp("tier") / "data"
    with SulinaProcess(data, "--tier", f"file://{objects}", "--tier-local", "0") as started:
        yield started


@pytest.fixture
def direct(process: SulinaProcess) -> BlockingClient:
    return BlockingClient(process.url)


@pytest.fixture
def command(process: SulinaProcess) -> SulinaCommand:
    return SulinaCommand(process.url)


def test_a_topic_is_offloaded_listed_verified_wiped_and_replayed(
    process: SulinaProcess, direct: BlockingClient, command: SulinaCommand, objects: Path
) -> None:
    command("produce", EXPIRING, "short", "--expires", "0.1s")
    command("produce", EXPIRING, "long", "--expires", "1h")
    command("ledger", "offload", EXPIRING, "--wait", "--json").json()
    direct.publish(TOPIC, *NUMBERS)
    done = command("ledger", "offload", TOPIC, "--wait", "--json").json()
    assert done["ledgers"] == 1 and done["until"] == {TOPIC: COUNT}
    [row] = command("ledger", "list", TOPIC, "--json").json()
    assert (row["where"], row["records"], row["last_offset"]) == ("object", COUNT, COUNT - 1)
    assert (objects / row["key"]).stat().st_size == row["object_bytes"]
    assert row["digest"] in command("ledger", "show", TOPIC, str(row["ledger"])).stdout
    assert "no ledger 999999" in command("ledger", "show", TOPIC, "999999", code=1).stderr
    assert f"1 object with {COUNT} records" in command("ledger", "verify", TOPIC).stdout
    table = command("ledger", "list", TOPIC).stdout
    assert "object" in table and "closed" in table

    process.stop()
    shutil.rmtree(process.data / "journal")
    process.start()
    direct.publish(TOPIC, "and", "on")
    assert direct.read(TOPIC) == [*NUMBERS, "and", "on"]
    assert direct.read(EXPIRING) == ["short", "long"], "reading shows what has expired"
    got = command("consume", EXPIRING, "--subscription", "s", "--from", "earliest", "--count", "1")
    assert got.stdout == "long\n"


def test_a_damaged_object_makes_verify_fail(
    process: SulinaProcess, direct: BlockingClient, command: SulinaCommand, objects: Path
) -> None:
    topic = "/default/damaged"
    direct.publish(topic, "one", "two")
    command("ledger", "offload", topic, "--wait", "--json").json()
    [row] = command("ledger", "list", topic, "--json").json()
    path = objects / row["key"]
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    assert "damaged" in command("ledger", "verify", topic, code=1).stderr


def test_all_partitions_are_offloaded_and_deletion_removes_their_objects(
    process: SulinaProcess, direct: BlockingClient, command: SulinaCommand, objects: Path
) -> None:
    command("topic", "create", PARTED, "--partitions", "3", "--json").json()
    command("topic", "policy", PARTED, "local_retention_ms=3600000")
    direct.publish(PARTED, *NUMBERS, keys=[f"k{n % 7}" for n in range(COUNT)])
    done = command("ledger", "offload", PARTED, "--wait", "--json").json()
    assert done["ledgers"] == 3 and sum(done["until"].values()) == COUNT
    rows = command("ledger", "list", PARTED, "--json").json()
    assert sum(row["records"] for row in rows) == COUNT
    assert {row["where"] for row in rows} == {"entries and object"}, "although --tier-local is 0"
    assert all((objects / row["key"]).exists() for row in rows)
    command("topic", "delete", PARTED, "--yes", "--json").json()
    assert not any((objects / row["key"]).exists() for row in rows)


def test_without_a_tier_a_flush_says_what_is_missing(
    shared_sulina_process: SulinaProcess,
) -> None:
    command = SulinaCommand(shared_sulina_process.url)
    command("topic", "create", "/default/no-tier", "--json").json()
    assert "--tier" in command("ledger", "offload", "/default/no-tier", code=1).stderr
