"""moto: the API of many AWS services, which store data in memory and run nothing.

Credentials are not checked; the account is 123456789012.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from localstack.emulators.server import HOST, EmulatorServer, Program, answers_http, free_ports
from localstack.environments import environment

ACCOUNT: Final = "123456789012"


def running_moto(
    folder: Path, port: int = 0, settings: Mapping[str, str] | None = None
) -> EmulatorServer:
    """For ``with``, on ``port`` or a free one; ``settings`` are moto's environment variables.

    Blocks while its environment is installed.
    """
    port = port or free_ports(1)[0]
    program = Program(
        name="moto",
        command=(
            str(environment("emulators") / "moto_server"),
            *("-H", HOST, "-p", str(port)),
        ),
        port=port,
        ready=answers_http("/moto-api/"),
        environment=settings,
    )
    return EmulatorServer(folder, program)
