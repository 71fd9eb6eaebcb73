"""Google Cloud Storage's JSON API: the emulator on PyPI, with what it lacks added.

Data is in memory only, and credentials are not checked.
"""

from __future__ import annotations

import http.client
import json
from http import HTTPStatus
from pathlib import Path

from localstack.emulators.server import HOST, EmulatorServer, Program, answers_http, free_ports
from localstack.environments import environment
from sulina.errors import Unavailable


def running_gcs(folder: Path, port: int = 0) -> EmulatorServer:
    """For ``with``, on ``port`` or a free one. Blocks while its environment is installed."""
    port = port or free_ports(1)[0]
    program = Program(
        name="gcs",
        command=(
            str(environment("emulators") / "python"),
            str(Path(__file__).with_name("gcs_server.py")),
            *(HOST, str(port)),
        ),
        port=port,
        ready=answers_http("/"),
    )
    return EmulatorServer(folder, program)


def make_bucket(server: EmulatorServer, name: str) -> None:
    """Create a bucket if it does not exist."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=30)
    try:
        connection.request(
            *("POST", "/storage/v1/b?project=test", json.dumps({"name": name})),
            {"Content-Type": "application/json"},
        )
        status = connection.getresponse().status
    finally:
        connection.close()
    if status not in (HTTPStatus.OK, HTTPStatus.CONFLICT):
        raise Unavailable(f"creating the bucket {name} failed: the emulator answered {status}")
