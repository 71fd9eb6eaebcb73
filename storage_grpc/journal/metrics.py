"""Metrics of a journal: of a storage node, or of a broker that stores entries itself."""

from __future__ import annotations

from storage_grpc.journal.store import JournalStore
from sulina.metrics.exposition import Exposition, Write


def of_journal(entries: JournalStore) -> Write:
    """What was appended, how long the disk takes, the size of the journal."""

    def write(text: Exposition) -> None:
        counters = entries.counters
        text.counter("sulina_journal_appends_total", "Entries made durable.", counters.entries)
        text.counter(
            "sulina_journal_append_bytes_total",
            "Bytes of the entries made durable.",
            counters.bytes,
        )
        text.histogram(
            "sulina_journal_sync_seconds",
            "Seconds to write a group of records and make it durable (fdatasync).",
            counters.sync_seconds,
        )
        files, size = entries.usage
        text.gauge("sulina_journal_files", "Journal files.", files)
        text.gauge("sulina_journal_bytes", "Size of the journal files.", size)
        text.gauge(
            "sulina_journal_pending_bytes",
            "Bytes appended and not yet durable.",
            entries.pending_bytes,
        )
        text.gauge(
            "sulina_journal_reserved_bytes",
            "Disk space reserved for appends: they succeed so far even if the disk is full.",
            entries.reserved_bytes,
        )
        text.gauge(
            "sulina_journal_full",
            "1 while appends are refused for lack of disk space or file descriptors.",
            int(entries.full is not None),
        )
        text.counter(
            "sulina_journal_full_refusals_total",
            "Entries refused for lack of disk space or file descriptors.",
            entries.refused_full,
        )
        text.gauge(
            "sulina_journal_damaged_places",
            "Damaged regions found at startup; the data in them is not served.",
            len(entries.recovery.damaged) + entries.recovery.corrupt_records,
        )

    return write
