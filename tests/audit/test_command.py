"""``sulina security audit``, and the trail in the lake."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.audit.trail import AuditSettings
from broker_containers.broker.settings import BrokerSettings
from broker_containers.commands.auth_options import SecurityOptions
from broker_containers.doors.listen import Listen
from broker_containers.topics.tiering import TieringSettings
from sulina.audit import ChainVerifier, decode, encode
from sulina.cli.admin import audit as command
from tests.auth.broker import AUTH, ROOT, guarded_broker
from tests.support.shell import CommandResult, Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with Shell() as running:
        yield running


async def test_the_command_shows_filters_and_verifies(tmp_path: Path, shell: Shell) -> None:
    async with guarded_broker(tmp_path) as guarded:

        async def audit(*words: str, code: int = 0) -> CommandResult:
            place = ("--url", guarded.server.addresses.url, "--token", ROOT)
            return await shell(*place, "security", "audit", *words, code=code)

        await guarded.root.admin.namespaces.create("shop")
        await guarded.token("billing", "consume:/shop/*")
        assert "namespace.create" in (await audit()).stdout
        only = await audit("--operation", "token.create", "--outcome", "done", "--json")
        [row] = [json.loads(line) for line in only.stdout.splitlines()]
        assert row["record"]["resource"] == "billing" and "sulina_" not in only.stdout
        assert len((await audit("--limit", "1", "--json")).stdout.splitlines()) == 1
        assert "no such records" in (await audit("--until", "1d")).stdout
        assert "1 chain: intact" in (await audit("--verify")).stdout
        assert "whole trail" in (await audit("--verify", "--limit", "5", "--follow", code=2)).stderr


async def test_an_altered_record_is_reported_with_its_place(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with guarded_broker(tmp_path) as guarded:
        await guarded.root.admin.namespaces.create("shop")
        admin = guarded.server.services.operations.client
        peek = admin.call

        async def altered(name: str, arguments: object) -> object:
            answer = await peek(name, arguments)  # type: ignore[arg-type]
            if name == "messages.peek":
                for message in answer["messages"]:
                    message["payload"] = message["payload"].replace('"shop"', '"ship"')
            return answer

        monkeypatch.setattr(admin, "call", altered)
        place = ("--url", guarded.server.addresses.url, "--token", ROOT)
        found = await shell(*place, "security", "audit", "--verify", code=1)
        assert "of broker-1 (offset " in found.stdout and "was altered" in found.stdout
        report = (await shell(*place, "security", "audit", "--verify", "--json", code=1)).json()
        assert report["problems"][0]["offset"] >= 0


@pytest.mark.timeout(100)
async def test_duckdb_reads_the_trail_from_the_lake(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    settings = BrokerSettings(tier=TieringSettings(after_seconds=0.05, check_seconds=0.05))
    running = run_embedded(
        tmp_path / "data",
        DoorSettings(Listen(port=0)),
        settings,
        auth=AUTH,
        tier=lake.as_uri(),
        audit=AuditSettings(),
    )
    async with running as server, sulina.connect(server.addresses.url, token=ROOT) as root:
        await root.admin.namespaces.create("shop")
        rows: list[tuple[int, bytes]] = []
        while not any(b"namespace.create" in payload for _, payload in rows):
            await asyncio.sleep(0.05)
            files = [str(path) for path in lake.rglob("*.parquet") if "audit" in str(path)]
            if files:
                with duckdb.connect() as db:
                    relation = db.read_parquet(files)
                    query = relation.project('"offset", payload').order('"offset"')
                    rows = query.fetchall()
    verifier = ChainVerifier()
    for offset, payload in rows:
        record = decode(payload)
        assert encode(record) == payload
        verifier.add(offset, record)
    assert verifier.problems == []


def test_names_of_callers_do_not_reach_the_terminal_as_control_characters() -> None:
    assert command._printable("a\x1b[2Jb\n") == "a\ufffd[2Jb\ufffd"


@pytest.mark.parametrize(
    ("options", "on"),
    [
        (SecurityOptions(), False),
        (SecurityOptions(auth=Path("root")), True),
        (SecurityOptions(auth=Path("root"), audit="off"), False),
        (SecurityOptions(audit="on"), True),
        (SecurityOptions(audit_file=Path("audit.jsonl")), True),
    ],
)
def test_the_trail_is_written_with_tokens_or_on_request(options: SecurityOptions, on: bool) -> None:
    assert (options.audit_settings() is not None) is on
