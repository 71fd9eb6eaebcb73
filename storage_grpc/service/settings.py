"""What can be set for a storage node: in a TOML file, in the environment, by flags.

A flag wins over the environment (``SULINA_STORAGE_<NAME>``), that over the file, that over the
default. The names are those of the fields: ``journal_file_mb`` is ``--journal-file-mb``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from storage_grpc.journal.settings import JournalSettings
from sulina.errors import Refused
from sulina.runtime.tls_files import TlsFiles

PREFIX: Final = "SULINA_STORAGE_"
CONFIG: Final = "config"
"""The flag, and in capitals the variable, that names the file."""
ANY_CLIENT: Final = "any"
CERTIFICATE: Final = "certificate"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_RESERVE: Final = 32 << 20
_DATA: Final = Path(".sulina/storage")


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """One storage node. Raises ``Refused`` for what makes no sense."""

    data: Path = field(default=_DATA, metadata=_help("the folder of the journal; made if missing"))
    host: str = field(default="127.0.0.1", metadata=_help("the address to listen on"))
    port: int = field(default=6660, metadata=_help("the port; 0 takes one that is free"))
    id: str = field(default="storage-1", metadata=_help("the node's name, its own in the cluster"))
    journal_file_mb: int = field(
        default=256, metadata=_help("how large a file of the journal becomes")
    )
    max_entry_mb: int = field(default=64, metadata=_help("the largest entry that is taken"))
    max_pending_mb: int = field(
        default=64, metadata=_help("how much may wait for the disk before senders are held")
    )
    tier: str = field(
        default="",
        metadata=_help(
            "where closed ledgers are kept as objects: s3://bucket/prefix, file:///folder, "
            "gs://bucket/prefix, redis://host:port/0/prefix; none if empty"
        ),
    )
    tls_cert: str = field(
        default="", metadata=_help("serve TLS with this certificate (PEM, with its chain)")
    )
    tls_key: str = field(
        default="", metadata=_help("the certificate's key (PEM), if it is in a file of its own")
    )
    tls_ca: str = field(
        default="",
        metadata=_help(
            "the authorities (PEM) of other storage nodes, and of clients that are asked for "
            "certificates; those of the machine if empty"
        ),
    )
    tls_clients: str = field(
        default=ANY_CLIENT,
        metadata=_help(f"whom to let in with TLS: {ANY_CLIENT}, or only who has a {CERTIFICATE}"),
    )
    stop_seconds: float = field(
        default=10.0, metadata=_help("how long an orderly stop may take before calls are cut")
    )
    log_level: str = field(
        default="warning", metadata=_help(f"how much to tell: {', '.join(LOG_LEVELS)}")
    )

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise Refused(f"port {self.port} is not possible: choose from 0 to 65535")
        if not _ID.fullmatch(self.id):
            raise Refused(f"{self.id!r} is no name for a node: use letters, digits, '.', '_', '-'")
        if self.log_level not in LOG_LEVELS:
            raise Refused(f"no log_level {self.log_level!r}: choose from {', '.join(LOG_LEVELS)}")
        for name in ("journal_file_mb", "max_entry_mb", "max_pending_mb", "stop_seconds"):
            if getattr(self, name) <= 0:
                raise Refused(f"{name} must be more than 0")
        if self.tls_clients not in (ANY_CLIENT, CERTIFICATE):
            raise Refused(f"tls_clients is {ANY_CLIENT} or {CERTIFICATE}, not {self.tls_clients!r}")
        if self.tls_clients == CERTIFICATE and not self.tls_ca:
            raise Refused(
                "tls_clients = certificate needs tls_ca: the authorities whose certificates count"
            )
        if not self.tls_cert and (self.tls_key or self.tls_ca):
            raise Refused("tls_key and tls_ca mean nothing without tls_cert: name a certificate")
        _ = self.journal

    @property
    def tls(self) -> TlsFiles | None:
        """The files of TLS; None without it."""
        if not self.tls_cert:
            return None
        ca, key = (Path(name) if name else None for name in (self.tls_ca, self.tls_key))
        return TlsFiles(ca, Path(self.tls_cert), key)

    @property
    def journal(self) -> JournalSettings:
        """The same for the journal."""
        file_bytes = self.journal_file_mb << 20
        return JournalSettings(
            file_bytes=file_bytes,
            reserve_bytes=min(_RESERVE, file_bytes),
            max_entry_bytes=self.max_entry_mb << 20,
            max_pending_bytes=self.max_pending_mb << 20,
        )


def load(flags: Mapping[str, object], environment: Mapping[str, str]) -> ServiceSettings:
    """Settings from all three places. A flag that is None was not given.

    Raises ``Refused`` for a file that can't be read, and for unknown names and wrong values.
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
            f"{path} sets {', '.join(unknown)}, which is unknown: there are {', '.join(_FIELDS)}"
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
        raise Refused(f"{where} is {value!r} and should be {wanted}") from None


_FIELDS: Final[dict[str, Any]] = {
    f.name: Path if isinstance(f.default, Path) else type(f.default)
    for f in fields(ServiceSettings)
}
