"""``python -m storage_grpc.member_watch FOLDER CLUSTER MEMBER [CERTIFICATE KEY]``: once a minute,
how full a member's disk is, and for how many days its certificate is still good.

One line of JSON each, of which metric filters of the log make figures:
``{"cluster": "sulina-prod", "member": "etcd-1", "disk_used_percent": 12.3,
"certificate_days": 400}``. It runs beside a member and knows nothing of it, so it loads nothing but
the standard library.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time  # noqa: TID251 - a process of its own, which only measures
from collections.abc import Sequence
from typing import Final

from storage_grpc.certificate_end import seconds_of_end

DISK: Final = "disk_used_percent"
CERTIFICATE: Final = "certificate_days"
_SECONDS: Final = 60.0
_DAY: Final = 86_400


def used_percent(folder: str) -> float:
    """Of the disk that ``folder`` is on, as ``df`` counts: what only root could fill is full."""
    found = os.statvfs(folder)
    used = found.f_blocks - found.f_bfree
    return round(100 * used / max(used + found.f_bavail, 1), 1)


def line(folder: str, cluster: str, member: str, files: Sequence[str] = ()) -> str:
    """What is told; ``files`` are a certificate and its key. Raises ``OSError`` if something is
    not there."""
    told = {"cluster": cluster, "member": member, DISK: used_percent(folder)}
    if files:
        certificate, key = files
        left = seconds_of_end(certificate, key) - time.time()
        told[CERTIFICATE] = max(0, int(left // _DAY))
    return json.dumps(told)


def main() -> int:
    """Tell it until SIGTERM or SIGINT; returns the exit code of the process."""
    folder, cluster, member, *files = sys.argv[1:]
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while True:
        try:
            sys.stdout.write(line(folder, cluster, member, files) + "\n")
            sys.stdout.flush()
        except OSError as error:
            sys.stderr.write(f"{member} can't be measured: {error}\n")
            return 1
        if ended.wait(_SECONDS):
            return 0


if __name__ == "__main__":
    sys.exit(main())
