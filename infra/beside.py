"""Containers beside a member's own: they have Sulina's image, whatever the member itself has.

``certificates`` runs before the member and puts its certificates where it finds them, in the memory
of the machine. ``watch`` tells once a minute how full the member's volume is, and how long its
certificate is still good.
"""

from __future__ import annotations

from typing import Any, Final

import pulumi

from infra.boot import CERTIFICATES, MOUNT
from infra.certificates import FILES, Credential

CERTIFICATE: Final = f"{CERTIFICATES}/certificate.pem"
KEY: Final = f"{CERTIFICATES}/key.pem"
AUTHORITIES: Final = f"{CERTIFICATES}/authorities.pem"
DATA: Final = {"sourceVolume": "data", "containerPath": MOUNT}
SHOWN: Final = {"sourceVolume": "certificates", "containerPath": CERTIFICATES}
_WRITER: Final = "certificates"
AFTER_CERTIFICATES: Final = [{"containerName": _WRITER, "condition": "SUCCESS"}]


def certificates(image: pulumi.Input[str], credential: Credential) -> dict[str, Any]:
    """Writes what ECS hands to it, and ends."""
    return {
        "name": _WRITER,
        "image": image,
        "memoryReservation": 64,
        "essential": False,
        "entryPoint": ["python", "-m", "storage_grpc.container.secret_files"],
        "command": [CERTIFICATES],
        "secrets": [
            {"name": f"SULINA_FILE_{file.upper()}", "valueFrom": credential.value_of(file)}
            for file in FILES
        ],
        "mountPoints": [{**SHOWN, "readOnly": False}],
    }


def watch(
    image: pulumi.Input[str], cluster: str, member: str, *, certified: bool
) -> dict[str, Any]:
    """Measures, for ever."""
    more = {
        "command": [MOUNT, cluster, member, CERTIFICATE, KEY],
        "mountPoints": [{**DATA, "readOnly": True}, {**SHOWN, "readOnly": True}],
        "dependsOn": AFTER_CERTIFICATES,
    }
    return {
        "name": "watch",
        "image": image,
        "memoryReservation": 64,
        # The member serves on without it, and somebody is told that nobody measures.
        "essential": False,
        "restartPolicy": {"enabled": True, "restartAttemptPeriod": 60},
        "entryPoint": ["python", "-m", "storage_grpc.container.member_watch"],
        "command": [MOUNT, cluster, member],
        "mountPoints": [{**DATA, "readOnly": True}],
        **(more if certified else {}),
    }
