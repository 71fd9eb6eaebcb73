"""Where the lake is: ``s3://bucket/prefix``, as brokers and storage nodes are told as well."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from sulina.errors import Refused
from sulina.lake.layout import ROOT


@dataclass(frozen=True, slots=True)
class Lake:
    """A bucket, and what all keys in it begin with: nothing, or a folder with its ``/``."""

    bucket: str
    prefix: str = ""

    @property
    def ledgers(self) -> str:
        """What the keys of all ledgers' objects begin with."""
        return self.prefix + ROOT

    def url(self, key: str) -> str:
        """A key of the lake as a URL; ``key`` is relative to the prefix."""
        return f"s3://{self.bucket}/{self.prefix}{key}"

    def relative(self, key: str) -> str:
        """A key of the bucket as keys in the lake read. Raises ``Refused`` if it is not there."""
        if not key.startswith(self.prefix):
            raise Refused(f"{key!r} is outside of the lake, whose keys begin with {self.prefix!r}")
        return key.removeprefix(self.prefix)


def parse_lake(url: str) -> Lake:
    """The lake of a URL. Raises ``Refused`` for what is none."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        raise Refused(f"{url!r} is no lake: write s3://bucket, or s3://bucket/prefix")
    folder = parts.path.strip("/")
    return Lake(parts.netloc, f"{folder}/" if folder else "")
