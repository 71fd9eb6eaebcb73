"""Which ledgers a storage node may have lost data of, kept across restarts.

An answer "no such entry" helps to declare an entry absent, so a node may give it only if it
certainly never acknowledged that entry. After a power loss or damage it is unsure about all ledgers
that existed before, and stays unsure about them through any number of later restarts. A process
that was only killed loses nothing that it wrote as long as the operating system keeps running: the
same boot id proves that. But if the end of the journal had to be cut, it is unknown whether those
bytes were ever synced.

A fence may be lost too. So each start after a possible loss begins a new *life* of the node, and
the node takes appends only from writers that know this life: they have confirmed in the metadata
since then that they still own the ledger.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any, Final, Self

from storage_grpc.journal.recover import RecoveryReport
from sulina.errors import StorageFull
from sulina.runtime.seam import Disk

_log = logging.getLogger(__name__)
_FILE: Final = "standing.json"
"""Its name and its keys are the format on disk: nodes of earlier versions wrote them."""


class LossRecord:
    """Stored in the node's folder if created by :meth:`open`, otherwise in memory only."""

    def __init__(
        self, *, may_have_lost: bool, created_since: Iterable[int] = (), life: str = ""
    ) -> None:
        self.may_have_lost = may_have_lost
        """Whether data may be lost of ledgers that are not in ``created_since``."""
        self.life = life
        """Changes at each start at which a fence may have been lost."""
        self._created_since = set(created_since)
        self._disk: Disk | None = None
        self._boot = ""
        self._damage: list[list[int]] = []

    @classmethod
    async def open(cls, disk: Disk, recovery: RecoveryReport, boot: str, new_life: str) -> Self:
        """The record after a start that found ``recovery``; durable when this returns.

        ``boot`` identifies the boot of the operating system; empty if unknown. ``new_life`` must
        differ from every earlier life of the node. On a full disk the record is not stored: then
        :meth:`save` must succeed before a stop may count as clean.
        """
        before = await _load(disk)
        damage = [[where.file, where.start, where.end] for where in recovery.damaged]
        same_boot = before is not None and boot != "" and before.get("boot") == boot
        # A write that a kill cut short looks the same as synced bytes that were damaged later.
        kept_all = recovery.stopped or (same_boot and not recovery.cut_bytes)
        known_damage = [] if before is None else before["damage"]
        if any(where not in known_damage for where in damage) or not kept_all:
            record = cls(may_have_lost=True, life=new_life)
        elif before is None:
            record = cls(may_have_lost=False, life=new_life)
        else:
            record = cls(
                may_have_lost=before.get("in_doubt") is not False,
                created_since=before["born"],
                life=before.get("life") or new_life,
            )
        record._disk = disk
        record._boot = boot
        record._damage = damage
        try:
            await record.save()
        except StorageFull as error:
            _log.warning("saving %s failed, will retry before the node stops: %s", _FILE, error)
        return record

    def certain(self, ledger: int) -> bool:
        """Whether nothing of ``ledger`` that this node acknowledged can have been lost."""
        return not self.may_have_lost or ledger in self._created_since

    def created(self, ledger: int) -> None:
        """Note that the node took the first entry of ``ledger``, so it has all of it."""
        if self.may_have_lost:
            self._created_since.add(ledger)

    def deleted(self, ledger: int) -> None:
        """Note that ``ledger`` was deleted."""
        self._created_since.discard(ledger)

    async def save(self) -> None:
        """Make the record durable. A stop may be marked as clean only after this.

        Raises ``StorageFull`` or ``StorageFailed``.
        """
        if self._disk is not None:
            content = {
                "boot": self._boot,
                "in_doubt": self.may_have_lost,
                "life": self.life,
                "born": sorted(self._created_since),
                "damage": self._damage,
            }
            await self._disk.replace(_FILE, json.dumps(content).encode())


async def _load(disk: Disk) -> dict[str, Any] | None:
    """The stored record; None if there is none. An unreadable one counts as a possible loss."""
    if _FILE not in await disk.list():
        return None
    file = await disk.open(_FILE)
    try:
        content = json.loads(await file.read(0, await file.size()))
        content["born"] = [int(ledger) for ledger in content["born"]]
        content["damage"] = list(content["damage"])
    except (ValueError, KeyError, TypeError):
        return {"born": [], "damage": []}
    else:
        return dict(content)
    finally:
        await file.close()
