"""Options for TLS within a cluster: to etcd and to storage nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from sulina.runtime.tls_files import TlsFiles

_SERVERS: Final = {"etcd": "etcd", "storage": "storage nodes"}


def internal_tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets ``etcd_tls`` and ``storage_tls``: ``TlsFiles`` or None."""

    @wraps(command)  # keeps the options that it already has
    def with_files(*positional: Any, **named: Any) -> Any:
        for server in _SERVERS:
            ca, certificate, key = (named.pop(f"{server}_{part}") for part in ("ca", "cert", "key"))
            if key is not None and certificate is None:
                raise click.UsageError(f"--{server}-key needs a --{server}-cert")
            given = ca is not None or certificate is not None
            named[f"{server}_tls"] = TlsFiles(ca, certificate, key) if given else None
        return command(*positional, **named)

    decorated: Callable[..., Any] = with_files
    for server, words in reversed(_SERVERS.items()):
        for option in (
            _file(f"--{server}-key", "Private key of that certificate (PEM)."),
            _file(f"--{server}-cert", f"Client certificate for {words} (PEM)."),
            _file(f"--{server}-ca", f"Use TLS to {words}, and trust these CA certificates (PEM)."),
        ):
            decorated = option(decorated)
    return decorated


def _file(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Its existence is checked where it is read, with a more specific error.
    return click.option(name, type=click.Path(path_type=Path), metavar="FILE", help=text)
