"""The page of costs: made from the settings, the prices and the graph as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from infra.config.stack_file import example_settings
from infra.cost import prices as p
from infra.cost.estimate import WORKLOADS, CostItem, fixed, sentence, total, used
from infra.cost.page import SAVINGS, page, savings
from localstack.deployment.stack_files import ROOT
from tests.infra.graph import Graph


def test_the_page_is_what_the_script_makes() -> None:
    assert (ROOT / "docs" / "cost.md").read_text() == page(), (
        "make it again with `python -m infra.cost > docs/cost.md`"
    )


def test_other_pages_repeat_the_estimate_of_development() -> None:
    cost = f"{total(example_settings('dev')):,.0f}"
    assert f"about {cost} $ per month" in (ROOT / "README.md").read_text(), "update README.md"


def test_development_costs_less_than_100_dollars_even_where_prices_are_a_sixth_higher() -> None:
    assert total(example_settings("dev")) * 7 / 6 < 100


def test_the_arithmetic_of_brokers_can_be_followed_by_hand() -> None:
    brokers = _fixed("dev")["2 brokers (Fargate, arm64)"]
    assert brokers.arithmetic == (
        "(1 + 1 spot x 0.3) x 730 h x (0.25 vCPU x 0.03238 + 1 GiB x 0.00356)"
    )
    assert round(brokers.dollars, 2) == round(1.3 * 730 * (0.25 * 0.03238 + 1 * 0.00356), 2)


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_every_item_is_counted_as_it_is_made(stack: str, dev: Graph, prod: Graph) -> None:
    graph, items = {"dev": dev, "prod": prod}[stack], _fixed(stack)
    alarms = len(graph.all("cloudwatch/metricAlarm:MetricAlarm"))
    assert items["alarms and metrics"].arithmetic.startswith(f"{alarms} x ")
    interfaces = [
        len(made.inputs["subnetIds"])
        for made in graph.all("ec2/vpcEndpoint:VpcEndpoint")
        if made.inputs["vpcEndpointType"] == "Interface"
    ]
    estimated = items["private endpoints"].dollars if "private endpoints" in items else 0
    assert estimated == pytest.approx(sum(interfaces) * p.HOURS * p.ENDPOINT_HOUR)
    keys = len(graph.all("kms/key:Key"))
    secrets = len(graph.all("secretsmanager/secret:Secret"))
    kept = items["keys, secrets, private zone"].arithmetic
    assert kept == f"{keys} x 1 + {secrets} x 0.4 + 0.5"
    machines = graph.all("ec2/instance:Instance")
    hours = sum(p.MACHINES[made.inputs["instanceType"]] for made in machines)
    roots = sum(made.inputs["rootBlockDevice"]["volumeSize"] for made in machines)
    volumes = sum(made.inputs["size"] for made in graph.all("ebs/volume:Volume"))
    addresses = sum(made.inputs["associatePublicIpAddress"] for made in machines)
    assert sum(
        each.dollars
        for name, each in items.items()
        if re.search(r"nodes?|members?|disks|volumes \(|NAT", name)
    ) == pytest.approx(
        p.HOURS * (hours + addresses * p.PUBLIC_ADDRESS_HOUR) + (roots + volumes) * p.GP3_GIB
    )


def test_each_saving_saves_something_and_is_the_difference_that_it_shows() -> None:
    for stack, choices in SAVINGS.items():
        found = list(savings(stack))
        assert len(found) == len(choices) + 2
        for item in found:
            assert item.dollars > 0
        for item, (_, without) in zip(found, choices, strict=False):
            assert item.dollars == pytest.approx(
                total(example_settings(stack, without)) - total(example_settings(stack))
            )


def test_a_preview_tells_the_estimate_and_the_stack_keeps_it(dev: Graph) -> None:
    told, settings = dev.outputs["monthlyCost"], example_settings("dev", {"prometheus": "true"})
    assert told == sentence(settings)
    assert told in dev.said
    assert told.startswith(f"estimated cost: ${total(settings):,.0f} per month, ")
    assert f"| **total** | | **{total(example_settings('dev')):,.0f}** |" in page()


def test_a_machine_without_a_price_and_a_stack_without_a_workload_are_estimated_too() -> None:
    settings = example_settings("dev", {"storageInstance": "r7g.large"})
    lines = [each.arithmetic for each in fixed(settings)]
    assert "3 x 730 h x a price that infra/cost/prices.py lacks" in lines
    other = sentence(replace(settings, stack="mine"))
    assert other.endswith("and what its load costs (docs/cost.md)")
    assert "per month" in sentence(example_settings("localstack"))


def test_a_stack_can_be_estimated_from_the_command_line() -> None:
    def run(stack: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "infra.cost", stack]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert "| **total** |" in run("dev").stdout
    missing = run("nowhere")
    assert missing.returncode == 1
    assert missing.stderr.startswith("Pulumi.nowhere.yaml does not exist: ")


def test_twice_the_load_costs_twice_the_traffic() -> None:
    settings, work = example_settings("prod"), WORKLOADS["prod"]

    def traffic(mib_s: float) -> float:
        changed = replace(work, mib_s=mib_s)
        return next(i.dollars for i in used(settings, changed) if i.name == "traffic between zones")

    assert round(traffic(20), 6) == round(2 * traffic(10), 6)


def test_every_line_has_its_arithmetic() -> None:
    lines = re.findall(r"^\| [^*|]+ \| ([^|]*) \| [\d.,]+ \|$", page(), re.MULTILINE)
    assert len(lines) > 30
    assert all(re.search(r"[x+-]", line) for line in lines)


def _fixed(stack: str) -> dict[str, CostItem]:
    found: dict[str, CostItem] = {}
    for each in fixed(example_settings(stack)):
        name = each.name if each.name not in found else f"{each.name} of etcd"
        found[name] = each
    return found
