"""Which objects of a listing still belong to their topic. Pure.

What retention removed keeps its objects for a while. Readers without metadata, such as tables, must
drop them before they are deleted, and take them back if the removal is undone. So the owner of a
topic puts a mark next to the objects, an empty object whose name says up to which ledger they are
removed. It puts another, with a higher number, for every change; the highest number counts, and is
never deleted. So a mark that arrives late, from an owner that no longer is one, changes nothing.

Ledger ids grow within a topic and are never used again: marks of a deleted topic do not concern one
of the same name that was created later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from sulina.lake.layout import ObjectName, RemovedMark

T = TypeVar("T")


def kept_objects(
    found: Iterable[T], marks: Iterable[RemovedMark], name_of: Callable[[T], ObjectName]
) -> list[T]:
    """The objects of one topic partition that retention has not removed."""
    newest = max(marks, default=None)
    return [each for each in found if newest is None or name_of(each).ledger > newest.ledger]
