"""The error that this program reports to the user."""

from __future__ import annotations


class DeploymentError(Exception):
    """Invalid configuration or a missing build: one sentence with the cause and the remedy."""
