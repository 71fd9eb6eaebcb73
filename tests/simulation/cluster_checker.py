"""Invariants of the cluster's services: owners, paths, leaders, leases.

It observes every change of the metadata with the process that made it, and reads the brokers'
memory at every step. It also checks everything that ``Checker`` checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sulina.metadata.keys import assignments, leader, members, record
from sulina.metadata.keys.assignments import Owner
from sulina.metadata.keys.leader import LeaderRecord
from sulina.metadata.keys.ledgers import LedgerList
from sulina.metadata.keys.path import name_of
from sulina.metadata.store import KeyValue
from sulina.names import TopicName
from tests.simulation.checker import Checker
from tests.simulation.trace import Trace

AUDITOR = "auditor"


@dataclass(slots=True)
class Assignment:
    """The owner of a topic, according to the metadata."""

    owner: Owner | None = None
    revision: int = 0
    epochs: dict[int, str] = field(default_factory=dict)
    """The owner in each epoch."""
    holders: dict[str, int] = field(default_factory=dict)
    """The brokers whose own paths name the topic, with the epoch there."""
    wished: bool = False


@dataclass(slots=True)
class Registration:
    """Whether a broker is registered, according to the metadata."""

    registered: bool = False
    came: int = 0
    """The revision of the last registration that followed an absence."""


class ClusterChecker(Checker):
    """The checker of a run with cluster services."""

    def __init__(self, trace: Trace, topics: list[TopicName], writers: dict[int, str]) -> None:
        """``writers`` has the process that made each revision."""
        super().__init__(trace, topics)
        self._writers = writers
        self.assignments = {topic: Assignment() for topic in topics}
        self.registrations: dict[str, Registration] = {}
        self.leader = ""
        """The process that leads; empty if none does."""
        self.term = 0
        self.terms = 0
        self.lost_leases: set[int] = set()
        """Leases that a fault revoked."""
        self._paths = {assignments.path_of(topic): topic for topic in topics}
        self._touched: dict[TopicName, None] = {}
        self._revision = 0
        self._seen: dict[tuple[str, str], int] = {}

    # ---- changes of the metadata ----

    def metadata_changed(self, key: str, value: bytes | None, revision: int) -> None:
        if revision != self._revision:
            self.check_paths()
            self._revision = revision
        who = self._writers.get(revision, "")
        if key in self._lists and value is not None:
            self._taken_over(self._lists[key], key, value, who)
        super().metadata_changed(key, value, revision)

    def other_changed(self, item: KeyValue, *, deleted: bool) -> None:
        key, revision = item.key, item.mod_revision
        if not key.startswith("/cluster/"):
            return
        who = self._writers.get(revision, "")
        if key == leader.KEY:
            self._leader_changed(item, who, deleted=deleted)
        elif key.startswith(members.REGISTER):
            self._broker_changed(name_of(key.removeprefix(members.REGISTER)), revision, deleted)
        elif key.startswith(assignments.OWNERS):
            topic = self._paths[key.removeprefix(assignments.OWNERS)]
            self._owner_changed(topic, None if deleted else assignments.decode_owner(item), item)
        elif key.startswith(assignments.UNASSIGNED):
            topic = self._paths[key.removeprefix(assignments.UNASSIGNED)]
            self.assignments[topic].wished = not deleted
        elif key.startswith(members.BROKERS):
            self._path_changed(key.removeprefix(members.BROKERS), item, deleted)

    def _leader_changed(self, item: KeyValue, who: str, *, deleted: bool) -> None:
        if deleted:
            self.trace.note(f"nobody leads (by {who or 'its lease'})")
            self.leader, self.term = "", 0
            return
        named = record.decode(LeaderRecord, item).broker
        self.trace.note(f"{who} leads, term {item.mod_revision}")
        if self.leader:
            self.fail(f"{who} becomes leader in the term of {self.leader}")
        if broker_of(who) != named:
            self.fail(f"{who} writes that {named} leads")
        self.leader, self.term = who, item.mod_revision
        self.terms += 1

    def _broker_changed(self, broker: str, revision: int, deleted: bool) -> None:
        registration = self.registrations.setdefault(broker, Registration())
        if not deleted and not registration.registered:
            registration.came = revision
        registration.registered = not deleted
        self.trace.note(f"{broker} is {'gone' if deleted else 'registered'}")

    def _owner_changed(self, topic: TopicName, now: Owner | None, item: KeyValue) -> None:
        who = self._writers.get(item.mod_revision, "")
        found = self.assignments[topic]
        before, since = found.owner, found.revision
        found.owner, found.revision = now, item.mod_revision
        self._touched[topic] = None
        if now is None:
            self.trace.note(f"{topic.local} has no owner (by {who})")
            found.epochs.clear()
            return
        self.trace.note(
            f"{topic.local} is {now.broker}'s, epoch {now.epoch}"
            f"{f', to {now.to}' if now.to else ''} (by {who})"
        )
        other = found.epochs.setdefault(now.epoch, now.broker)
        if other != now.broker:
            self.fail(f"{topic} has two owners in epoch {now.epoch}: {other} and {now.broker}")
        if before is not None and now.epoch < before.epoch:
            self.fail(f"the owner of {topic} goes from epoch {before.epoch} to {now.epoch}")
        if before is not None and now.broker != before.broker and now.epoch == before.epoch:
            self.fail(f"{topic} goes to {now.broker} without a new epoch")
        handed_over = (
            before is not None and before.broker == broker_of(who) and before.to == now.broker
        )
        if not handed_over:
            if who != self.leader:
                self.fail(
                    f"{who} changes the owner of {topic} and does not lead: "
                    f"{self.leader or 'nobody'} does"
                )
            if before is not None and now.broker != before.broker:
                self._may_be_taken(topic, before, since, now)

    def _may_be_taken(self, topic: TopicName, before: Owner, since: int, now: Owner) -> None:
        """The leader takes topics only from brokers that were gone or were told to hand over."""
        registration = self.registrations.get(before.broker, Registration())
        was_gone = not registration.registered or registration.came > since
        if not was_gone and before.to != now.broker:
            self.fail(f"{topic} is assigned to {now.broker} while {before.broker} serves it")

    def _path_changed(self, rest: str, item: KeyValue, deleted: bool) -> None:
        label, _, path = rest.partition("/")
        broker = name_of(label)
        if path not in self._paths:
            return  # its state, or a load report
        topic = self._paths[path]
        holders = self.assignments[topic].holders
        self._touched[topic] = None
        if deleted:
            holders.pop(broker, None)
        else:
            holders[broker] = record.decode(assignments._Entry, item).epoch

    def check_paths(self) -> None:
        """After each revision: owners' records and brokers' paths agree."""
        for topic in self._touched:
            found = self.assignments[topic]
            wanted = {} if found.owner is None else {found.owner.broker: found.owner.epoch}
            if found.holders != wanted:
                self.fail(
                    f"{topic} is owned by {wanted or 'nobody'} at revision {self._revision}, but "
                    f"is in the paths of {found.holders or 'nobody'}"
                )
        self._touched.clear()

    def _taken_over(self, topic: TopicName, key: str, value: bytes, who: str) -> None:
        now = record.decode(LedgerList, KeyValue(key, value, 0, 0, 0, 0))
        if now.epoch == self.topics[topic].list.epoch or broker_of(who) == AUDITOR:
            return
        self.trace.note(f"{who} takes over {topic.local}")
        if broker_of(who) not in self.assignments[topic].epochs.values():
            self.fail(f"{who} takes over {topic}, which was never assigned to it")

    # ---- what brokers believe ----

    def believed(self, process: str, lease: int | None, held: dict[int, int]) -> None:
        """A broker believes that it holds a lease; ``held`` are those of the store."""
        if lease is not None and lease not in held and lease not in self.lost_leases:
            self.fail(f"{process} considers lease {lease} valid, but the store lost it")

    def cached(self, process: str, key: str, revision: int) -> None:
        """Called when a broker's cache has a key as of this revision."""
        seen = self._seen.get((process, key), 0)
        if revision < seen:
            self.fail(f"the cache of {process} went from revision {seen} to {revision} of {key}")
        self._seen[process, key] = max(seen, revision)


def broker_of(process: str) -> str:
    """``broker-1`` of ``broker-1.3``."""
    return process.rpartition(".")[0]
