"""The prices behind the estimate: assumptions, in US dollars, without tax.

They are on-demand list prices of one region, rounded as AWS prints them. Check them before you rely
on them, and change them here: docs/cost.md is generated from this table.
"""

from __future__ import annotations

from typing import Final

AS_OF: Final = "2026-11"
REGION: Final = "US East (N. Virginia); most of Europe costs 5 to 20 % more"
HOURS: Final = 730
"""Hours per month."""

FARGATE_CPU: Final = {"arm64": 0.03238, "x86_64": 0.04048}
"""Per vCPU and hour."""
FARGATE_GIB: Final = {"arm64": 0.00356, "x86_64": 0.004445}
"""Per GiB and hour."""
SPOT: Final = 0.3
"""Spare Fargate capacity costs about this fraction; the exact price varies."""
MACHINES: Final = {
    "t3.nano": 0.0052,
    "t4g.nano": 0.0042,
    "t4g.micro": 0.0084,
    "t4g.small": 0.0168,
    "t4g.medium": 0.0336,
    "m7g.medium": 0.0408,
    "m7g.large": 0.0816,
    "m7g.xlarge": 0.1632,
}
"""Per hour."""
GP3_GIB: Final = 0.08
GP3_IOPS: Final = 0.005
"""Above 3,000."""
GP3_MIBPS: Final = 0.04
"""Above 125."""
SNAPSHOT_GIB: Final = 0.05
BALANCER_HOUR: Final = 0.0225
BALANCER_UNIT: Final = 0.006
"""Per capacity unit and hour: 1 GB per hour of TCP or TLS traffic."""
NAT_GATEWAY_HOUR: Final = 0.045
PUBLIC_ADDRESS_HOUR: Final = 0.005
ENDPOINT_HOUR: Final = 0.01
"""Per interface endpoint, zone and hour."""
CROSS_ZONE_GB: Final = 0.02
"""Charged for sending and receiving, so twice the list price per direction."""
S3_GIB: Final = 0.023
S3_PUT: Final = 0.005 / 1_000
S3_GET: Final = 0.0004 / 1_000
KMS_KEY: Final = 1.0
SECRET: Final = 0.40
PRIVATE_ZONE: Final = 0.50
LOG_GIB: Final = 0.50
ALARM: Final = 0.10
METRIC: Final = 0.30
"""Per custom metric; those that AWS services publish are free."""
SAMPLE: Final = 0.90 / 10_000_000
"""Per sample written to Managed Prometheus; storing a month's costs little beside it."""
CALL: Final = 0.20 / 1_000_000
CALL_GIB_SECOND: Final = {"arm64": 0.0000133334, "x86_64": 0.0000166667}
EMR_CPU: Final = {"arm64": 0.042094, "x86_64": 0.052624}
EMR_GIB: Final = {"arm64": 0.004628, "x86_64": 0.0057785}
IMAGE_GIB: Final = 0.10
