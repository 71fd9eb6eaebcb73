"""URLs of stores that only Sulina reads. Imports nothing that a Spark worker may lack."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit, urlunsplit

SCHEMES: Final = ("redis", "rediss", "tikv")


def without_password(url: str) -> str:
    """The URL for messages."""
    place = urlsplit(url)
    return urlunsplit(place._replace(netloc=place.netloc.rpartition("@")[2]))
