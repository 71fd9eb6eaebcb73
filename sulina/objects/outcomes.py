"""Outcomes of requests that the stores of this package share."""

from __future__ import annotations


class TemporaryFailure(Exception):
    """A failure that another attempt may fix; the text is the cause."""


class TakenError(Exception):
    """The object already exists."""


class UploadGoneError(Exception):
    """The multipart upload no longer exists: it was completed or aborted."""


class RangeError(Exception):
    """The object has none of the requested bytes."""
