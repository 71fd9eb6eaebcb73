"""The parts of the local cloud that need no cloud: what they read, and what they decide."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import botocore.session
import pytest
import yaml

from infra.config.emulated import check_emulated
from localstack.cloud.addresses import AddressBook
from localstack.cloud.balancer import check_free
from localstack.cloud.definitions import ServiceDefinition, task_process
from localstack.cloud.endpoints import IN_LOCALSTACK, IN_MOTO, RUN_HERE, Endpoints
from localstack.cloud.engine import EngineProject, created_resources, provider_settings
from localstack.cloud.scaling import TargetTracking
from localstack.cloud.schedules import minutes_of
from localstack.emulators.credentials import Credentials
from localstack.emulators.server import EmulatorServer, Program, answers_http
from sulina.errors import Refused


def test_the_variables_name_services_as_aws_libraries_do(tmp_path: Path) -> None:
    server = EmulatorServer(tmp_path, Program("none", ("none",), 1, answers_http("/")))
    elsewhere = dict.fromkeys(IN_MOTO, "http://moto")
    endpoints = Endpoints("http://localstack", elsewhere, server, (server,), Credentials())
    session = botocore.session.get_session()

    given = endpoints.variables("http://runner")

    assert given["AWS_ENDPOINT_URL"] == "http://localstack"
    for service in IN_MOTO:
        name = session.get_service_model(service).service_id.upper().replace(" ", "_")
        wanted = "runner" if service in RUN_HERE else "moto"
        assert given[f"AWS_ENDPOINT_URL_{name}"] == f"http://{wanted}", service


def test_a_container_becomes_a_process_with_other_addresses_and_paths(tmp_path: Path) -> None:
    container = {
        "name": "storage",
        "environment": [
            {"name": "SULINA_STORAGE_DATA", "value": "/var/lib/sulina/journal"},
            {"name": "SULINA_STORAGE_PORT", "value": "6660"},
            {"name": "PEER", "value": "http://etcd-1.x.internal:2379,etcd-1.x.internal:23790"},
        ],
    }
    service = ServiceDefinition("storage-1", 1, True, {"containerDefinitions": [container]})
    book = AddressBook({"etcd-1.x.internal:2379": "127.0.0.1:7"})

    made = task_process(service, "storage-1", {6660: 8, 6670: 9}, tmp_path, book, {}, {"A": "b"})

    assert made.command[1:] == ("-m", "storage_grpc", "--json")
    assert made.environment["SULINA_STORAGE_DATA"] == f"{tmp_path}/journal"
    assert made.environment["SULINA_STORAGE_PORT"] == "8"
    assert made.environment["SULINA_STORAGE_METRICS_PORT"] == "9"
    assert made.environment["PEER"] == "http://127.0.0.1:7,etcd-1.x.internal:23790"
    assert made.environment["A"] == "b"


def test_the_engine_gets_a_project_that_can_not_reach_the_real_aws(tmp_path: Path) -> None:
    project = EngineProject(tmp_path / "pulumi", "localstack", "pulumi")

    project.configure(
        {"brokerMin": "1"}, provider_settings("http://127.0.0.1:1", "http://127.0.0.1:3")
    )

    written = yaml.safe_load((tmp_path / "pulumi/project/Pulumi.localstack.yaml").read_text())
    config = written["config"]
    check_emulated({n: v if isinstance(v, str) else json.dumps(v) for n, v in config.items()})
    assert config["aws:httpsProxy"] == "http://127.0.0.1:1"
    assert config["sulina:brokerMin"] == "1"
    assert project.variables["PULUMI_BACKEND_URL"].startswith(f"file://{tmp_path}")


def test_the_engine_s_progress_counts_resources_and_no_components() -> None:
    about = '{"resOutputsEvent":{"metadata":{"op":"create","urn":"urn:a::b","type":"%s"}}}\n'
    kinds = ("aws:sqs/queue:Queue", "sulina:infra:Lake", "pulumi:pulumi:Stack")
    begun = '{"resourcePreEvent":{"metadata":{"op":"create","urn":"urn:a::b"}}}\n'
    output = "".join([begun, *(about % kind for kind in kinds)])

    assert created_resources(output.encode()) == 1


def test_the_stacks_file_finds_each_service_where_the_cloud_has_it() -> None:
    [urls] = provider_settings("http://127.0.0.1:1", "http://127.0.0.1:3")["aws:endpoints"]
    renamed = {"application-autoscaling": "appautoscaling", "emr-serverless": "emrserverless"}
    here = {name for name, url in urls.items() if url.endswith(":1")}
    assert here == set(IN_LOCALSTACK)
    assert urls.keys() - here == {renamed.get(name, name) for name in IN_MOTO}


def test_a_port_in_use_is_told_before_anything_is_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match=f"port {port} of 127.0.0.1 is in use.*--port 0"):
            check_free(port)
    check_free(0)


def test_a_schedule_says_how_many_minutes_are_between_two_calls() -> None:
    assert minutes_of("rate(1 minute)") == 1
    assert minutes_of("rate(2 hours)") == 120
    assert minutes_of("cron(0 3 * * ? *)") == 1_440


def _tracking() -> TargetTracking:
    return TargetTracking(target=0.5, minimum=1, maximum=4, out_minutes=2, in_minutes=15)


def test_brokers_come_after_three_minutes_above_the_target() -> None:
    tracking = _tracking()
    assert [tracking.decide(minute, 0.9, 2) for minute in range(3)] == [2, 2, 4]


def test_no_broker_comes_for_one_busy_minute_or_above_the_maximum() -> None:
    tracking = _tracking()
    assert {tracking.decide(minute, 0.9 if minute % 2 else 0.4, 2) for minute in range(20)} == {2}
    tracking = _tracking()
    assert {tracking.decide(minute, 9.0, 4) for minute in range(5)} == {4}


def test_brokers_go_one_by_one_after_fifteen_quiet_minutes() -> None:
    tracking = _tracking()
    assert [tracking.decide(minute, 0.1, 4) for minute in range(15)] == [4] * 14 + [3]
    assert [tracking.decide(15 + minute, 0.1, 3) for minute in range(15)] == [3] * 14 + [2]


def test_nothing_changes_without_figures_or_before_the_cooldown_is_over() -> None:
    tracking = _tracking()
    assert {tracking.decide(minute, None, 2) for minute in range(20)} == {2}
    tracking.changed = 19
    assert [tracking.decide(20 + part / 10, 0.9, 2) for part in range(3)] == [2, 2, 2]
