"""``python -m broker_containers.health_check``: checks that this container's broker answers.

Checks liveness, not readiness: a broker that can't reach etcd for a while goes on serving, and must
not be replaced. Exits with 0, or with 1 and the reason.

It runs every few seconds in every container, so it imports only the standard library.
"""

from __future__ import annotations

import http.client
import os
import socket  # noqa: TID251 - a process of its own, outside the simulation
import ssl
import sys
from collections.abc import Mapping
from typing import Final

from broker_containers.container import PREFIX

_SECONDS: Final = 8.0
_PATH: Final = "/health/live"
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def connection(environment: Mapping[str, str]) -> http.client.HTTPConnection:
    """An unopened connection to the broker's HTTP port, from the variables of the container."""
    host = environment.get(f"{PREFIX}HOST") or socket.gethostname()
    port = int(environment.get(f"{PREFIX}HTTP_PORT") or 8080)
    host = _EVERYWHERE.get(host, host)
    if not environment.get(f"{PREFIX}TLS_CERT"):
        return http.client.HTTPConnection(host, port, timeout=_SECONDS)
    # The certificate is for the cluster's name, and the broker is in this container.
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=trusting)


def main() -> int:
    """Check once; returns the exit code of the process."""
    asked = connection(os.environ)
    try:
        asked.request("GET", _PATH)
        status = asked.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        sys.stderr.write(f"{asked.host}:{asked.port} does not answer: {error}\n")
        return 1
    if status != http.client.OK:
        sys.stderr.write(f"{asked.host}:{asked.port} answered {_PATH} with status {status}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
