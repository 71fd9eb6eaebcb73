"""The Model Context Protocol, as far as a server with tools alone needs it: JSON-RPC 2.0.

A session takes a line and gives the answer's line; it knows nothing of pipes. Requests are answered
in order. Notifications are not answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from sulina.cli.mcp.tools import Tools
from sulina.errors import SulinaError
from sulina.version import __version__

_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, newest first; what a server with tools needs is the same in all of them."""
_INSTRUCTIONS: Final = (
    "Tools of a Sulina messaging cluster. Topics are named /namespace/topic. Start with "
    "cluster_describe, topic_list and topic_describe; subscription_describe says how far consumers "
    "are behind; messages_peek reads messages without consuming them."
)


class _Code(IntEnum):
    """JSON-RPC's errors."""

    PARSE = -32700
    REQUEST = -32600
    METHOD = -32601
    PARAMS = -32602


class _Wrong(Exception):
    """The request is wrong."""

    def __init__(self, code: _Code, why: str) -> None:
        super().__init__(why)
        self.code = code


class McpSession:
    """One client's session."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def answer(self, line: bytes) -> bytes | None:
        """The answer to a line, without its line end; None if it needs none. Never raises."""
        number: Any = None
        try:
            request = _request(line)
            number = request.get("id")
            result = await self._result(str(request["method"]), request.get("params") or {})
        except _Wrong as error:
            return _line(number, error={"code": int(error.code), "message": str(error)})
        if "id" not in request:
            return None
        return _line(number, result=result)

    async def _result(self, method: str, params: Any) -> dict[str, Any]:
        if not isinstance(params, dict):
            raise _Wrong(_Code.PARAMS, "params must be an object")
        match method:
            case "initialize":
                return _initialized(params)
            case "ping":
                return {}
            case "tools/list":
                return {"tools": self._tools.list()}
            case "tools/call":
                return await self._called(params)
            case _ if method.startswith("notifications/"):
                return {}
        raise _Wrong(_Code.METHOD, f"there is no method {method!r}: this server has tools only")

    async def _called(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or name not in self._tools:
            raise _Wrong(
                _Code.PARAMS,
                f"there is no tool {name!r}: see tools/list; tools that change something need "
                "sulina mcp --allow-changes",
            )
        if not isinstance(arguments, dict):
            raise _Wrong(_Code.PARAMS, "arguments must be an object")
        unknown = self._tools.unknown(name, arguments)
        if unknown is not None:
            raise _Wrong(_Code.PARAMS, f"{name} takes no argument {unknown!r} in this session")
        try:
            return _content(await self._tools.run(name, arguments))
        except SulinaError as error:
            return {**_content(str(error)), "isError": True}


def _request(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _Wrong(_Code.PARSE, f"this is not JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("method"), str):
        raise _Wrong(_Code.REQUEST, "a request is an object with a method")
    return found


def _initialized(params: Mapping[str, Any]) -> dict[str, Any]:
    wanted = params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in _VERSIONS else _VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "sulina", "title": "Sulina", "version": __version__},
        "instructions": _INSTRUCTIONS,
    }


def _content(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def _line(number: Any, **fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, **fields}).encode()
