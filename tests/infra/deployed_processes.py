"""The servers of a stack as processes of this machine: etcd, storage nodes and brokers.

They have the commands, variables and certificates that the stack gives to their containers, except
for places: ports of the loopback instead of names in the deployment's network. Members get
certificates of the stack's authority for the loopback; brokers, which are known by their name and
not by their address, those that the stack issued.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from localstack.deployment.certificates import MAKERS
from localstack.deployment.inputs import plain
from localstack.emulators.server import free_ports
from tests.infra.graph import Graph
from tests.infra.test_internal_tls import _Places, _running, _wait_ready, files_of

ROOT_TOKEN = "the root token of this deployment"
FILES = ("authorities", "certificate", "key")
_NODES = ("storage-1", "storage-2", "storage-3")
_REQUEST = "tls:index/certRequest:CertRequest"
_SIGNED = "tls:index/locallySignedCert:LocallySignedCert"


class DeployedProcesses:
    """Use as ``with``; ``brokers`` then has what each broker printed when it was ready."""

    def __init__(self, graph: Graph, folder: Path, client_authorities: str) -> None:
        self._graph = graph
        self._folder = folder
        self._stack = ExitStack()
        self._client_authorities = client_authorities
        self.domain = graph.outputs["url"].split("//")[1].split(":")[0]
        self.shared_name = graph.environment("broker")["SULINA_BROKER_SHARED_NAME"]
        self.storage_ports = free_ports(len(_NODES))
        self.environments: dict[str, dict[str, str]] = {}
        self.brokers: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._stack = stack
            etcd = self._etcd()
            starting = [self._node(*each) for each in zip(_NODES, self.storage_ports, strict=True)]
            for process in starting:
                _event(process)
            ports = {name: free_ports(4) for name in ("broker-1", "broker-2")}
            behind = ports["broker-1"]
            begun = {name: self._broker(name, each, etcd, behind) for name, each in ports.items()}
            self.brokers = {name: _event(process) for name, process in begun.items()}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def url(self, host: str, broker: str = "broker-1") -> str:
        """The URL of a broker, for clients that know it by ``host``."""
        return f"sulina+tls://{host}@127.0.0.1:{self.brokers[broker]['port']}"

    def _etcd(self) -> str:
        """Start one member; returns its URL."""
        places = _Places(3)
        own = self._certificates("etcd-1")
        command = places.here(
            [each.replace("/run/sulina", str(own)) for each in self._command("etcd-1")],
            1,
            self._graph.environment("broker")["SULINA_BROKER_SHARED_NAME"].split(".")[1],
            self._folder / "etcd",
        )
        alone = [_only_member(each) for each in command]
        _wait_ready(self._stack.enter_context(_running(alone)))
        return f"https://127.0.0.1:{places.clients[0]}"

    def _command(self, member: str) -> Sequence[str]:
        found: list[str] = self._graph.container(member)["command"]
        return found

    def _node(self, name: str, port: int) -> subprocess.Popen[str]:
        own = self._certificates(name)
        environment = {
            variable: value.replace("/run/sulina", str(own))
            for variable, value in self._graph.environment(name).items()
        } | {
            "SULINA_STORAGE_HOST": "127.0.0.1",
            "SULINA_STORAGE_PORT": str(port),
            "SULINA_STORAGE_DATA": str(self._folder / name),
            "SULINA_STORAGE_TIER": "",
        }
        return self._start(["-m", "storage_grpc", "--json"], environment)

    def _broker(
        self, name: str, ports: Sequence[int], etcd: str, behind: Sequence[int]
    ) -> subprocess.Popen[str]:
        """The load balancer's addresses lead to the ports ``behind``."""
        files = files_of(self._graph, "broker")
        given = {
            each["name"]: files.get(each["valueFrom"].split(":")[-3], ROOT_TOKEN)
            for each in self._graph.container("broker")["secrets"]
        }
        nodes = zip(_NODES, self.storage_ports, strict=True)
        binary, http, grpc, admin = map(str, ports)
        environment = {
            **self._graph.environment("broker"),
            **given,
            "SULINA_BROKER_ID": name,
            "SULINA_BROKER_HOST": "127.0.0.1",
            "SULINA_BROKER_PORT": binary,
            "SULINA_BROKER_HTTP_PORT": http,
            "SULINA_BROKER_GRPC_PORT": grpc,
            "SULINA_BROKER_ADMIN_PORT": admin,
            "SULINA_BROKER_ETCD": etcd,
            "SULINA_BROKER_STORAGE_NODE": ",".join(f"{n}=127.0.0.1:{port}" for n, port in nodes),
            "SULINA_BROKER_PROXY": f"sulina+tls://{self.domain}@127.0.0.1:{behind[0]}",
            "SULINA_BROKER_TLS_CLIENT_CA": self._client_authorities,
        }
        self.environments[name] = environment
        return self._start(["-m", "broker_containers.container"], environment)

    def _certificates(self, member: str) -> Path:
        """A folder with a member's files, for the loopback."""
        request = _inputs(self._graph, _REQUEST, member) | {"ipAddresses": ["127.0.0.1"]}
        signed = _inputs(self._graph, _SIGNED, member) | MAKERS[_REQUEST](request)
        files = files_of(self._graph, member) | {"certificate": MAKERS[_SIGNED](signed)["certPem"]}
        folder = self._folder / "tls" / member
        folder.mkdir(parents=True)
        for name in FILES:
            (folder / f"{name}.pem").write_text(files[name])
        return folder

    def _start(
        self, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
            cwd=self._folder,
        )

        def stop() -> None:
            process.kill()
            process.communicate()

        self._stack.callback(stop)
        return process


def _inputs(graph: Graph, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = plain(graph.one(kind, name).inputs)
    return found


def _event(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a process prints when it is ready. Blocks until then."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"{process.args!r} ended with {process.wait()}"
    found: dict[str, Any] = json.loads(line)
    return found


def _only_member(option: str) -> str:
    """An option of etcd for a cluster of one member."""
    return option.partition(",")[0] if option.startswith("--initial-cluster=") else option
