"""What the gates of schemas decided."""

from __future__ import annotations

from broker_containers.metrics.exposition import Exposition, Kind, Write
from broker_containers.schemas.checks import SchemaGates


def of_schemas(gates: SchemaGates) -> Write:
    """Writes the families of all topics together; the log names topics."""

    def write(text: Exposition) -> None:
        text.one(
            "sulina_schema_checks_total",
            Kind.COUNTER,
            "Messages and frames whose schema was looked at.",
            gates.checked,
        )
        text.each(
            "sulina_schema_failures_total",
            Kind.COUNTER,
            "Messages that were not as their topic's schema says, by what became of them.",
            (({"result": "refused"}, gates.refused), ({"result": "taken"}, gates.warned)),
        )

    return write
