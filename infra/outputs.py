"""Stack outputs: addresses and names to paste into commands."""

from __future__ import annotations

from typing import Any

import pulumi

from infra.cluster.brokers import BrokerService
from infra.cluster.load_balancer import LoadBalancer
from infra.cluster.shared import SharedResources
from infra.functions.functions import Functions
from infra.lake.buckets import LakeBuckets
from infra.lake.catalog import Catalog
from infra.lake.spark import SparkApplication
from infra.network import ports
from infra.observability.prometheus import Prometheus

Outputs = dict[str, pulumi.Input[Any]]


def lake_outputs(lake: LakeBuckets) -> Outputs:
    """The buckets."""
    return {"lakeBucket": lake.lake.name, "lakeUrl": lake.url, "workBucket": lake.work.name}


def cluster_outputs(
    shared: SharedResources, brokers: BrokerService, balancer: LoadBalancer
) -> Outputs:
    """How clients connect, and the image repositories."""
    keys, repositories = shared.keys, shared.images.repositories
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
        "cluster": shared.containers.cluster.name,
        "service": brokers.service.name,
        "repositories": {
            image: repository.repository_url for image, repository in repositories.items()
        },
    }
    found["directUrl"] = brokers.direct_url
    if shared.certificates is not None:
        found["authorities"] = shared.certificates.trusted
    if balancer.private_link is not None:
        found["privateLink"] = balancer.private_link.service_name
    if not brokers.settings.endpoint.public:
        found["adminUrl"] = balancer.url(ports.ADMIN)
    return found


def analytics_outputs(catalog: Catalog, spark: SparkApplication) -> Outputs:
    """What is needed to run queries and jobs."""
    return {
        "glueDatabase": catalog.database_name,
        "jobDatabase": catalog.job_database_name,
        "analystPolicy": catalog.analysts.arn,
        "athenaWorkgroup": catalog.workgroup.name,
        "emrApplication": spark.application.id,
        "jobRole": spark.role.arn,
    }


def function_outputs(functions: Functions) -> Outputs:
    """The functions' names, the URL of ``discovery``, and the queue of failed calls."""
    return {
        # Without the last slash, so that paths can be appended.
        "discovery": functions.url.function_url.apply(lambda url: url.rstrip("/")),
        "functions": {name: each.name for name, each in functions.by_name.items()},
        "failedCalls": functions.failed_calls.url,
    }


def prometheus_outputs(prometheus: Prometheus) -> Outputs:
    """Where metrics are written and queried, who may, and the dashboards."""
    return {
        "prometheusUrl": prometheus.workspace.prometheus_endpoint,
        "metricsWriterPolicy": prometheus.writers.arn,
        "metricsReaderPolicy": prometheus.readers.arn,
        "grafanaDashboards": prometheus.dashboards,
    }
