"""What the gates of schemas decided."""

from __future__ import annotations

from broker_containers.metrics.exposition import Exposition, MetricType, Write
from broker_containers.schemas.checks import SchemaChecks


def of_schemas(gates: SchemaChecks) -> Write:
    """Writes the families of all topics together; the log names topics."""

    def write(text: Exposition) -> None:
        text.one(
            "sulina_schema_checks_total",
            MetricType.COUNTER,
            "Messages and frames whose schema was looked at.",
            gates.checked,
        )
        text.each(
            "sulina_schema_failures_total",
            MetricType.COUNTER,
            "Messages that were not as their topic's schema says, by what became of them.",
            (({"result": "refused"}, gates.refused), ({"result": "taken"}, gates.warned)),
        )

    return write
