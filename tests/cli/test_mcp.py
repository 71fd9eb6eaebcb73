"""``sulina mcp``: operations as tools, read-only by default, with the caller's rights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sulina.cli.mcp.session import McpSession
from sulina.cli.mcp.tools import Tools
from sulina.errors import NotFound
from sulina.operations.operation_list import OPERATIONS
from tests.cli.runner import SulinaCommand
from tests.support.server import SulinaProcess

INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t"}}


class Broker:
    """Notes the calls that it gets."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        self.calls.append((name, arguments))
        if arguments.get("topic") == "/default/missing":
            raise NotFound("there is no topic /default/missing: create it first")
        return {"padding": "x" * 200_000} if name == "topic.list" else {"fine": True}


def line(method: str, params: Any = None, number: int = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


async def ask(session: McpSession, method: str, params: Any = None) -> dict[str, Any]:
    answer = await session.answer(line(method, params))
    assert answer is not None
    found: dict[str, Any] = json.loads(answer)
    return found


async def use(session: McpSession, tool: str, **arguments: Any) -> dict[str, Any]:
    return await ask(session, "tools/call", {"name": tool, "arguments": arguments})


def session(*, changes: bool = False) -> tuple[McpSession, Broker]:
    broker = Broker()
    return McpSession(Tools(broker.call, changes=changes)), broker


@pytest.mark.parametrize("changes", [False, True])
async def test_every_tool_has_a_valid_schema_and_says_whether_it_reads(changes: bool) -> None:
    asked, _ = session(changes=changes)
    tools = (await ask(asked, "tools/list"))["result"]["tools"]
    for tool in tools:
        Draft202012Validator.check_schema(tool["inputSchema"])
        assert "#/components" not in json.dumps(tool)
        assert tool["description"] and tool["name"].replace("_", "").isalpha()
        operation = next(each for name, each in OPERATIONS.items() if _tool(name) == tool["name"])
        reads = operation.http.verb == "GET" or not changes
        assert tool["annotations"]["readOnlyHint"] is reads
    assert (len(tools) == len(OPERATIONS)) is changes


async def test_a_session_that_only_reads_can_change_nothing() -> None:
    asked, broker = session()
    for name, operation in OPERATIONS.items():
        required = {key: "x" for key, each in operation.arguments.items() if each.required}
        await use(asked, _tool(name), **required)
        await use(asked, _tool(name), **dict.fromkeys(operation.arguments, "x"))
    assert broker.calls
    assert [call for call in broker.calls if OPERATIONS[call[0]].is_change(call[1])] == []


async def test_errors_of_the_broker_are_answers_that_an_assistant_can_read() -> None:
    asked, _ = session()
    answer = (await use(asked, "topic_describe", topic="/default/missing"))["result"]
    assert answer["isError"] is True
    assert answer["content"][0]["text"] == "there is no topic /default/missing: create it first"


async def test_a_long_answer_is_cut_and_says_so() -> None:
    asked, _ = session()
    text = (await use(asked, "topic_list"))["result"]["content"][0]["text"]
    assert len(text) < 101_000 and "(cut: the answer has 200,0" in text


async def test_wrong_requests_get_errors_that_say_what_is_wrong() -> None:
    asked, _ = session()
    for sent, code in (
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (line("resources/list"), -32601),
        (line("tools/call", {"name": "topic_delete"}), -32602),
        (line("tools/call", {"name": "topic_list", "arguments": {"colour": 1}}), -32602),
        (line("tools/call", []), -32602),
    ):
        answer = await asked.answer(sent)
        assert answer is not None and json.loads(answer)["error"]["code"] == code
    assert await asked.answer(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None


@given(
    st.one_of(st.binary(max_size=60), st.recursive(st.none(), st.lists).map(repr).map(str.encode))
)
async def test_nothing_that_is_sent_ends_a_session(sent: bytes) -> None:
    asked, _ = session()
    await asked.answer(sent)
    assert (await ask(asked, "ping"))["result"] == {}


def test_a_real_broker_answers_through_the_command(shared_sulina_process: SulinaProcess) -> None:
    command = SulinaCommand(shared_sulina_process.url)
    command("topic", "create", "/default/for-mcp")
    topic = {"topic": "/default/for-mcp"}
    remove = {"name": "topic_delete", "arguments": topic}
    lines = [
        line("initialize", INITIALIZE, 1),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        line(
            "tools/call", {"name": "topic_describe", "arguments": {"topic": "/default/for-mcp"}}, 2
        ),
        line("tools/call", {"name": "topic_delete", "arguments": {"topic": "/default/for-mcp"}}, 3),
    ]
    said = command("mcp", input=b"\n".join(lines)).stdout.splitlines()
    hello, described, refused = map(json.loads, said)
    assert hello["result"]["protocolVersion"] == "2025-06-18"
    assert "/default/for-mcp" in described["result"]["content"][0]["text"]
    assert "--allow-changes" in refused["error"]["message"]
    command("mcp", "--allow-changes", input=line("tools/call", remove))
    assert "/default/for-mcp" not in command("topic", "list").stdout


def bytes_of(value: object) -> bytes:
    return json.dumps(value).encode()


def _tool(name: str) -> str:
    return name.replace(".", "_")
