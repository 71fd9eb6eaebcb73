"""The page of costs: made from the settings, the prices and the graph as they are."""

from __future__ import annotations

import re

from infra.cost.estimate import WORKLOADS, fixed, page, stack_settings_of, used
from localstack.deployment.stack_files import ROOT
from tests.infra.graph import Graph


def test_the_page_is_what_the_script_makes() -> None:
    assert (ROOT / "docs" / "cost.md").read_text() == page(), (
        "make it again with `python -m infra.cost.estimate > docs/cost.md`"
    )


def test_the_arithmetic_of_brokers_can_be_followed_by_hand() -> None:
    brokers = next(iter(fixed(stack_settings_of("dev"))))
    assert brokers.arithmetic == "2 x 730 h x (0.5 vCPU x 0.03238 + 2 GiB x 0.00356)"
    assert round(brokers.dollars, 2) == round(2 * 730 * (0.5 * 0.03238 + 2 * 0.00356), 2)


def test_alarms_and_endpoints_are_counted_as_they_are_made(prod: Graph) -> None:
    items = {each.name: each.arithmetic for each in fixed(stack_settings_of("prod"))}
    alarms = len(prod.all("cloudwatch/metricAlarm:MetricAlarm"))
    assert items["alarms and metrics"].startswith(f"{alarms} x ")
    interfaces = [
        made
        for made in prod.all("ec2/vpcEndpoint:VpcEndpoint")
        if made.inputs["vpcEndpointType"] == "Interface"
    ]
    assert items["private endpoints"].startswith(f"{len(interfaces)} services x 3 zones")


def test_twice_the_load_costs_twice_the_traffic() -> None:
    settings, work = stack_settings_of("prod"), WORKLOADS["prod"]

    def traffic(mib_s: float) -> float:
        changed = type(work)(
            mib_s,
            work.fan_out,
            work.lake_days,
            work.ratio,
            work.object_mib,
            work.job_hours,
            work.log_gib,
        )
        return next(i.dollars for i in used(settings, changed) if i.name == "traffic between zones")

    assert round(traffic(20), 6) == round(2 * traffic(10), 6)


def test_every_line_has_its_arithmetic() -> None:
    lines = re.findall(r"^\| [^*|]+ \| ([^|]*) \| [\d.,]+ \|$", page(), re.MULTILINE)
    assert len(lines) > 30
    assert all(re.search(r"[x+]", line) for line in lines)
