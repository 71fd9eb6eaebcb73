"""The disk store: one journal for all ledgers.

``format`` is what the bytes of a journal file mean, ``scan`` and ``recover`` turn files back into
an ``index``, ``writer`` and ``commit`` append to them in groups with one sync each, ``reader``
serves entries straight from them, ``housekeeper`` seals full files and removes dead ones, and
``store`` puts it all behind the ``EntryStore`` interface.
"""

from __future__ import annotations

from storage_grpc.journal.recover import RecoveryReport
from storage_grpc.journal.settings import JournalSettings
from storage_grpc.journal.store import JournalStore

__all__ = ["JournalSettings", "JournalStore", "RecoveryReport"]
