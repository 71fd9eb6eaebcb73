"""The emulators that other tests stand on do what those tests rely on."""

from __future__ import annotations

import socket
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from localstack.emulators.credentials import Credentials
from localstack.emulators.s3 import s3_client
from localstack.emulators.seaweedfs import READER, running_seaweedfs
from localstack.emulators.server import EmulatorServer, Program, answers_http, free_ports
from localstack.environments import main as make_environments
from sulina.errors import Refused, Unavailable


@pytest.mark.parametrize("name", ["seaweedfs", "localstack", "moto"])
def test_an_s3_server_keeps_what_it_is_given(name: str, request: pytest.FixtureRequest) -> None:
    server: EmulatorServer = request.getfixturevalue(name)
    client = s3_client(server.url, server.credentials)

    client.create_bucket(Bucket="kept")
    client.put_object(Bucket="kept", Key="a/b", Body=b"hello")

    assert client.get_object(Bucket="kept", Key="a/b")["Body"].read() == b"hello"


def test_seaweedfs_checks_who_asks(seaweedfs: EmulatorServer) -> None:
    s3_client(seaweedfs.url, seaweedfs.credentials).create_bucket(Bucket="guarded")

    for stranger in (READER, Credentials("sulina", "wrong")):
        with pytest.raises(ClientError, match=r"AccessDenied|SignatureDoesNotMatch"):
            s3_client(seaweedfs.url, stranger).put_object(Bucket="guarded", Key="k", Body=b"")


@pytest.mark.slow
def test_seaweedfs_keeps_objects_when_it_is_killed(tmp_path: Path) -> None:
    with running_seaweedfs(tmp_path) as server:
        client = s3_client(server.url, server.credentials)
        client.create_bucket(Bucket="lasting")
        client.put_object(Bucket="lasting", Key="k", Body=b"x" * 100_000)

        server.kill()
        server.start()

        assert client.get_object(Bucket="lasting", Key="k")["Body"].read() == b"x" * 100_000


def test_redis_answers(redis: EmulatorServer) -> None:
    with socket.create_connection(("127.0.0.1", redis.port), timeout=10) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(16) == b"+PONG\r\n"


def test_a_server_that_ends_says_why(tmp_path: Path) -> None:
    command = ("/bin/sh", "-c", "echo no such disk >&2; exit 3")
    program = Program("weak", command, free_ports(1)[0], answers_http("/"))

    with (
        pytest.raises(Unavailable, match="weak exited: no such disk"),
        EmulatorServer(tmp_path, program),
    ):
        pytest.fail("it was said to run")


def test_a_server_that_is_not_ready_in_time_is_not_left_behind(tmp_path: Path) -> None:
    program = Program("idle", ("/bin/sleep", "1000"), free_ports(1)[0], answers_http("/"))
    server = EmulatorServer(tmp_path, program)

    with pytest.raises(Unavailable, match="idle was not ready in 0 s"):
        server.start(seconds=0)
    server.kill()

    assert not server.running


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = Program("late", ("/bin/sleep", "1000"), port, answers_http("/"))

        with pytest.raises(Refused, match=f"port {port} of 127.0.0.1 is not available"):
            EmulatorServer(tmp_path, program).start()


def test_an_environment_without_a_lock_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_environments(["nowhere"]) == 2
    assert "requirements/nowhere.lock does not exist" in capsys.readouterr().err


def test_localstack_makes_keys(localstack: EmulatorServer) -> None:
    kms = boto3.client(
        "kms",
        endpoint_url=localstack.url,
        region_name=localstack.credentials.region,
        aws_access_key_id=localstack.credentials.access_key,
        aws_secret_access_key=localstack.credentials.secret_key,
    )

    key = kms.create_key()["KeyMetadata"]["KeyId"]
    sealed = kms.encrypt(KeyId=key, Plaintext=b"hello")["CiphertextBlob"]

    assert kms.decrypt(CiphertextBlob=sealed)["Plaintext"] == b"hello"
