"""Names of topics: ``/namespace/topic``, with ``-part-<n>`` for the partitions of a topic."""

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
    """A valid topic name, in its two parts."""

    namespace: str
    local: str

    @classmethod
    def parse(cls, text: str) -> TopicName:
        """Read ``/namespace/topic``. Raises ``Refused`` with the rule that was broken."""
        parts = text.split("/")
        if len(parts) != 3 or parts[0] or not all(map(_PART.fullmatch, parts[1:])):
            raise Refused(
                f"{text!r} is not a topic name: write /namespace/topic, "
                "with letters, digits, '_' and '-' (for example /default/orders)"
            )
        if len(text) > MAX_NAME_LENGTH:
            raise Refused(f"a topic name has at most {MAX_NAME_LENGTH} characters")
        return cls(parts[1], parts[2])

    def partition(self, number: int) -> TopicName:
        """The topic that is partition ``number`` of this one."""
        return TopicName(self.namespace, f"{self.local}-part-{number}")

    @property
    def partition_of(self) -> tuple[TopicName, int] | None:
        """The topic and the number of which this name is a partition's name, if it is one."""
        match = _PARTITION.fullmatch(self.local)
        if match is None:
            return None
        return TopicName(self.namespace, match["base"]), int(match["number"])

    def __str__(self) -> str:
        return f"/{self.namespace}/{self.local}"


def check_namespace(name: str) -> str:
    """``name`` if it may be a namespace; raises ``Refused`` otherwise."""
    if not _PART.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise Refused(f"{name!r} is not a namespace: use letters, digits, '_' and '-'")
    return name


def check_label(what: str, name: str) -> str:
    """``name`` if it may name a subscription, producer or consumer; else raises ``Refused``."""
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise Refused(
            f"{name!r} can't name a {what}: use 1 to {MAX_NAME_LENGTH} printable characters"
        )
    return name
