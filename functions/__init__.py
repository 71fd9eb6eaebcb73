"""What runs beside a cluster on AWS Lambda, a folder each; see README.md."""

from __future__ import annotations
