"""What a store's answers mean, whatever its protocol: for the code inside this package."""

from __future__ import annotations


class TemporaryFailure(Exception):
    """What went wrong may go well on another attempt; the text says what it was."""


class TakenError(Exception):
    """There is an object of that name already."""


class UploadGoneError(Exception):
    """The upload in parts is not there: finished, or taken back."""


class RangeError(Exception):
    """The object has none of the bytes asked for."""
