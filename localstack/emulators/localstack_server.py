"""LocalStack, on Python 3.11 with the part of 3.12 that its KMS uses.

Its last release for Python 3.11 passes bytes to ``uuid.uuid5``, which accepts them from 3.12 on;
every CreateKey would fail. It runs in LocalStack's own environment.
"""

from __future__ import annotations

import runpy
import sys
import uuid

_uuid5 = uuid.uuid5


def _uuid5_of_bytes(namespace: uuid.UUID, name: str | bytes) -> uuid.UUID:
    # A one-to-one mapping of bytes to text: the same name has the same id.
    return _uuid5(namespace, name.decode("latin-1") if isinstance(name, bytes) else name)


if __name__ == "__main__":
    if sys.version_info < (3, 12):
        uuid.uuid5 = _uuid5_of_bytes
    runpy.run_module("localstack.runtime.main", run_name="__main__")
