"""Azurite, the emulator of Azure Blob Storage, where npm has installed it."""

from __future__ import annotations

import http.client
import shutil
from pathlib import Path
from typing import Final

from localstack.emulators.server import HOST, EmulatorServer, Program, free_ports
from sulina.errors import Unavailable

ACCOUNT: Final = "devstoreaccount1"
KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Of the account that every Azurite has: public, and the same everywhere."""


def running_azurite(folder: Path, port: int = 0) -> EmulatorServer:
    """For ``with``, on ``port`` or a free one. Raises ``Unavailable`` if it is not installed."""
    port = port or free_ports(1)[0]
    found = shutil.which("azurite-blob")
    if found is None:
        raise Unavailable("azurite-blob is not installed: npm install -g azurite")
    program = Program(
        name="azurite",
        command=(
            *(found, "--blobHost", HOST, "--blobPort", str(port)),
            *("--location", str(folder / "data"), "--silent", "--disableTelemetry"),
            "--skipApiVersionCheck",
        ),
        port=port,
        ready=_answers,
    )
    return EmulatorServer(folder, program)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=20)
    try:
        connection.request("GET", f"/{ACCOUNT}?comp=list")
        return connection.getresponse().status in (400, 403)  # it wants a signature
    finally:
        connection.close()


def make_container(server: EmulatorServer, name: str) -> None:
    """Create a container if it does not exist."""
    from azure.core.exceptions import ResourceExistsError
    from azure.storage.blob import ContainerClient

    with ContainerClient(f"{server.url}/{ACCOUNT}", name, credential=KEY) as client:
        try:
            client.create_container()
        except ResourceExistsError:
            return
