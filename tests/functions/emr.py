"""EMR Serverless as far as the function uses it: runs that stay under way until a test ends them.

moto's end at once, so nothing ever overlaps there, and it does not know tokens.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

_RUNS = re.compile(r"/applications/([^/]+)/jobruns(?:/([^/]+))?")


class Emr:
    """The runs of one application, oldest first."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.also: list[dict[str, Any]] = []
        """Runs that somebody else starts at the very moment of the next start."""
        emr = self

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                self._answer(emr.start(json.loads(self.rfile.read(length))))

            def do_GET(self) -> None:
                states = parse_qs(urlsplit(self.path).query).get("states", [])
                self._answer({"jobRuns": [run for run in emr.runs if run["state"] in states]})

            def do_DELETE(self) -> None:
                found = _RUNS.fullmatch(self.path)
                assert found is not None
                emr.end(found[2], "CANCELLED")
                self._answer({"applicationId": found[1], "jobRunId": found[2]})

            def _answer(self, value: dict[str, Any]) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
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

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """The same token gives the same run."""
        self.requests.append(request)
        self.runs += self.also
        self.also = []
        token = request["clientToken"]
        for run in self.runs:
            if run.get("token") == token:
                return {"applicationId": "app", "jobRunId": run["id"], "arn": "arn"}
        run = self.run(request["name"], 1000 + len(self.runs))
        self.runs.append({**run, "token": token})
        return {"applicationId": "app", "jobRunId": run["id"], "arn": "arn"}

    def run(self, name: str, created: int) -> dict[str, Any]:
        """A run under way, not yet among the others."""
        return {
            "id": f"run{created}",
            "name": name,
            "state": "RUNNING",
            "createdAt": created,
            "updatedAt": created,
            **dict.fromkeys(("arn", "createdBy", "executionRole", "releaseLabel"), "x"),
            **dict.fromkeys(("applicationId", "stateDetails"), ""),
        }

    def end(self, run: str, state: str = "SUCCESS") -> None:
        """Have a run ended."""
        [found] = [each for each in self.runs if each["id"] == run]
        found["state"] = state

    def under_way(self) -> list[str]:
        return [run["id"] for run in self.runs if run["state"] == "RUNNING"]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
