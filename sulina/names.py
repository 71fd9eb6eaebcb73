"""Topic names: ``/namespace/topic``, with the suffix ``-part-<n>`` for partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sulina.errors import Refused

_PART = re.compile(r"[\w-]+")
_PARTITION = re.compile(r"(?P<base>.+)-part-(?P<number>0|[1-9][0-9]*)")
MAX_NAME_LENGTH = 255
MAX_PARTITIONS = 4096


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """A valid topic name: its namespace, and its name within the namespace."""

    namespace: str
    local: str

    @classmethod
    def parse(cls, text: str) -> TopicName:
        """Parse ``/namespace/topic``. Raises ``Refused`` with the rule that was broken."""
        parts = text.split("/")
        if len(parts) != 3 or parts[0] or not all(map(_PART.fullmatch, parts[1:])):
            raise Refused(
                f"{text!r} is not a topic name: use /namespace/topic "
                "with letters, digits, '_' and '-' (for example /default/orders)"
            )
        if len(text) > MAX_NAME_LENGTH:
            raise Refused(
                f"a topic name has at most {MAX_NAME_LENGTH} characters: choose a shorter one"
            )
        return cls(parts[1], parts[2])

    def partition(self, number: int) -> TopicName:
        """The name of partition ``number`` of this topic."""
        return TopicName(self.namespace, f"{self.local}-part-{number}")

    @property
    def partition_of(self) -> tuple[TopicName, int] | None:
        """The partitioned topic and the partition number, if this is a partition's name."""
        match = _PARTITION.fullmatch(self.local)
        if match is None:
            return None
        return TopicName(self.namespace, match["base"]), int(match["number"])

    def __str__(self) -> str:
        return f"/{self.namespace}/{self.local}"


def check_namespace(name: str) -> str:
    """Return ``name`` if it is a valid namespace; otherwise raise ``Refused``."""
    if not _PART.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise Refused(f"{name!r} is not a valid namespace: use letters, digits, '_' and '-'")
    return name


def check_label(what: str, name: str) -> str:
    """Return ``name`` if it is a valid name of a ``what``; otherwise raise ``Refused``."""
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise Refused(
            f"{name!r} is not a valid {what} name: use 1 to {MAX_NAME_LENGTH} printable characters"
        )
    return name
