"""Settings of a storage node, from a TOML file, the environment and flags.

A flag overrides the environment (``SULINA_STORAGE_<NAME>``), which overrides the file, which
overrides the default. Names are those of the fields: ``journal_file_mb`` is ``--journal-file-mb``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from storage_grpc.journal.settings import JournalSettings
from storage_grpc.tier.tier import CACHE_BYTES
from sulina.errors import Refused
from sulina.runtime.logs import FORMATS, LEVELS, TEXT
from sulina.runtime.tls_files import TlsFiles

PREFIX: Final = "SULINA_STORAGE_"
CONFIG: Final = "config"
"""The name of the flag for the file; in capitals, of the environment variable."""
ANY_CLIENT: Final = "any"
CERTIFICATE: Final = "certificate"

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_RESERVE: Final = 32 << 20
_DATA: Final = Path(".sulina/storage")


def _setting(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Settings of one storage node. Raises ``Refused`` for an invalid value."""

    data: Path = _setting(  # noqa: RUF009
        _DATA, "folder of the journal, created if it does not exist"
    )
    host: str = _setting("127.0.0.1", "address to listen on")
    port: int = _setting(6660, "port to listen on; 0 picks a free one")
    metrics_port: int = _setting(
        0, "port for Prometheus metrics and health checks over HTTP; none if 0"
    )
    id: str = _setting("storage-1", "name of the node, unique in the cluster")
    journal_file_mb: int = _setting(256, "size of a journal file in MiB")
    max_entry_mb: int = _setting(64, "maximum size of an entry in MiB")
    max_pending_mb: int = _setting(
        64, "MiB that may wait for the disk before senders are held back"
    )
    tier: str = _setting(
        "",
        "object store for closed ledgers: s3://bucket/prefix, file:///folder, "
        "gs://bucket/prefix, az://account/container/prefix, redis://host:port/0/prefix, "
        "tikv://pd1:2379,pd2:2379/prefix; "
        "none if empty",
    )
    tier_cache_mb: int = _setting(
        CACHE_BYTES >> 20, "MiB of memory for frames of objects that consumers replay"
    )
    tls_cert: str = _setting("", "certificate for TLS (PEM, with its chain); no TLS if empty")
    tls_key: str = _setting("", "key of the certificate (PEM), if it is in a separate file")
    tls_ca: str = _setting(
        "",
        "certificate authorities (PEM) that other storage nodes and clients are verified "
        "with; those of the operating system if empty",
    )
    tls_clients: str = _setting(
        ANY_CLIENT, f"clients to accept with TLS: {ANY_CLIENT}, or only those with a {CERTIFICATE}"
    )
    stop_seconds: float = _setting(10.0, "seconds to finish pending calls when the node stops")
    log_level: str = _setting("warning", f"least severe messages to log: {', '.join(LEVELS)}")
    log_format: str = _setting(TEXT, "log lines of text, or of json for programs")

    def __post_init__(self) -> None:
        for name in ("port", "metrics_port"):
            if not 0 <= getattr(self, name) < 65536:
                raise Refused(
                    f"invalid value for {name}: {getattr(self, name)}; choose from 0 to 65535"
                )
        if not _ID.fullmatch(self.id):
            raise Refused(f"invalid value for id: {self.id!r}; use letters, digits, '.', '_', '-'")
        if self.log_level not in LEVELS:
            raise Refused(
                f"invalid value for log_level: {self.log_level!r}; choose from {', '.join(LEVELS)}"
            )
        if self.log_format not in FORMATS:
            raise Refused(
                f"invalid value for log_format: {self.log_format!r}; "
                f"choose from {', '.join(FORMATS)}"
            )
        for name, value in ((f.name, getattr(self, f.name)) for f in fields(self)):
            if name.endswith(("_mb", "_seconds")) and value <= 0:
                raise Refused(f"invalid value for {name}: {value}; it must be more than 0")
        if self.tls_clients not in (ANY_CLIENT, CERTIFICATE):
            raise Refused(
                f"invalid value for tls_clients: {self.tls_clients!r}; choose {ANY_CLIENT} or "
                f"{CERTIFICATE}"
            )
        if self.tls_clients == CERTIFICATE and not self.tls_ca:
            raise Refused(
                "tls_clients = certificate needs tls_ca, which signs the certificates of clients"
            )
        if not self.tls_cert and (self.tls_key or self.tls_ca):
            raise Refused("tls_key and tls_ca need tls_cert: set it, or remove them")
        _ = self.journal

    @property
    def tls(self) -> TlsFiles | None:
        """The TLS files; None without TLS."""
        if not self.tls_cert:
            return None
        ca, key = (Path(name) if name else None for name in (self.tls_ca, self.tls_key))
        return TlsFiles(ca, Path(self.tls_cert), key)

    @property
    def journal(self) -> JournalSettings:
        """The settings of the journal."""
        file_bytes = self.journal_file_mb << 20
        return JournalSettings(
            file_bytes=file_bytes,
            reserve_bytes=min(_RESERVE, file_bytes),
            max_entry_bytes=self.max_entry_mb << 20,
            max_pending_bytes=self.max_pending_mb << 20,
        )


def load(flags: Mapping[str, object], environment: Mapping[str, str]) -> ServiceSettings:
    """Settings from flags, environment and file. A flag that is None was not given.

    Raises ``Refused`` for an unreadable file, an unknown name or an invalid value.
    """
    config = flags.get(CONFIG) or environment.get(PREFIX + CONFIG.upper())
    values = {} if config is None else _read(Path(str(config)))
    for name in _FIELDS:
        variable = PREFIX + name.upper()
        if variable in environment:
            values[name] = _convert(name, environment[variable], variable)
        if flags.get(name) is not None:
            values[name] = _convert(name, flags[name], f"--{name.replace('_', '-')}")
    return ServiceSettings(**values)


def describe() -> list[tuple[str, str, object]]:
    """Name, help and default of every setting, for a command line."""
    return [(f.name, f.metadata["help"], f.default) for f in fields(ServiceSettings)]


def _read(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Refused(f"the settings in {path} can't be read: {error}") from None
    unknown = sorted(found.keys() - _FIELDS.keys())
    if unknown:
        raise Refused(
            f"unknown settings in {path}: {', '.join(unknown)}; choose from {', '.join(_FIELDS)}"
        )
    return {name: _convert(name, value, f"{name} in {path}") for name, value in found.items()}


def _convert(name: str, value: object, where: str) -> Any:
    kind = _FIELDS[name]
    try:
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, float) and kind is int:
            raise ValueError
        return kind(value)
    except (ValueError, TypeError):
        wanted = {int: "a whole number", float: "a number"}.get(kind, "text")
        raise Refused(f"invalid value for {where}: {value!r}; it must be {wanted}") from None


_FIELDS: Final[dict[str, Any]] = {
    f.name: Path if isinstance(f.default, Path) else type(f.default)
    for f in fields(ServiceSettings)
}
