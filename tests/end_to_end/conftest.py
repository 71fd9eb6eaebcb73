"""The Spark session that the tests of Spark share."""

from __future__ import annotations

from tests.spark.conftest import spark as spark
