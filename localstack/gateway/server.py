"""Stands between Pulumi's plugin and an emulated AWS, so that nothing passes unseen.

The plugin uses it both as the endpoint of every service and as its proxy. Requests go to the
emulator. A tunnel to another machine (``CONNECT``) is refused and remembered: whatever the plugin
wanted there would have reached the real AWS.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol, Self
from urllib.parse import urlsplit

from localstack.emulators.server import HOST

_SECONDS: Final = 120.0
_HOP_BY_HOP: Final = {"connection", "keep-alive", "transfer-encoding", "content-length", "date"}


@dataclass(frozen=True, slots=True)
class Call:
    """A request to AWS."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def operation(self) -> str:
        """The operation of services with a JSON protocol, such as ``DescribeServices``."""
        return self._header("x-amz-target").rpartition(".")[2]

    @property
    def service(self) -> str:
        """The service, as it is named in the signature."""
        scope = self._header("authorization").partition("Credential=")[2].partition(",")[0]
        return scope.split("/")[3] if scope.count("/") > 3 else ""

    def _header(self, wanted: str) -> str:
        return next((value for name, value in self.headers.items() if name.lower() == wanted), "")


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of_json(cls, value: Any, status: int = 200) -> Self:
        """A response with a JSON body."""
        return cls(
            status, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(value).encode()
        )


class Completion(Protocol):
    """Adds to an emulator what it lacks."""

    def before(self, call: Call) -> Answer | Call | None:
        """Answer a request in the emulator's place, replace it, or return None."""
        ...

    def after(self, call: Call, answer: Answer) -> Answer:
        """Complete the emulator's answer."""
        ...


class Gateway:
    """In ``with``, listens on a free port of this machine and forwards to ``emulator``, a URL."""

    def __init__(self, emulator: str, completions: Sequence[Completion] = ()) -> None:
        self._emulator = urlsplit(emulator).netloc
        self._completions = completions
        self.refused: list[str] = []
        """The hosts to which the plugin wanted to connect past the emulator."""
        # moto mixes up requests that it handles at the same time.
        self._one_at_a_time = threading.Lock()
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, call: Call) -> Answer:
        """Answer a request. Raises ``OSError`` or ``HTTPException`` if the emulator does not."""
        for each in self._completions:
            match each.before(call):
                case Answer() as answered:
                    return answered
                case Call() as replaced:
                    call = replaced
        with self._one_at_a_time:
            answer = self._forward(call)
        for each in self._completions:
            answer = each.after(call, answer)
        return answer

    def _forward(self, call: Call) -> Answer:
        connection = http.client.HTTPConnection(self._emulator, timeout=_SECONDS)
        try:
            connection.putrequest(call.method, call.path, skip_host=True, skip_accept_encoding=True)
            for name, value in call.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(call.body)))
            connection.endheaders(call.body)
            found = connection.getresponse()
            return Answer(found.status, dict(found.getheaders()), found.read())
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65_537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                elif self.command == "CONNECT":
                    gateway.refused.append(self.path)
                    self.send_error(403, "this machine does not reach the real AWS")
                    self.close_connection = True
                else:
                    with suppress(BrokenPipeError):  # the plugin did not wait for the answer
                        self._answer()

            def _answer(self) -> None:
                if self.headers.get("Expect", "").lower() == "100-continue":
                    self.send_response_only(100)
                    self.end_headers()
                call = Call(self.command, self.path, dict(self.headers.items()), self._body())
                try:
                    answer = gateway.answer(call)
                except (OSError, http.client.HTTPException) as error:
                    answer = Answer(502, {}, str(error).encode())
                self.send_response_only(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in _HOP_BY_HOP:
                        self.send_header(name, value)
                if answer.status != 204:
                    # The answer to HEAD says how long the body of GET would be.
                    length = answer.headers.get("Content-Length", "0")
                    body = len(answer.body) if self.command != "HEAD" else length
                    self.send_header("Content-Length", str(body))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)
                self.wfile.flush()

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass
                return b"".join(parts)

        return Handler
