"""Operations on schemas, by the command line, against a real broker."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from broker_containers.assembly.running import RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.operations.running import Operations
from broker_containers.operations.schemas import SchemaHandlers
from broker_containers.schemas.registry import SchemaRegistry, open_registry
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import topic_lifecycle
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from tests.schemas.shapes import NAME, NAME_AND_AGE, NAME_AS_NUMBER, record
from tests.support.shell import CommandResult, Shell


@pytest.fixture
async def server(tmp_path: Path, store: MetadataStore) -> AsyncIterator[RunningBroker]:
    async with run_embedded(tmp_path / "data", Listen(port=0)) as server:
        server.services.operations.serve(SchemaHandlers(open_registry(store, RealClock())))
        yield server


def _operations(registry: SchemaRegistry) -> Operations:
    operations = Operations()
    operations.serve(SchemaHandlers(registry))
    return operations


class Lines:
    """The command line of that broker, and files for it."""

    def __init__(self, shell: Shell, url: str, folder: Path) -> None:
        self._shell = shell
        self._url = url
        self._folder = folder

    async def __call__(self, *words: str, code: int = 0, input: str = "") -> CommandResult:
        return await self._shell("--url", self._url, *words, code=code, input=input)

    def file(self, name: str, content: object) -> str:
        path = self._folder / name
        path.write_text(json.dumps(content))
        return str(path)


@pytest.fixture(scope="module")
def process() -> Iterator[Shell]:
    with Shell() as running:
        yield running


@pytest.fixture
def shell(process: Shell, server: RunningBroker, tmp_path: Path) -> Lines:
    return Lines(process, server.addresses.url, tmp_path)


async def test_the_command_line_registers_lists_and_prints_schemas(shell: Lines) -> None:
    file = shell.file("user.json", NAME)
    ran = await shell("schema", "register", "users", file, "--tag", "core", "--by", "ops")
    assert ran.stdout == "users version 1 (id 1): registered\n"
    ran = await shell("schema", "register", "users", file)
    assert ran.stdout == "users version 1 (id 1): already registered\n"
    [row] = (await shell("schema", "list", "--json")).json()
    assert row == {
        "subject": "users", "id": 1, "type": "json_schema", "latest": 1, "versions": 1,
        "compatibility": "backward", "tags": ["core"],
    }  # fmt: skip
    assert json.loads((await shell("schema", "get", "users")).stdout) == NAME
    assert "ops" in (await shell("schema", "versions", "users")).stdout


async def test_the_command_line_tells_what_breaks(shell: Lines) -> None:
    await shell("schema", "register", "users", shell.file("v1.json", NAME))
    wrong = shell.file("v2.json", NAME_AS_NUMBER)
    ran = await shell("schema", "check", "users", wrong, code=1)
    assert ran.stdout == (
        "it cannot read data of version 1: name: string cannot be read as integer\n"
    )
    assert "not compatible" in (await shell("schema", "register", "users", wrong, code=1)).stderr
    fine = await shell("schema", "check", "users", wrong, "--mode", "none")
    assert fine.stdout == "compatible with users\n"
    await shell("schema", "compatibility", "users", "none")
    await shell("schema", "register", "users", wrong)
    shown = (await shell("schema", "compatibility", "users", "--json")).json()
    assert shown == {"subject": "users", "compatibility": "none"}
    await shell("schema", "delete", "users", "--version", "1", "--yes")
    assert len((await shell("schema", "versions", "users", "--json")).json()) == 1
    await shell("schema", "delete", "users", "--yes")
    assert "no schemas" in (await shell("schema", "list")).stdout


async def test_the_command_line_asks_for_what_it_can_not_guess(shell: Lines) -> None:
    ran = await shell("schema", "register", "users", code=2)
    assert "--type" in ran.stderr
    ran = await shell("schema", "register", "users", "-", code=2, input="{}")
    assert "give --type" in ran.stderr
    ran = await shell("schema", "register", "users", "-", "--type", "avro", input='"string"')
    assert "registered" in ran.stdout
    await shell("schema", "register", "numbers", "--type", "number")
    assert "no schema subject" in (await shell("schema", "get", "nobody", code=1)).stderr


async def test_definitions_are_any_bytes_and_wrong_arguments_are_refused(
    registry: SchemaRegistry,
) -> None:
    run = _operations(registry).run
    order = json.dumps(record()).encode()
    encoded = base64.b64encode(order).decode()
    made = await run(
        "schema.register", {"subject": "orders", "type": "avro", "definition_base64": encoded}
    )
    assert made["version"] == 1
    found = await run("schema.lookup", {"id": made["id"]})
    assert found["definition"] == order.decode() and found["compatibility"] == "backward"
    for method, arguments in (
        ("schema.register", {"subject": "x"}),
        ("schema.register", {"subject": "x", "type": "avro", "definition_base64": "?"}),
        ("schema.register", {"subject": "x", "type": "avro", "definition": {}}),
        ("schema.register", {"subject": "x", "type": "string", "tags": "t"}),
        ("schema.check", {"subject": "orders", "type": "string", "compatibility": "x"}),
        ("schema.lookup", {"id": "x"}),
        ("schema.lookup", {}),
        ("schema.bind", {"topic": "orders", "subject": "orders"}),
    ):
        with pytest.raises(Refused):
            await run(method, arguments)
    with pytest.raises(NotFound):
        await run("schema.topic", {"topic": "/default/none"})


async def test_a_topic_is_bound_and_changed_in_part(
    registry: SchemaRegistry, store: MetadataStore
) -> None:
    await topic_lifecycle.create(store, TopicName.parse("/default/users"), TopicRecord())
    run = _operations(registry).run
    topic = {"topic": "/default/users"}
    free = {**topic, "subject": None, "validation": "none", "payload": False}
    assert await run("schema.topic", topic) == free
    with pytest.raises(Refused, match="subject is missing"):
        await run("schema.bind", {**topic, "validation": "warn"})
    await registry.register("users", "json", json.dumps(NAME_AND_AGE).encode())
    bound = await run("schema.bind", {**topic, "subject": "users"})
    assert bound == {**topic, "subject": "users", "validation": "warn", "payload": False}
    changed = await run("schema.bind", {**topic, "validation": "enforce", "payload": True})
    assert changed == {**topic, "subject": "users", "validation": "enforce", "payload": True}
    assert await run("schema.topic", topic) == changed
