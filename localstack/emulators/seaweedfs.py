"""SeaweedFS: an S3 server that checks signatures and keeps its data when it is killed."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import Final

from localstack.emulators.credentials import Credentials
from localstack.emulators.server import HOST, EmulatorServer, Program, ask_http, free_ports
from localstack.environments import environment

USER: Final = Credentials("sulina", "sulina-secret")
"""A user with all rights."""
READER: Final = Credentials("reader", "reader-secret")
"""A user who may only read."""
_PORTS: Final = 8
_VOLUME_MB: Final = 1024
_VOLUMES: Final = 200


def running_seaweedfs(folder: Path, port: int = 0) -> EmulatorServer:
    """For ``with``, with its S3 on ``port`` or a free one, and its data in ``folder``.

    Blocks while its environment is installed.
    """
    folder = folder.absolute()
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    users = folder / "s3.json"
    users.write_text(json.dumps(_users()))
    free = free_ports(_PORTS)
    s3 = port or free[0]
    master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3_grpc = free[1:]
    program = Program(
        name="seaweedfs",
        command=(
            *(str(environment("emulators") / "weed"), "-logtostderr", "server"),
            *(f"-dir={data}", f"-ip={HOST}", f"-ip.bind={HOST}"),
            *(f"-master.port={master}", f"-master.port.grpc={master_grpc}"),
            *(f"-master.volumeSizeLimitMB={_VOLUME_MB}", "-master.telemetry=false"),
            "-master.electionTimeout=1s",  # the only master need not wait after a restart
            *(f"-volume.port={volume}", f"-volume.port.grpc={volume_grpc}"),
            f"-volume.max={_VOLUMES}",
            *("-filer", f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}"),
            *("-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"),
            *("-s3", f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", f"-s3.config={users}"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0"),
        ),
        port=s3,
        ready=lambda port: _ready(port, master),
        credentials=USER,
    )
    return EmulatorServer(folder, program)


def _ready(port: int, master: int) -> bool:
    """Whether S3 answers and the volumes have registered with the master."""
    _, topology = ask_http(master, "/dir/status")
    return b'"DataCenters":[' in topology and ask_http(port, "/healthz")[0] == HTTPStatus.OK


def _users() -> dict[str, object]:
    everything = ("Admin", "Read", "Write", "List", "Tagging")
    return {
        "identities": [
            {
                "name": user.access_key,
                "credentials": [{"accessKey": user.access_key, "secretKey": user.secret_key}],
                "actions": actions,
            }
            for user, actions in ((USER, everything), (READER, ("Read", "List")))
        ]
    }
