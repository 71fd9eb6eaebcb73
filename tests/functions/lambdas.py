"""Lambda's call interface over handlers in this process: what boto3's ``invoke`` talks to."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Handler = Callable[[dict[str, Any], Any], Any]
_PATH = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")


class Lambdas:
    """Functions by name. Those that are called without waiting are noted in ``asked``."""

    def __init__(self) -> None:
        self.functions: dict[str, Handler] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        lambdas = self

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                event = json.loads(self.rfile.read(length))
                found = _PATH.fullmatch(self.path)
                assert found is not None, self.path
                waits = self.headers.get("X-Amz-Invocation-Type") != "Event"
                status, headers, body = lambdas.call(found[1], event, waits)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Not on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def call(
        self, name: str, event: dict[str, Any], waits: bool
    ) -> tuple[int, dict[str, str], bytes]:
        """As Lambda answers."""
        if name not in self.functions:
            missing = {"X-Amzn-ErrorType": "ResourceNotFoundException"}
            return 404, missing, b'{"Message": "no such function"}'
        if not waits:
            self.asked.append((name, event))
            return 202, {}, b""
        try:
            return 200, {}, json.dumps(self.functions[name](event, None)).encode()
        except Exception as error:
            body = {"errorMessage": str(error), "errorType": type(error).__name__}
            return 200, {"X-Amz-Function-Error": "Unhandled"}, json.dumps(body).encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
