"""What ``sulina top`` shows, and what keys do to it. No terminal, no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from sulina.operations.overview import Overview, SubscriptionConcern, TopicTraffic
from sulina.operations.subscriptions import SubscriptionRow

SORTS: Final = ("records_in", "bytes_in", "records_out", "bytes_out", "backlog", "topic")
"""The columns by which topics can be sorted; numbers downwards, names upwards."""
HELP: Final = "q quit  s sort  / filter  up/down select  enter subscriptions  esc back  p pause"


class Mode(Enum):
    """What keys mean at present."""

    LIST = "list"
    FILTER = "filter"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the brokers answered last."""

    overview: Overview
    attention: Sequence[SubscriptionConcern] = ()
    subscriptions: Sequence[SubscriptionRow] = ()
    """Of the topic that is open."""


@dataclass(frozen=True, slots=True)
class View:
    """The state of the screen. Keys give a new one."""

    mode: Mode = Mode.LIST
    sort: str = SORTS[0]
    filter: str = ""
    selected: int = 0
    topic: str = ""
    """The topic that is open."""
    paused: bool = False
    left: bool = False
    """Whether the user wants to leave."""
    shown: Sequence[str] = field(default=())
    """The topics on the screen, in order."""

    def topics(self, overview: Overview) -> list[TopicTraffic]:
        """The busiest topics of all brokers, as sorted and filtered."""
        found = [each for broker in overview.brokers for each in broker.busiest]
        wanted = [each for each in found if self.filter.lower() in each.topic.lower()]
        wanted.sort(key=lambda each: each.topic)
        if self.sort != "topic":
            wanted.sort(key=lambda each: float(getattr(each, self.sort)), reverse=True)
        return wanted

    def showing(self, topics: Sequence[TopicTraffic]) -> View:
        """The view with these topics on the screen; the selection stays within them."""
        names = [each.topic for each in topics]
        return replace(self, shown=names, selected=max(min(self.selected, len(names) - 1), 0))

    def press(self, key: str) -> View:
        """The view after a key: a character, or the name of another key."""
        if key == "ctrl-c":
            return replace(self, left=True)
        if self.mode is Mode.FILTER:
            return self._typed(key)
        match key:
            case "q":
                return replace(self, left=True)
            case "p":
                return replace(self, paused=not self.paused)
            case "esc" | "left" | "backspace":
                return replace(
                    self, mode=Mode.LIST, topic="", filter="" if not self.topic else self.filter
                )
            case "s":
                return replace(self, sort=SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)])
            case "/":
                return replace(self, mode=Mode.FILTER, topic="", filter="")
            case "up" | "k":
                return replace(self, selected=max(self.selected - 1, 0))
            case "down" | "j":
                return replace(self, selected=min(self.selected + 1, max(len(self.shown) - 1, 0)))
            case "enter" | "right" if self.shown and self.mode is Mode.LIST:
                return replace(self, mode=Mode.TOPIC, topic=self.shown[self.selected])
        return self

    def _typed(self, key: str) -> View:
        if key in ("enter", "esc"):
            return replace(self, mode=Mode.LIST, filter=self.filter if key == "enter" else "")
        if key == "backspace":
            return replace(self, filter=self.filter[:-1])
        if len(key) == 1 and key.isprintable():
            return replace(self, filter=(self.filter + key)[:255], selected=0)
        return self
