"""Results of schema checks."""

from __future__ import annotations

from broker_containers.metrics.exposition import Exposition, MetricType, Write
from broker_containers.schemas.checks import SchemaChecks


def of_schemas(checks: SchemaChecks) -> Write:
    """Metrics of all topics together; the log names the topic of each failure."""

    def write(text: Exposition) -> None:
        text.one(
            "sulina_schema_checks_total",
            MetricType.COUNTER,
            "Messages and frames whose schema was checked.",
            checks.checked,
        )
        text.each(
            "sulina_schema_failures_total",
            MetricType.COUNTER,
            "Messages that do not match their topic's schema, by whether they were accepted.",
            (({"result": "refused"}, checks.refused), ({"result": "taken"}, checks.warned)),
        )

    return write
