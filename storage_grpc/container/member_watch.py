"""``python -m storage_grpc.container.member_watch FOLDER CLUSTER MEMBER [CERTIFICATE KEY]``: logs
once a minute how full a member's disk is, and in how many days its certificate expires.

Writes one line of JSON per measurement; metric filters of the log turn them into metrics:
``{"cluster": "sulina-prod", "member": "etcd-1", "disk_used_percent": 12.3,
"certificate_days": 400}``. It runs beside any member, so it imports only the standard library.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import sys
import threading
import time  # noqa: TID251 - a process of its own, which only measures
from collections.abc import Sequence
from typing import Any, Final

DISK: Final = "disk_used_percent"
CERTIFICATE: Final = "certificate_days"
_SECONDS: Final = 60.0
_DAY: Final = 86_400
_HANDSHAKE_STEPS: Final = 8
"""More than a handshake takes, which is three or four."""
_EXPIRED: Final = 10
"""OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED."""


def used_percent(folder: str) -> float:
    """How full the disk of ``folder`` is, as ``df`` counts: blocks reserved for root are used."""
    found = os.statvfs(folder)
    used = found.f_blocks - found.f_bfree
    return round(100 * used / max(used + found.f_bavail, 1), 1)


def certificate_expiry(certificate: str, key: str) -> float:
    """When the certificate in a PEM file expires, in seconds since the epoch; 0 if it has.

    The standard library decodes only a certificate that a peer has presented, so a server
    presents it to a client in memory. Raises ``OSError`` (``ssl.SSLError`` is one) if the files
    can't be used.
    """
    presents = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    presents.load_cert_chain(certificate, key)
    receives = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    receives.check_hostname = False
    # The certificate itself is trusted, whoever signed it.
    receives.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    receives.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = presents.wrap_bio(to_server, to_client, server_side=True)
    client = receives.wrap_bio(to_client, to_server)
    try:
        for _ in range(_HANDSHAKE_STEPS):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _EXPIRED:
            return 0.0
        raise
    found: Any = client.getpeercert() or {}
    return float(ssl.cert_time_to_seconds(found["notAfter"]))


def measurement(folder: str, cluster: str, member: str, files: Sequence[str] = ()) -> str:
    """One line of the log; ``files`` are a certificate and its key, if it has one.

    Raises ``OSError`` if the folder or a file can't be read.
    """
    found = {"cluster": cluster, "member": member, DISK: used_percent(folder)}
    if files:
        certificate, key = files
        left = certificate_expiry(certificate, key) - time.time()
        found[CERTIFICATE] = max(0, int(left // _DAY))
    return json.dumps(found)


def main() -> int:
    """Measure until SIGTERM or SIGINT; returns the exit code of the process."""
    folder, cluster, member, *files = sys.argv[1:]
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while True:
        try:
            sys.stdout.write(measurement(folder, cluster, member, files) + "\n")
            sys.stdout.flush()
        except OSError as error:
            sys.stderr.write(f"{member} can't be measured: {error}\n")
            return 1
        if ended.wait(_SECONDS):
            return 0


if __name__ == "__main__":
    sys.exit(main())
