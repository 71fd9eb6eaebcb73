"""The disk store: one journal for all ledgers.

``format`` defines the bytes of a journal file. ``scan`` and ``recover`` rebuild the ``index`` from
files, ``writer`` and ``commit`` append in groups with one sync each, ``reader`` reads entries from
the files, ``housekeeper`` seals full files and removes unneeded ones, and ``store`` is the
``EntryStore`` over all of them.
"""

from __future__ import annotations

from storage_grpc.journal.recover import RecoveryReport
from storage_grpc.journal.settings import JournalSettings
from storage_grpc.journal.store import JournalStore

__all__ = ["JournalSettings", "JournalStore", "RecoveryReport"]
