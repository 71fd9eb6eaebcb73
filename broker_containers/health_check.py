"""``python -m broker_containers.health_check``: whether the broker of this container answers.

Asks whether it lives, not whether it is ready: a broker that can't reach etcd for a while serves
on, and must not be replaced for that. Exits with 0, or with 1 and a sentence.
"""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request
from collections.abc import Mapping
from typing import Final

from broker_containers.container import PREFIX
from sulina.runtime.own_address import own_address

_SECONDS: Final = 4.0
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def live_url(environment: Mapping[str, str]) -> str:
    """Where the broker says that it lives, by the variables that it was started with."""
    host = environment.get(f"{PREFIX}HOST") or own_address()
    port = environment.get(f"{PREFIX}HTTP_PORT") or "8080"
    scheme = "https" if environment.get(f"{PREFIX}TLS_CERT") else "http"
    return f"{scheme}://{_EVERYWHERE.get(host, host)}:{port}/health/live"


def main() -> int:
    """Ask once; returns the exit code of the process."""
    # The certificate is that of the cluster's name; who asks is the same container.
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    url = live_url(os.environ)
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS, context=trusting) as answer:
            answer.read()
    except OSError as error:
        sys.stderr.write(f"{url} does not answer: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
