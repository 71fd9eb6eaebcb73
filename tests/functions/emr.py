"""EMR Serverless as far as the function uses it: runs that stay under way until a test ends them.

moto's end at once, so nothing ever overlaps there, and it does not know tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.functions.http_server import Response, ThreadedServer


class Emr(ThreadedServer):
    """The runs of one application, oldest first."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.also: list[dict[str, Any]] = []
        """Runs that somebody else starts at the very moment of the next start."""
        super().__init__()

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        if method == "POST":
            found = self.start(json.loads(body))
        elif method == "GET":
            states = parse_qs(urlsplit(path).query).get("states", [])
            found = {"jobRuns": [run for run in self.runs if run["state"] in states]}
        else:
            *_, application, _, run = path.split("/")
            self.end(run, "CANCELLED")
            found = {"applicationId": application, "jobRunId": run}
        return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()

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
