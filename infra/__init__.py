"""Sulina on AWS: the Pulumi program."""

from __future__ import annotations
