"""The VPC, its security groups, private endpoints and internal DNS."""

from __future__ import annotations
