"""Properties of the Iceberg snapshot that a statement of Spark commits, in the same commit.

Only Iceberg 1.11 and newer know them as a setting of the session; a Java class has them in all
releases, for what its caller runs in the same thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def commit_with(
    spark: SparkSession, properties: Mapping[str, str], statement: Callable[[], object]
) -> None:
    """Run ``statement``; the snapshots that it commits have ``properties``. Raises its errors."""
    from pyspark import java_gateway

    gateway: Any = java_gateway
    context: Any = spark.sparkContext
    jvm = context._jvm
    gateway.ensure_callback_server_started(context._gateway)
    stated = jvm.java.util.HashMap()
    for name, text in properties.items():
        stated.put(name, text)
    call = _Call(statement)
    errors = jvm.java.lang.Class.forName("java.lang.RuntimeException")
    jvm.org.apache.iceberg.spark.CommitMetadata.withCommitProperties(stated, call, errors)
    if call.error is not None:
        raise call.error


class _Call:
    """What Java calls. It keeps an error, which would lose its type on the way through Java."""

    class Java:
        implements = ("java.util.concurrent.Callable",)

    def __init__(self, statement: Callable[[], object]) -> None:
        self._statement = statement
        self.error: Exception | None = None

    def call(self) -> bool:
        try:
            self._statement()
        except Exception as error:
            self.error = error
        return True
