"""Decoding record by record: the reference for the vectorised decoders, and their fallback. Pure.

A payload either fits or has a reason why not; one that does not fit never affects others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

_LONGEST_REASON: Final = 200


class Unfit(ValueError):
    """A payload does not fit its schema; the text says why."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def within(self, step: str) -> Unfit:
        """The same, seen from a level above."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return Unfit(self.reason, f"{step}{joint}{self.path}")

    def __str__(self) -> str:
        whole = f"{self.path}: {self.reason}" if self.path else self.reason
        text = " ".join(whole.split())
        # Texts of a payload may contain half a surrogate pair, which no column can store.
        return text[:_LONGEST_REASON].encode(errors="replace").decode()


ReadOne = Callable[[bytes], Any]
"""A payload to a Python value for Arrow. Raises ``Unfit``."""


def read_rows(
    payloads: Sequence[bytes | None], read: ReadOne, of_type: pa.DataType
) -> tuple[pa.Array, list[str | None]]:
    """The values, and for each payload the reason why it does not fit, or None."""
    values: list[Any] = []
    reasons: list[str | None] = []
    for payload in payloads:
        value, reason = None, None
        if payload is None:
            reason = "the record has no payload: its frame cannot be decoded"
        else:
            try:
                value = read(payload)
            except Unfit as error:
                reason = str(error)
            except RecursionError:
                reason = "it is nested too deeply"
        values.append(value)
        reasons.append(reason)
    return pa.array(values, of_type), reasons
