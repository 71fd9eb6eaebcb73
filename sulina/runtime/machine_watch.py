"""Watches what a process needs of its machine: file descriptors, the wall clock, certificates.

It also returns memory that the process has freed. Every problem is logged when it begins, and again
at most once per minute (certificates: per day). Metrics read the fields.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sulina.errors import Overloaded, Refused, Unavailable
from sulina.runtime.freed_memory import FreedMemory
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 5.0
_LOG_SECONDS: Final = 60.0
_JUMP_SECONDS: Final = 1.0
"""A wall clock that moves this much more or less than the monotonic one has jumped."""
_READ_SECONDS: Final = 0.2
"""If reading the clocks takes longer, the process was suspended meanwhile, and proves nothing."""
_CERTIFICATE_SECONDS: Final = 60.0
"""How often certificates are read: they are replaced while a process runs."""
_EXPIRES_SOON: Final = 14 * 86_400
_DAY: Final = 86_400.0
_NO_LIMIT: Final = 1 << 30
_RESERVED: Final = 128


@dataclass(frozen=True, slots=True)
class Descriptors:
    """File descriptors of this process."""

    used: int
    limit: int

    @property
    def scarce(self) -> bool:
        """Whether new connections would take those that the process itself needs."""
        return self.used >= self.limit - reserve(self.limit)


def reserve(limit: int) -> int:
    """How many file descriptors are kept for the journal, the metadata and health checks."""
    return min(_RESERVED, limit // 4)


def descriptor_limit() -> int:
    """How many file descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NO_LIMIT if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Allow as many file descriptors as the system's hard limit does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptors() -> Descriptors:
    """How many file descriptors are in use. Without ``/proc``, an estimate from a new one."""
    limit = descriptor_limit()
    try:
        return Descriptors(len(os.listdir("/proc/self/fd")), limit)
    except FileNotFoundError:
        try:
            lowest = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            return Descriptors(limit, limit)
        os.close(lowest)
        return Descriptors(lowest, limit)
    except OSError:
        return Descriptors(limit, limit)  # not even one is left for looking


class MachineWatch:
    """Use as ``async with``: it looks every five seconds meanwhile."""

    def __init__(
        self,
        clock: Clock,
        certificates: Sequence[Path] = (),
        look_at_descriptors: Callable[[], Descriptors] = descriptors,
    ) -> None:
        self._clock = clock
        self._files = tuple(dict.fromkeys(certificates))
        self._look_at_descriptors = look_at_descriptors
        self.descriptors = look_at_descriptors()
        self.scarce_rounds = 0
        """How often descriptors were found to be scarce."""
        self.clock_jumps = 0
        self.last_jump_seconds = 0.0
        """Forward if positive."""
        self.expires: dict[Path, float] = {}
        """When each certificate expires, in seconds since 1970; unreadable ones are left out."""
        self._clocks: tuple[float, float] | None = None
        self._log_from: dict[str, float] = {}
        self._certificates_from = clock.now()
        self._freed = FreedMemory()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> MachineWatch:
        self.look()
        self._task = asyncio.create_task(self._run(), name="machine-watch")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            self.look()
            await self._freed.look()

    def look(self) -> None:
        """Look once; logs what is wrong."""
        self._look_at_clocks()
        self.descriptors = self._look_at_descriptors()
        if self.descriptors.scarce:
            self.scarce_rounds += 1
            self._warn("descriptors", _LOG_SECONDS, self._scarce())
        if self._clock.now() >= self._certificates_from:
            self._certificates_from = self._clock.now() + _CERTIFICATE_SECONDS
            for file in self._files:
                self._look_at_certificate(file)

    async def check_descriptors(self) -> str:
        """A readiness check: raises ``Overloaded`` while descriptors are scarce."""
        self.descriptors = self._look_at_descriptors()
        if self.descriptors.scarce:
            raise Overloaded(self._scarce())
        return "enough are free"

    async def check_certificates(self) -> str:
        """A readiness check: raises ``Unavailable`` if a certificate of this process has expired,
        since clients refuse it."""
        now = self._clock.wall_us() / 1e6
        for file, end in self.expires.items():
            if end <= now:
                raise Unavailable(_expired(file))
        return "none has expired" if self._files else "there are none"

    def _scarce(self) -> str:
        return (
            f"{self.descriptors.used} of {self.descriptors.limit} file descriptors are in use: "
            "new connections are refused; close some, or raise the limit (ulimit -n)"
        )

    def _look_at_clocks(self) -> None:
        before = self._clock.now()
        wall = self._clock.wall_us() / 1e6
        after = self._clock.now()
        if after - before > _READ_SECONDS:
            return
        if self._clocks is not None:
            jump = (wall - self._clocks[0]) - (before - self._clocks[1])
            if abs(jump) >= _JUMP_SECONDS:
                self.clock_jumps += 1
                self.last_jump_seconds = jump
                _log.warning(
                    "the wall clock jumped by %+.1f s: times of records, retention and expiry of "
                    "tokens are affected; check the time service of this machine",
                    jump,
                )
        self._clocks = wall, before

    def _look_at_certificate(self, file: Path) -> None:
        try:
            expires = expiry_of(file.read_bytes())
        except (OSError, Refused) as error:
            self.expires.pop(file, None)
            self._warn(str(file), _DAY, f"the certificate {file} cannot be read: {error}")
            return
        self.expires[file] = expires
        left = expires - self._clock.wall_us() / 1e6
        if left <= 0:
            self._warn(f"{file} expired", _DAY, _expired(file))
        elif left < _EXPIRES_SOON:
            text = f"the certificate {file} expires in {left / _DAY:.1f} days: replace it"
            self._warn(str(file), _DAY, text)

    def _warn(self, what: str, seconds: float, text: str) -> None:
        now = self._clock.now()
        if now >= self._log_from.get(what, now):
            self._log_from[what] = now + seconds
            _log.warning("%s", text)


def _expired(file: Path) -> str:
    return f"the certificate {file} has expired: clients refuse it; replace it now"


_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL
)
_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
_VERSION: Final = 0xA0


def expiry_of(pem: bytes) -> float:
    """When the first certificate of a PEM file expires, in seconds since 1970.

    Raises ``Refused`` if there is none.
    """
    found = _CERTIFICATE.search(pem)
    if found is None:
        raise Refused("it has no certificate: put a PEM file there")
    try:
        _, certificate, _ = _element(base64.b64decode(found[1]))
        _, fields, _ = _element(certificate)
        tag, _, rest = _element(fields)  # the version, which may be missing, or the serial number
        for _ in range(3 if tag == _VERSION else 2):  # serial number, algorithm, issuer
            _, _, rest = _element(rest)
        _, validity, _ = _element(rest)
        _, _, after = _element(validity)
        tag, text, _ = _element(after)
        moment = datetime.strptime(text.decode(), _FORMATS[tag]).replace(tzinfo=UTC)
    except (ValueError, IndexError, KeyError):
        raise Refused("its certificate is damaged: replace it") from None
    return moment.timestamp()


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """The tag and content of the first DER element, and what follows it."""
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start])
    return data[0], data[start : start + length], data[start + length :]
