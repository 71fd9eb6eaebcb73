"""Options for TLS inside a cluster: to etcd and to storage nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from sulina.runtime.tls_files import TlsFiles

_WHOM: Final = {"etcd": "etcd (https:// in --etcd)", "storage": "storage nodes"}


def internal_tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds them; the command gets ``etcd_tls`` and ``storage_tls``, each ``TlsFiles`` or None."""

    @wraps(command)  # with the options that it has already
    def with_files(*positional: Any, **named: Any) -> Any:
        for whom in _WHOM:
            ca, certificate, key = (named.pop(f"{whom}_{part}") for part in ("ca", "cert", "key"))
            if key is not None and certificate is None:
                raise click.UsageError(f"--{whom}-key needs a --{whom}-cert")
            given = ca is not None or certificate is not None
            named[f"{whom}_tls"] = TlsFiles(ca, certificate, key) if given else None
        return command(*positional, **named)

    decorated: Callable[..., Any] = with_files
    for whom, words in reversed(_WHOM.items()):
        for option in (
            _file(f"--{whom}-key", "The key of that certificate (PEM)."),
            _file(f"--{whom}-cert", f"The certificate to show to {words}, if asked (PEM)."),
            _file(f"--{whom}-ca", f"TLS to {words}: whose certificates to trust (PEM)."),
        ):
            decorated = option(decorated)
    return decorated


def _file(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Whether it is there is told where it is read, which names what it was for.
    return click.option(name, type=click.Path(path_type=Path), metavar="FILE", help=text)
