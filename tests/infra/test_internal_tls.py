"""TLS inside the deployment: who shows what, who can read it, and that etcd works with it."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509

from localstack.deployment.inputs import _SECRET, plain
from localstack.emulators.server import free_ports
from storage_grpc.container.secret_files import write
from sulina.errors import Unavailable
from sulina.metadata.etcd import EtcdSettings, EtcdStore
from sulina.metadata.etcd.server import find_etcd
from sulina.runtime.real_clock import RealClock
from sulina.runtime.tls_files import TlsFiles
from tests.infra.graph import Graph

MEMBERS = [f"{kind}-{number}" for kind in ("etcd", "storage") for number in (1, 2, 3)]
_READY = "ready to serve client requests"


def files_of(graph: Graph, part: str) -> dict[str, str]:
    """What is in a part's secret."""
    version = graph.one("secretsmanager/secretVersion:SecretVersion", f"internal-{part}")
    found: dict[str, str] = json.loads(plain(version.inputs["secretString"]))
    return found


@pytest.mark.parametrize("part", [*MEMBERS, "broker"])
def test_a_part_has_a_certificate_of_the_cluster_for_its_own_name(
    prod: Graph, part: str, tmp_path: Path
) -> None:
    files = files_of(prod, part)
    for name, text in files.items():
        (tmp_path / f"{name}.pem").write_text(text)
    shown = TlsFiles(*(tmp_path / f"{name}.pem" for name in files))
    shown.context()  # the key belongs to the certificate
    certificate = x509.load_pem_x509_certificate(files["certificate"].encode())
    authority = x509.load_pem_x509_certificate(files["authorities"].encode())
    certificate.verify_directly_issued_by(authority)
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert len(list(uses)) == 2  # members are servers, and clients of each other
    if part == "broker":
        return
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    address = prod.one("ec2/instance:Instance", part).inputs["privateIp"]
    assert names.get_values_for_type(x509.DNSName) == [f"{part}.prod.sulina.internal"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == [address]
    [broker] = [
        each["value"]
        for each in prod.container("broker")["environment"]
        if each["name"] == "SULINA_BROKER_" + ("ETCD" if "etcd" in part else "STORAGE_NODE")
    ]
    assert f"{part}.prod.sulina.internal" in broker


def test_keys_are_nowhere_in_plain_text(prod: Graph, emulated: Graph) -> None:
    for graph in (prod, emulated):
        for made in graph.resources:
            for text in _plain_texts(made.inputs):
                assert "PRIVATE KEY" not in text, str(made)
        assert "PRIVATE KEY" not in json.dumps(graph.outputs)


def _plain_texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if _SECRET not in value:  # else Pulumi keeps it encrypted
            for inner in value.values():
                yield from _plain_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _plain_texts(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_starts_when_its_own_certificates_are_written(prod: Graph, member: str) -> None:
    own, *beside = prod.containers(member)
    [writer] = [each for each in beside if each["name"] == "certificates"]
    assert own["dependsOn"] == [{"containerName": "certificates", "condition": "SUCCESS"}]
    secret = prod.one("secretsmanager/secret:Secret", f"internal-{member}").arn
    handed = {each["name"]: each["valueFrom"] for each in writer["secrets"]}
    assert handed == {
        # A version of the secret: new certificates start the member anew.
        f"SULINA_FILE_{name.upper()}": f"{secret}:{name}::version-1"
        for name in ("authorities", "certificate", "key")
    }
    mounted = {each["sourceVolume"]: each["containerPath"] for each in own["mountPoints"]}
    assert mounted["certificates"] == writer["mountPoints"][0]["containerPath"] == "/run/sulina"


def test_what_is_handed_to_the_writer_is_where_members_look_for_it(
    prod: Graph, tmp_path: Path
) -> None:
    writer = prod.containers("etcd-1")[-1]
    written = write(tmp_path, {each["name"]: "text" for each in writer["secrets"]})
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in written)
    names = {f"/run/sulina/{path.name}" for path in written}
    command = prod.container("etcd-1")["command"]
    assert {each.partition("=")[2] for each in command if each.endswith(".pem")} == names
    environment = prod.environment("storage-1").values()
    assert {each for each in environment if each.endswith(".pem")} == names


def test_dev_may_do_without(dev: Graph) -> None:
    assert not [made for made in dev.resources if made.kind.startswith("tls:")]
    assert "http://" in dev.environment("broker")["SULINA_BROKER_ETCD"]
    assert [each["name"] for each in dev.containers("etcd-1")] == ["etcd", "watch"]
    assert not any("cert" in option for option in dev.container("etcd-1")["command"])
    assert not any("TLS" in name for name in dev.environment("storage-1"))


def test_two_authorities_are_trusted_while_one_is_replaced(
    graph_of: Callable[[str], Graph],
) -> None:
    graph = graph_of("public")
    files = files_of(graph, "storage-1")
    found = x509.load_pem_x509_certificates(files["authorities"].encode())
    names = [each.subject.rfc4514_string() for each in found]
    assert names == ["CN=sulina-prod internal new", "CN=sulina-prod internal 1"]
    certificate = x509.load_pem_x509_certificate(files["certificate"].encode())
    certificate.verify_directly_issued_by(found[0])


def test_a_member_of_etcd_without_tls_starts(dev: Graph, tmp_path: Path) -> None:
    places = _Places(1)
    command = places.here(dev.container("etcd-1")["command"], 1, "dev", tmp_path)
    with _running(command) as member:
        _wait_ready(member)
    assert (tmp_path / "etcd" / "member").is_dir()


async def test_members_of_etcd_start_one_by_one_and_speak_tls_to_everybody(
    prod: Graph, tmp_path: Path
) -> None:
    """With the commands of prod, but for names and ports: those of this machine."""
    authority = trustme.CA()
    shown = authority.issue_cert("127.0.0.1")
    for name, text in (
        ("authorities", authority.cert_pem.bytes()),
        ("certificate", shown.cert_chain_pems[0].bytes()),
        ("key", shown.private_key_pem.bytes()),
    ):
        (tmp_path / f"{name}.pem").write_bytes(text)
    places = _Places(3)
    with ExitStack() as running:
        first, *others = (
            places.here(
                [
                    each.replace("/run/sulina", str(tmp_path))
                    for each in prod.container(f"etcd-{number}")["command"]
                ],
                number,
                "prod",
                tmp_path / str(number),
            )
            for number in (1, 2, 3)
        )
        check = prod.container("etcd-1")["healthCheck"]["command"]

        def healthy() -> bool:
            command = [each.replace("/run/sulina", str(tmp_path)) for each in check[1:]]
            return places.succeeds(command, 1, "prod")

        alone = running.enter_context(_running(first))
        _wait_for(alone, "starting to listen for peer", "serving peer traffic")
        assert alone.poll() is None
        assert not healthy()
        joined = [running.enter_context(_running(command)) for command in others]
        _wait_ready(alone)
        assert healthy()
        files = TlsFiles(
            *(tmp_path / f"{name}.pem" for name in ("authorities", "certificate", "key"))
        )
        url = f"https://127.0.0.1:{places.clients[0]}"
        store = await EtcdStore.open(EtcdSettings.parse(url, tls=files), RealClock())
        assert await store.put("/a", b"1")
        await store.close()
        with pytest.raises(ssl.SSLError):
            _hello_without_certificate(places.clients[0], files)
        for member in joined:
            member.kill()
            member.wait()
        assert healthy()  # or ECS would restart the member that is left


class _Places:
    """Ports of this machine for members, instead of names in the deployment's network."""

    def __init__(self, count: int) -> None:
        ports = free_ports(2 * count)
        self.clients, self._peers = ports[:count], ports[count:]

    def here(self, command: Sequence[str], number: int, stack: str, folder: Path) -> list[str]:
        """A member's command with places of this machine, and its data below ``folder``."""
        options = self._translated(command[1:], number, stack)
        local = [each.replace("/var/lib/sulina", str(folder)) for each in options]
        return [str(_etcd()), *local, "--unsafe-no-fsync"]

    def succeeds(self, command: Sequence[str], number: int, stack: str) -> bool:
        """Whether a command of etcd's client succeeds at a member."""
        program = _etcd().with_name(command[0])
        done = subprocess.run(
            [program, *self._translated(command[1:], number, stack)],
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    def _translated(self, options: Sequence[str], number: int, stack: str) -> list[str]:
        text = "\n".join(options)
        for other, port in enumerate(self._peers, 1):
            text = text.replace(f"etcd-{other}.{stack}.sulina.internal:2380", f"127.0.0.1:{port}")
        for place, mine in (
            (
                f"etcd-{number}.{stack}.sulina.internal:2379",
                f"127.0.0.1:{self.clients[number - 1]}",
            ),
            ("0.0.0.0:2379", f"127.0.0.1:{self.clients[number - 1]}"),
            ("0.0.0.0:2380", f"127.0.0.1:{self._peers[number - 1]}"),
        ):
            text = text.replace(place, mine)
        return text.split("\n")


def _etcd() -> Path:
    try:
        return Path(find_etcd())
    except Unavailable as error:
        pytest.skip(str(error))


@contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    Path(next(each for each in command if "data-dir" in each).partition("=")[2]).parent.mkdir(
        exist_ok=True
    )
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as member:
        try:
            yield member
        finally:
            member.kill()


def _wait_ready(member: subprocess.Popen[str]) -> None:
    _wait_for(member, _READY)


def _wait_for(member: subprocess.Popen[str], *words: str) -> None:
    assert member.stdout is not None
    said = []
    for line in member.stdout:
        said.append(line)
        if any(each in line for each in words):
            return
    pytest.fail("".join(said))


def _hello_without_certificate(port: int, files: TlsFiles) -> None:
    context = TlsFiles(files.ca).context()
    with (
        socket.create_connection(("127.0.0.1", port), 30) as plain_socket,
        context.wrap_socket(plain_socket, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        secure.recv(1)
