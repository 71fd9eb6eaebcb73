"""The location of the lake: ``s3://bucket/prefix``, in the same format that servers use."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from sulina.errors import Refused
from sulina.lake.layout import ROOT


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """A bucket and a key prefix, which is empty or ends with ``/``."""

    bucket: str
    prefix: str = ""

    @property
    def ledgers(self) -> str:
        """The prefix of all ledgers' objects."""
        return self.prefix + ROOT

    def url(self, key: str) -> str:
        """The URL of a key, which is relative to the prefix."""
        return f"s3://{self.bucket}/{self.prefix}{key}"

    def relative(self, key: str) -> str:
        """A bucket key relative to the prefix. Raises ``Refused`` if it is outside the lake."""
        if not key.startswith(self.prefix):
            raise Refused(f"{key!r} is outside the lake, whose keys begin with {self.prefix!r}")
        return key.removeprefix(self.prefix)


def parse_lake(url: str) -> LakeLocation:
    """Parse a lake's URL. Raises ``Refused`` for other URLs."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        raise Refused(f"{url!r} is not a lake: write s3://bucket or s3://bucket/prefix")
    folder = parts.path.strip("/")
    return LakeLocation(parts.netloc, f"{folder}/" if folder else "")
