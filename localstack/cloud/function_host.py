"""Runs one Lambda function: ``python -m localstack.cloud.function_host``.

Speaks Lambda's runtime API: takes the next event, calls the handler named by ``_HANDLER``, and
returns its result or its error, one event at a time. Ends when the runner of the cloud does.
"""

from __future__ import annotations

import http.client
import importlib
import json
import logging
import os
import time
from dataclasses import dataclass
from typing import Any, Final

_VERSION: Final = "2018-06-01"


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of one call, as far as our functions use it."""

    aws_request_id: str
    deadline_ms: int

    def get_remaining_time_in_millis(self) -> int:
        """The time until the function's timeout."""
        return max(self.deadline_ms - time.time_ns() // 1_000_000, 0)


def main() -> None:
    """Serve until the connection to the runner breaks."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    module, _, name = os.environ["_HANDLER"].rpartition(".")
    handler = getattr(importlib.import_module(module), name)
    address, _, path = os.environ["AWS_LAMBDA_RUNTIME_API"].partition("/")
    base = f"/{path}/{_VERSION}/runtime/invocation"
    while True:
        _, headers, body = _send(address, "GET", f"{base}/next")
        call = headers["Lambda-Runtime-Aws-Request-Id"]
        context = CallContext(call, int(headers["Lambda-Runtime-Deadline-Ms"]))
        try:
            outcome, result = "response", handler(json.loads(body), context)
        except Exception as error:
            logging.exception("the call %s failed", call)
            outcome = "error"
            result = {"errorMessage": str(error), "errorType": type(error).__name__}
        _send(address, "POST", f"{base}/{call}/{outcome}", json.dumps(result).encode())


def _send(address: str, method: str, path: str, body: bytes | None = None) -> Any:
    connection = http.client.HTTPConnection(address)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


if __name__ == "__main__":
    main()
