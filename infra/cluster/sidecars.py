"""Sidecar containers of a member; they run the storage node's image, also next to etcd.

``certificates`` runs before the member and writes its certificate files to memory. ``watch`` logs
once per minute how full the member's volume is and when its certificate expires.
"""

from __future__ import annotations

from typing import Any, Final

import pulumi

from infra.cluster.user_data import CERTIFICATES, MOUNT
from infra.security.certificates import FILES, Credential

CERTIFICATE_FILE: Final = f"{CERTIFICATES}/certificate.pem"
KEY_FILE: Final = f"{CERTIFICATES}/key.pem"
AUTHORITIES_FILE: Final = f"{CERTIFICATES}/authorities.pem"
DATA_VOLUME: Final = {"sourceVolume": "data", "containerPath": MOUNT}
CERTIFICATES_VOLUME: Final = {"sourceVolume": "certificates", "containerPath": CERTIFICATES}
_WRITER: Final = "certificates"
AFTER_CERTIFICATES: Final = [{"containerName": _WRITER, "condition": "SUCCESS"}]


def certificate_writer(image: pulumi.Input[str], credential: Credential) -> dict[str, Any]:
    """Writes the secrets that ECS passes to it into files, then exits."""
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
        "mountPoints": [{**CERTIFICATES_VOLUME, "readOnly": False}],
    }


def member_watch(
    image: pulumi.Input[str], cluster: str, member: str, *, tls: bool
) -> dict[str, Any]:
    """Logs measurements until it is stopped; ``tls`` includes the certificate's expiry."""
    volumes = (DATA_VOLUME, CERTIFICATES_VOLUME) if tls else (DATA_VOLUME,)
    files = [CERTIFICATE_FILE, KEY_FILE] if tls else []
    return {
        "name": "watch",
        "image": image,
        "memoryReservation": 64,
        # The member keeps serving without it; the alarm on missing measurements goes off.
        "essential": False,
        "restartPolicy": {"enabled": True, "restartAttemptPeriod": 60},
        "entryPoint": ["python", "-m", "storage_grpc.container.member_watch"],
        "command": [MOUNT, cluster, member, *files],
        "mountPoints": [{**volume, "readOnly": True} for volume in volumes],
        **({"dependsOn": AFTER_CERTIFICATES} if tls else {}),
    }
