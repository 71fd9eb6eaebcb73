"""Prices that the estimate counts with: assumptions, in US dollars, as of a day, without tax.

They are list prices of on-demand use in one region, rounded as AWS prints them; look them up before
you rely on them, and change them here: docs/cost.md is made from this table.
"""

from __future__ import annotations

from typing import Final

AS_OF: Final = "2026-11"
REGION: Final = "US East (N. Virginia); most of Europe is 5 to 20 % dearer"
HOURS: Final = 730
"""Hours of a month."""

FARGATE_CPU: Final = {"arm64": 0.03238, "x86_64": 0.04048}
"""A vCPU and hour."""
FARGATE_GIB: Final = {"arm64": 0.00356, "x86_64": 0.004445}
"""A GiB and hour."""
MACHINES: Final = {
    "t4g.small": 0.0168,
    "t4g.medium": 0.0336,
    "m7g.medium": 0.0408,
    "m7g.large": 0.0816,
    "m7g.xlarge": 0.1632,
}
"""An hour."""
GP3_GIB: Final = 0.08
GP3_IOPS: Final = 0.005
"""Above 3,000."""
GP3_MIBPS: Final = 0.04
"""Above 125."""
SNAPSHOT_GIB: Final = 0.05
BALANCER_HOUR: Final = 0.0225
BALANCER_UNIT: Final = 0.006
"""A capacity unit and hour: 1 GB of TCP an hour; with TLS the same."""
ENDPOINT_HOUR: Final = 0.01
"""An interface endpoint, a zone and hour."""
ENDPOINT_GB: Final = 0.01
CROSS_ZONE_GB: Final = 0.02
"""Both directions of the way from one zone to another."""
S3_GIB: Final = 0.023
S3_PUT: Final = 0.005 / 1_000
S3_GET: Final = 0.0004 / 1_000
KMS_KEY: Final = 1.0
SECRET: Final = 0.40
PRIVATE_ZONE: Final = 0.50
LOG_GIB: Final = 0.50
ALARM: Final = 0.10
METRIC: Final = 0.30
INSIGHTS_METRICS: Final = 8
"""Metrics of Container Insights that a service of ECS has, about."""
CALL: Final = 0.20 / 1_000_000
CALL_GIB_SECOND: Final = {"arm64": 0.0000133334, "x86_64": 0.0000166667}
EMR_CPU: Final = {"arm64": 0.042094, "x86_64": 0.052624}
EMR_GIB: Final = {"arm64": 0.004628, "x86_64": 0.0057785}
IMAGE_GIB: Final = 0.10
