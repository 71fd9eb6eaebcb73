"""Google Cloud Storage's JSON API, from the emulator on PyPI and what it lacks.

Everything is in memory, and credentials are not looked at.
"""

from __future__ import annotations

from pathlib import Path

from localstack.emulators.server import HOST, EmulatorServer, Program, answers_http, free_ports
from localstack.environments import environment


def running_gcs(folder: Path, port: int = 0) -> EmulatorServer:
    """For ``with``, on ``port`` or any free one. Blocks while its environment is installed."""
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
