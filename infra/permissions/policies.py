"""Turns the tables of this folder into policies that are short enough for IAM.

Actions under the same conditions on the same resources become one statement.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from infra.permissions.cluster import CLUSTER
from infra.permissions.data import DATA
from infra.permissions.functions import FUNCTIONS
from infra.permissions.machines import MACHINES
from infra.permissions.names import NAMES
from infra.permissions.needs import Conditions, Needs
from infra.permissions.network import NETWORK

TABLES: Final[dict[str, Needs]] = {
    "network": NETWORK,
    "names": NAMES,
    "machines": MACHINES,
    "cluster": CLUSTER,
    "data": DATA,
    "functions": FUNCTIONS,
}
"""The policies by name. Their files are in the folder ``policies``."""
LIMIT: Final = 6_144
"""The most characters, without white space, that IAM accepts in a managed policy."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where the policies apply; the defaults are all stacks, regions and accounts."""

    stack: str = "*"
    region: str = "*"
    account: str = "*"

    def of(self, arn: str) -> str:
        """An ARN of the tables, with its blanks filled."""
        prefix = f"sulina-{self.stack}"
        return arn.format(
            prefix=prefix,
            underscored=prefix.replace("-", "_"),
            region=self.region,
            account=self.account,
        ).replace("**", "*")


def policy(name: str, scope: Scope) -> dict[str, Any]:
    """The document of one policy."""
    return {"Version": "2012-10-17", "Statement": list(_statements(TABLES[name], scope))}


def text(document: dict[str, Any]) -> str:
    """A document as a file's content."""
    return json.dumps(document, indent=1) + "\n"


def _statements(table: Needs, scope: Scope) -> Iterable[dict[str, Any]]:
    actions: dict[tuple[tuple[str, ...], str], set[str]] = defaultdict(set)
    for need in (each for needs in table.values() for each in needs):
        when = json.dumps(need.when, sort_keys=True)
        actions[tuple(sorted(need.resources)), when].update(need.actions)
    conditions: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Conditions]] = defaultdict(list)
    for (resources, when), found in actions.items():
        conditions[resources, tuple(sorted(found))].append(json.loads(when))
    for (resources, listed), alternatives in sorted(conditions.items()):
        for each in _merged(alternatives):
            yield {
                "Effect": "Allow",
                "Action": list(listed),
                "Resource": [scope.of(arn) for arn in resources],
                **({"Condition": each} if each else {}),
            }


def _merged(alternatives: list[Conditions]) -> list[Conditions]:
    """Conditions of which one must hold, those that differ in one value as one with a list."""
    services: dict[str, list[str]] = defaultdict(list)
    others: list[Conditions] = []
    for each in alternatives:
        key = next(iter(each.get("StringEquals", {})), "")
        if key in ("iam:PassedToService", "iam:AWSServiceName"):
            services[key].append(str(each["StringEquals"][key]))
        else:
            others.append(each)
    return [*others, *({"StringEquals": {key: sorted(found)}} for key, found in services.items())]
