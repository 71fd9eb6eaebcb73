"""Lambda's call interface over handlers in this process: what boto3's ``invoke`` talks to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.functions.http_server import Response, ThreadedServer

Handler = Callable[[dict[str, Any], Any], Any]
_PATH = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")


class Lambdas(ThreadedServer):
    """Functions by name. Those that are called without waiting are noted in ``asked``."""

    def __init__(self) -> None:
        self.functions: dict[str, Handler] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        super().__init__()

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        found = _PATH.fullmatch(path)
        assert found is not None, path
        name, event = found[1], json.loads(body)
        if name not in self.functions:
            missing = {"X-Amzn-ErrorType": "ResourceNotFoundException"}
            return 404, missing, b'{"Message": "no such function"}'
        if headers.get("X-Amz-Invocation-Type") == "Event":
            self.asked.append((name, event))
            return 202, {}, b""
        try:
            return 200, {}, json.dumps(self.functions[name](event, None)).encode()
        except Exception as error:
            problem = {"errorMessage": str(error), "errorType": type(error).__name__}
            return 200, {"X-Amz-Function-Error": "Unhandled"}, json.dumps(problem).encode()
