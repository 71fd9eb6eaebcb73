"""Operations on the lake: what of each topic is in objects, how fresh, and what failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sulina.operations.declaration import GET, SIGNED_IN, OperationGroup, operation
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, TopicText


@dataclass(frozen=True, slots=True)
class TopicInLake:
    """A topic in the lake, with all its partitions."""

    topic: TopicText
    partitions: Annotated[Count, "0 if the topic is not partitioned."]
    objects: Count
    object_bytes: Count
    records: Annotated[Count, "In objects."]
    newest_us: Annotated[int | None, "Publish time of the newest record in an object, if any."]
    waiting_ledgers: Annotated[Count, "Closed and not in an object yet."]
    waiting_bytes: Count
    waiting_since_us: Annotated[int | None, "Publish time of the oldest record that waits."]
    failed_ledgers: Annotated[Count, "Those that waited through a failed attempt."]
    failure: Annotated[str, "Why the last attempt failed; empty if none did."]


@dataclass(frozen=True, slots=True)
class LakePage:
    """Some of the topics, and how many there are."""

    topics: tuple[TopicInLake, ...]
    total: Count
    catalog: Annotated[bool, "Whether the broker that answers knows the catalog of tables."] = False
    lake: Annotated[str, "Where the objects are, if it knows a catalog; empty otherwise."] = ""
    database: Annotated[str, "Of the catalog, if it knows one; empty otherwise."] = ""


class LakeOperations(OperationGroup, name="lake"):
    """Operations on the lake."""

    @operation(GET("/lake"), right=SIGNED_IN)
    async def list(
        self,
        *,
        text: Annotated[str, "A part of the topic's name, in upper or lower case."] = "",
        failed: Annotated[
            bool, "Only topics of which an attempt to write an object failed."
        ] = False,
        skip: Annotated[Count, "How many to leave out."] = 0,
        limit: Annotated[int, Between(1, 200), "Return at most this many."] = 50,
    ) -> LakePage:
        """List topics by name with their objects and freshness, in pages.

        It lists those that the caller may look up.
        """
