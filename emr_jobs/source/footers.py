"""Footers of objects: what each holds, where its row groups are. One request each, mostly."""

from __future__ import annotations

from emr_jobs.source.storage import Found, Storage
from sulina.errors import CorruptEntry
from sulina.lake.decoder import TAIL, Footer, NeedMore, open_footer


def read_footer(storage: Storage, found: Found) -> Footer:
    """The footer of an object. Blocks on the store.

    Raises ``NotFound`` if it is gone, ``CorruptEntry`` if it is damaged, ``Refused`` if it is of a
    format that is not known here.
    """
    footer = open_footer(storage.tail(found.key, found.size, TAIL), found.size)
    if isinstance(footer, NeedMore):
        footer = open_footer(storage.tail(found.key, found.size, footer.length), found.size)
    if isinstance(footer, NeedMore) or footer.summary.first_offset != found.name.first_offset:
        raise CorruptEntry(f"{found.key} is damaged: its footer does not fit its name")
    return footer


__all__ = ["Footer", "read_footer"]
