"""A disk that fills, a certificate that ends: from the line in the log to the alarm."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from localstack.deployment.stack_files import ROOT
from storage_grpc.container.member_watch import (
    CERTIFICATE,
    DISK,
    certificate_expiry,
    measurement,
    used_percent,
)
from tests.infra.graph import Graph

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def test_a_line_says_how_full_the_disk_of_a_folder_is(tmp_path: Path) -> None:
    told = json.loads(measurement(str(tmp_path), "sulina-prod", "etcd-1"))
    assert told == {
        "cluster": "sulina-prod",
        "member": "etcd-1",
        DISK: pytest.approx(used_percent(str(tmp_path)), abs=5),
    }
    *_, shown = subprocess.check_output(["df", "-P", tmp_path], text=True).splitlines()
    assert told[DISK] == pytest.approx(int(shown.split()[4].rstrip("%")), abs=3)


@pytest.mark.parametrize("kind", ["etcd", "storage"])
def test_the_line_becomes_a_figure_and_the_figure_an_alarm(prod: Graph, kind: str) -> None:
    made = prod.one("cloudwatch/logMetricFilter:LogMetricFilter", f"{kind}-disk").inputs
    figure = made["metricTransformation"]
    told = json.loads(measurement("/", "sulina-prod", f"{kind}-1"))
    assert made["logGroupName"] == f"/sulina-prod/{kind}"
    assert made["pattern"] == f"{{ $.{DISK} >= 0 }}"
    assert figure["value"] == f"$.{DISK}"
    filled = {name: told[field[2:]] for name, field in figure["dimensions"].items()}
    alarm = prod.one("cloudwatch/metricAlarm:MetricAlarm", f"{kind}-1-disk").inputs
    assert alarm["dimensions"] == filled
    assert (alarm["namespace"], alarm["metricName"]) == (figure["namespace"], figure["name"])
    assert (alarm["threshold"], alarm["comparisonOperator"]) == (80, "GreaterThanThreshold")
    assert alarm["treatMissingData"] == "breaching"


def test_the_certificate_that_ends_first_becomes_an_alarm(prod: Graph, dev: Graph) -> None:
    for kind in ("etcd", "storage"):
        name = f"{kind}-certificates"
        figure = prod.one("cloudwatch/logMetricFilter:LogMetricFilter", name).inputs
        assert figure["metricTransformation"]["value"] == f"$.{CERTIFICATE}"
        assert figure["metricTransformation"]["dimensions"] == {"Cluster": "$.cluster"}
    alarm = prod.one("cloudwatch/metricAlarm:MetricAlarm", "certificates-old").inputs
    assert alarm["metricName"] == figure["metricTransformation"]["name"]
    assert alarm["dimensions"] == {"Cluster": "sulina-prod"}
    assert (alarm["statistic"], alarm["threshold"]) == ("Minimum", 90)
    assert len(dev.all("cloudwatch/logMetricFilter:LogMetricFilter")) == 2


def test_whoever_measures_sees_the_members_volume_and_certificate_and_writes_to_its_log(
    prod: Graph,
) -> None:
    for kind in ("etcd", "storage"):
        own, *beside = prod.containers(f"{kind}-2")
        [measuring] = [each for each in beside if each["name"] == "watch"]
        volume, cluster, member, *files = measuring["command"]
        assert (volume, cluster, member) == ("/var/lib/sulina", "sulina-prod", f"{kind}-2")
        assert files == ["/run/sulina/certificate.pem", "/run/sulina/key.pem"]
        assert measuring["mountPoints"] == [
            {**each, "readOnly": True} for each in own["mountPoints"]
        ]
        assert measuring["dependsOn"] == own["dependsOn"]
        assert measuring["logConfiguration"] == own["logConfiguration"]
        assert measuring["restartPolicy"]["enabled"]


def test_days_are_counted_to_the_end_of_the_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    end = datetime.now(UTC) + timedelta(days=100, hours=1)
    for name, at, days in (("good", end, 100), ("ended", end - timedelta(days=101), 0)):
        made = authority.issue_cert("storage-1.example", not_after=at, not_before=LONG_AGO)
        files = [str(tmp_path / f"{name}.{part}") for part in ("pem", "key")]
        made.cert_chain_pems[0].write_to_path(files[0])
        made.private_key_pem.write_to_path(files[1])
        assert json.loads(measurement(str(tmp_path), "c", "m", files))[CERTIFICATE] == days
        if days:
            assert certificate_expiry(*files) == int(at.timestamp())


def test_it_tells_at_once_and_ends_when_it_is_asked_to(prod: Graph, tmp_path: Path) -> None:
    disk = next(each for each in prod.containers("etcd-1") if each["name"] == "watch")
    place, *names = disk["command"][:3]
    assert place == "/var/lib/sulina"
    command = [sys.executable, *disk["entryPoint"][1:], str(tmp_path), *names]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        process.terminate()
    assert (told["cluster"], told["member"]) == ("sulina-prod", "etcd-1")
    assert process.returncode == 0


def test_a_folder_that_is_not_there_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "storage_grpc.container.member_watch", "/nowhere/at/all", "c", "m"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "m can't be measured" in done.stderr
