"""What a storage node may deny: of which ledgers it can be sure to have lost nothing.

A node that says "no such entry" helps to declare an entry absent, so it may only say it when it
certainly never acknowledged that entry. After a power cut or damage it can't be sure about ledgers
that were there before, and stays unsure about them through any number of later restarts, clean or
not. A process that merely died loses nothing that it wrote, as long as the system under it goes on:
that is told by the system's boot id. But if the end of its journal had to be cut, nobody knows
whether that was ever synced.

What may be lost includes fences. So each start in doubt begins another life of the node, and
appends are taken only from writers who know of it: they have asked the metadata since whether the
ledger is still theirs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any, Final, Self

from storage_grpc.journal.recover import Recovery
from sulina.errors import StorageFull
from sulina.runtime.seam import Disk

_log = logging.getLogger(__name__)
_FILE: Final = "standing.json"


class Standing:
    """Kept in the node's folder by :meth:`open`; made directly, it is in memory only."""

    def __init__(self, *, in_doubt: bool, born: Iterable[int] = (), life: str = "") -> None:
        self.in_doubt = in_doubt
        """Something may have been lost of ledgers that are older than the doubt."""
        self.life = life
        """Another text after each start at which a fence may have been lost."""
        self._born = set(born)
        self._disk: Disk | None = None
        self._boot = ""
        self._damage: list[list[int]] = []

    @classmethod
    async def open(cls, disk: Disk, recovery: Recovery, boot: str, fresh: str) -> Self:
        """What holds after a start that found ``recovery``, durable when this returns.

        ``boot`` is another text after each boot of the system; empty if that is not known.
        ``fresh`` is a text that no life of the node was named by. On a full disk it is made
        durable by :meth:`save`, before the stop that relies on it.
        """
        before = await _load(disk)
        damage = [[where.file, where.start, where.end] for where in recovery.damaged]
        went_on = before is not None and boot != "" and before.get("boot") == boot
        # A write that was cut short by a kill looks like synced bytes that have gone bad since.
        went_on = went_on and not recovery.cut_bytes
        known = [] if before is None else before["damage"]
        if any(where not in known for where in damage) or not (recovery.stopped or went_on):
            standing = cls(in_doubt=True, life=fresh)
        elif before is None:
            standing = cls(in_doubt=False, life=fresh)
        else:
            standing = cls(
                in_doubt=before.get("in_doubt") is not False,
                born=before["born"],
                life=before.get("life") or fresh,
            )
        standing._disk = disk
        standing._boot = boot
        standing._damage = damage
        try:
            await standing.save()
        except StorageFull as error:
            _log.warning("could not note what this node is sure of, will try again: %s", error)
        return standing

    def certain(self, ledger: int) -> bool:
        """Whether nothing of ``ledger`` that this node acknowledged can have been lost."""
        return not self.in_doubt or ledger in self._born

    def begins(self, ledger: int) -> None:
        """The first entry of ``ledger`` was taken, so whatever came of it came since."""
        if self.in_doubt:
            self._born.add(ledger)

    def ends(self, ledger: int) -> None:
        """``ledger`` was deleted."""
        self._born.discard(ledger)

    async def save(self) -> None:
        """Note it durably. A stop may only be marked as clean after this."""
        if self._disk is not None:
            content = {
                "boot": self._boot,
                "in_doubt": self.in_doubt,
                "life": self.life,
                "born": sorted(self._born),
                "damage": self._damage,
            }
            await self._disk.replace(_FILE, json.dumps(content).encode())


async def _load(disk: Disk) -> dict[str, Any] | None:
    """What was noted; None if nothing ever was. What can't be read counts as doubt."""
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
