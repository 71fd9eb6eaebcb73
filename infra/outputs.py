"""What `pulumi stack output` shows: addresses and names to paste into commands."""

from __future__ import annotations

from typing import Any

import pulumi

from infra import ports
from infra.analytics import Analytics
from infra.balancer import Balancer
from infra.brokers import Brokers
from infra.catalogue import Catalogue
from infra.functions import Functions
from infra.ground import Ground
from infra.lake import LakeBuckets

Outputs = dict[str, pulumi.Input[Any]]


def lake_outputs(lake: LakeBuckets) -> Outputs:
    """Where the ledgers are."""
    return {"lakeBucket": lake.lake.name, "lakeUrl": lake.url, "workBucket": lake.work.name}


def cluster_outputs(ground: Ground, brokers: Brokers, balancer: Balancer) -> Outputs:
    """How clients connect, and where images are pushed to."""
    keys, repositories = ground.keys, ground.images.repositories
    url = balancer.url(ports.BINARY)
    found: Outputs = {
        "url": url,
        "danubeUrl": balancer.url(ports.GRPC),
        "httpUrl": balancer.url(ports.HTTP),
        "connect": pulumi.Output.concat(
            "export SULINA_URL=",
            url,
            " SULINA_TOKEN=$(aws secretsmanager get-secret-value --secret-id ",
            keys.token.name,
            " --query SecretString --output text)",
        ),
        "tokenSecret": keys.token.name,
        "cluster": ground.containers.cluster.name,
        "service": brokers.service.name,
        "repositories": {
            image: repository.repository_url for image, repository in repositories.items()
        },
    }
    if not ground.settings.endpoint.public:
        found["adminUrl"] = balancer.url(ports.ADMIN)
    return found


def analytics_outputs(catalogue: Catalogue, analytics: Analytics) -> Outputs:
    """What queries and jobs are started with."""
    return {
        "glueTable": f"{catalogue.database_name}.{catalogue.table_name}",
        "athenaWorkgroup": catalogue.workgroup.name,
        "emrApplication": analytics.application.id,
        "jobRole": analytics.role.arn,
    }


def function_outputs(functions: Functions) -> Outputs:
    """The functions by name, and the URL of the one that has one."""
    return {
        "discovery": functions.url.function_url,
        "functions": {name: each.name for name, each in functions.all.items()},
        "failedCalls": functions.failed.url,
    }
