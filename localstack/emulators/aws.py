"""LocalStack: an AWS account, in which S3, IAM, SQS, SNS and more work without Docker.

Its data is lost when it stops. Credentials are not checked: an access key of twelve digits is used
as the account number.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from localstack.emulators.server import HOST, EmulatorServer, Program, answers_http, free_ports
from localstack.environments import environment

SERVER: Final = Path(__file__).with_name("localstack_server.py")
"""What starts LocalStack, also in its image."""


def running_localstack(folder: Path, port: int = 0, services: Sequence[str] = ()) -> EmulatorServer:
    """For ``with``, on ``port`` or a free one, with all services unless some are named.

    Blocks while its environment is installed.
    """
    port = port or free_ports(1)[0]
    python = environment("localstack") / "python"
    folder = folder.absolute()
    for part in ("tmp", "home", "cache"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    program = Program(
        name="localstack",
        # -P: LocalStack must not import the modules next to this one, some of which share names.
        command=(str(python), "-P", str(SERVER)),
        port=port,
        ready=answers_http("/_localstack/health"),
        environment={
            "OVERRIDE_IN_DOCKER": "0",  # otherwise it may write to system folders
            "FILESYSTEM_ROOT": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "GATEWAY_LISTEN": f"{HOST}:{port}",
            "LOCALSTACK_HOST": f"localhost:{port}",
            "EAGER_SERVICE_LOADING": "0",
            **({"SERVICES": ",".join(services)} if services else {}),
            "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1",
            "DNS_ADDRESS": "0",
        },
    )
    return EmulatorServer(folder, program)
