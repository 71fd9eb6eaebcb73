"""The error that this program shows to whoever deploys."""

from __future__ import annotations


class DeploymentError(Exception):
    """Invalid configuration or a missing build: one sentence with the cause and the remedy."""
