"""The names under which this deployment's own figures are in CloudWatch."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "Sulina"
DIMENSION: Final = "Cluster"
"""The prefix of the deployment."""
MEMBER: Final = "Member"
LOAD: Final = "BrokerLoad"
UNASSIGNED: Final = "TopicsUnassigned"
DISK: Final = "DiskUsed"
"""In percent of a member's volume."""
CERTIFICATE: Final = "CertificateDays"
"""For how long certificates inside are still good."""
