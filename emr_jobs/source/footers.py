"""Reads the footers of objects: their summaries and row groups. Usually one request each."""

from __future__ import annotations

from emr_jobs.source.storage import LakeObject, LakeStorage
from sulina.errors import CorruptEntry
from sulina.lake.decoder import TAIL, Footer, NeedMore, open_footer


def read_footer(storage: LakeStorage, found: LakeObject) -> Footer:
    """The footer of an object. Blocks on the store.

    Raises ``NotFound`` if the object is gone, ``CorruptEntry`` if it is damaged, ``Refused`` if its
    format is unknown.
    """
    footer = open_footer(storage.tail(found.key, found.size, TAIL), found.size)
    if isinstance(footer, NeedMore):
        footer = open_footer(storage.tail(found.key, found.size, footer.length), found.size)
    if isinstance(footer, NeedMore) or footer.summary.first_offset != found.name.first_offset:
        raise CorruptEntry(f"{found.key} is damaged: its footer does not match its name")
    return footer


__all__ = ["Footer", "read_footer"]
