"""``make deploy-test``: what needs no engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.deploy.command import MISSING, main, shown
from tests.deploy.differences import DIFFERENCES, split
from tests.deploy.engine import Step, events_of, steps_of
from tests.deploy.scenario import Result, at_the_same_time, data_lost, gone_too_early

_MEMBER = "urn:pulumi:dev::sulina::sulina:infra:StorageNodes$sulina:infra:Member$"


def _step(kind: str, name: str, operation: str = "update", began: int = 0, ended: int = 1) -> Step:
    return Step(operation, f"aws:{kind}", name, f"{_MEMBER}aws:{kind}::{name}", (), began, ended)


def test_without_pulumi_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main([]) == MISSING

    assert capsys.readouterr().err == (
        "Pulumi is not installed: get it from https://www.pulumi.com/docs/install/ "
        "and run `pulumi plugin install` here\n"
    )


def test_without_a_plugin_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pulumi = tmp_path / "pulumi"
    pulumi.write_text("#!/bin/sh\necho '[]'\n")
    pulumi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert main([]) == MISSING

    [line] = capsys.readouterr().err.splitlines()
    assert "run `pulumi plugin install resource aws" in line


def test_steps_are_read_from_the_events_of_the_engine() -> None:
    urn = "urn:pulumi:dev::sulina::aws:sqs/queue:Queue::failed"
    about = {
        "op": "update",
        "urn": urn,
        "type": "aws:sqs/queue:Queue",
        "detailedDiff": {"name": {}},
    }
    same = {"op": "same", "urn": "urn:x::y", "type": "aws:sqs/queue:Queue"}
    component = {"op": "create", "urn": "urn:x::z", "type": "sulina:infra:Keys"}
    lines = [
        "Updating (dev):",
        *(
            json.dumps({"resourcePreEvent": {"metadata": each}})
            for each in (same, component, about)
        ),
        json.dumps({"resOutputsEvent": {"metadata": about}}),
    ]

    [step] = steps_of(list(events_of("\n".join(lines))))

    assert (step.name, step.properties, step.began, step.ended) == ("failed", ("name",), 2, 3)
    assert str(step) == "update aws:sqs/queue:Queue failed (name)"


def test_members_that_change_one_after_the_other_are_fine() -> None:
    steps = [
        _step("ec2/instance:Instance", "storage-1", "replace", 0, 1),
        _step("ecs/service:Service", "storage-1", "update", 2, 3),
        _step("ec2/instance:Instance", "storage-2", "replace", 4, 5),
        _step("ec2/instance:Instance", "etcd-1", "replace", 1, 5),
    ]
    assert at_the_same_time(steps) == []


def test_members_that_change_together_are_reported() -> None:
    steps = [
        _step("ec2/instance:Instance", "storage-1", "replace", 0, 3),
        _step("ec2/instance:Instance", "storage-2", "replace", 1, 2),
    ]
    assert at_the_same_time(steps) == ["storage-1 and storage-2 were interrupted at the same time"]


def test_a_load_balancer_that_goes_before_the_next_one_is_reported() -> None:
    kind = "lb/loadBalancer:LoadBalancer"
    made = _step(kind, "clients", "create-replacement", 2, 3)

    assert gone_too_early([_step(kind, "clients", "delete-replaced", 0, 1), made])
    assert not gone_too_early([made, _step(kind, "clients", "delete-replaced", 4, 5)])


def test_a_replaced_volume_is_reported() -> None:
    assert data_lost([_step("ebs/volume:Volume", "storage-1", "replace")])
    assert not data_lost([_step("ebs/volume:Volume", "storage-1", "update")])


def test_a_difference_without_a_reason_is_ours() -> None:
    known = DIFFERENCES[0]
    explained = Step("update", f"aws:{known.kind}", "a", "u", tuple(known.properties), 0, 1)
    more = Step("update", f"aws:{known.kind}", "a", "u", (*known.properties, "other"), 0, 1)

    assert split([explained]) == ([], {known.reason: [explained]})
    assert split([more]) == ([more], {})


def test_a_result_is_shown_with_its_problems_and_reasons() -> None:
    result = Result("dev", "up", 1.25, {"create": 2}, ["wrong"], {"moto forgets it": 3})
    assert shown(result).split("\n") == [
        "dev         up                                              1.2 s  FAILED 2 create",
        "    wrong",
        "    3 x emulator: moto forgets it",
    ]
