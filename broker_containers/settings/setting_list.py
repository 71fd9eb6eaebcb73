"""Every setting that can change while brokers run, and those that can't, with the reason.

A field of the settings that is in neither list makes a test fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any, Final

from broker_containers.broker.settings import HttpSettings
from broker_containers.load.settings import RankingName
from broker_containers.settings.setting import Setting, SettingEffect, SettingScope, SettingType
from sulina.errors import NotFound

LEVELS: Final = ("debug", "info", "warning", "error")
_DAY: Final = 86_400.0
_YEAR: Final = 365 * _DAY
_KIB, _MIB, _GIB, _TIB = (1 << shift for shift in (10, 20, 30, 40))

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "broker": ("broker",),
    "ledger": ("broker", "ledger"),
    "tier": ("broker", "tier"),
    "subscription": ("broker", "subscription"),
    "cluster": ("cluster",),
    "balance": ("cluster", "balance"),
    "weights": ("cluster", "balance", "weights"),
    "full": ("cluster", "balance", "full"),
    "http": ("broker", "http"),
}
"""Where the settings of each section are in ``Live``."""


def _setting(
    kind: SettingType,
    unit: str,
    name: str,
    help: str,
    low: float | None = None,
    high: float | None = None,
    **more: Any,
) -> Setting:
    section, _, field = name.partition(".")
    return Setting(name, (*SECTIONS[section], field), kind, help, unit, low, high, **more)


_bytes = partial(_setting, SettingType.WHOLE, "bytes")
_count = partial(_setting, SettingType.WHOLE, "")
_seconds = partial(_setting, SettingType.NUMBER, "seconds")
_number = partial(_setting, SettingType.NUMBER, "")
_flag = partial(_setting, SettingType.FLAG, "")
_new: Final[Any] = {"effect": SettingEffect.CONNECTION}
_round: Final[Any] = {"effect": SettingEffect.ROUND}
_all: Final[Any] = {"scope": SettingScope.CLUSTER, "effect": SettingEffect.ROUND}

_BROKER: Final = (
    _bytes("broker.cache_bytes", "Memory for frames at the tail, all topics together.",
           _MIB, _TIB),
    _bytes("broker.max_frame_bytes", "The largest frame a producer may send.",
           64 * _KIB, 64 * _MIB, **_new),
    _setting(SettingType.WHOLE, "seconds", "broker.max_delay_seconds",
             "How far ahead the delivery time of a record may lie.", 0, _YEAR),
    _seconds("broker.cursor_flush_seconds", "How far a stored cursor may lie behind.",
             0.01, 60, **_round),
    _seconds("broker.retention_seconds", "How often old data is looked for.",
             0.1, _DAY, **_round),
    _flag("broker.auto_create_topics", "Whether using a topic makes it."),
    _count("broker.max_requests", "Requests of one connection under way at once.", 1, 65_536),
    _count("broker.max_peers", "Producers and consumers of one connection.",
           1, 1 << 20, **_new),
    _count("broker.max_connections", "Connections to the binary door.", 1, 1 << 20, **_new),
    _bytes("ledger.roll_bytes", "A topic goes on in a new ledger at this size.",
           64 * _KIB, 64 * _GIB),
    _seconds("ledger.roll_seconds", "A topic goes on in a new ledger at this age.",
             1, 30 * _DAY),
    _seconds("tier.after_seconds", "A ledger begun so long ago is closed, to become an object.",
             1, 30 * _DAY, **_round),
    _seconds("tier.check_seconds", "How often closed ledgers are looked for, to become objects.",
             0.1, _DAY, **_round),
    _count("tier.at_once", "Ledgers of a broker that become objects at the same time.",
           1, 256, **_round),
    _seconds("tier.local_seconds", "How long entries stay on storage nodes after their ledger's "
             "last record, though its object is there.", 0, _YEAR, **_round),
    _bytes("tier.local_bytes", "So many of a topic's newest bytes stay there in any case.",
           0, 1024 * _TIB, **_round),
    _seconds("tier.offload_seconds", "An object that takes longer to be made is tried again.",
             1, _DAY, **_round),
    _count("subscription.frames", "Frames a subscription may have loaded at once.", 1, 1 << 20),
    _count("subscription.records", "Records a subscription may have loaded at once.",
           1, 1 << 30),
    _count("subscription.delayed", "Frames kept in mind until they are due.", 1, 1 << 24),
    Setting("log.level", ("log_level",), SettingType.CHOICE, "How much is told in the log.",
            choices=LEVELS),
)  # fmt: skip

_CLUSTER: Final = (
    _seconds("cluster.check_seconds", "How often the leader's place is looked at, besides "
             "watching it.", 0.1, 60, **_round),
    _seconds("cluster.evaluate_seconds", "How often the leader looks at everything, besides "
             "reacting to changes.", 0.1, 600, **_all),
    _seconds("cluster.report_seconds", "How often a broker tells its load.", 0.5, 600, **_round),
    _seconds("cluster.rebalance_seconds", "How often the leader considers moving topics.",
             1, _DAY, **_all),
    _seconds("cluster.move_seconds", "A topic not handed over for so long is taken away.",
             0.5, 600, **_all),
    _seconds("cluster.lookup_seconds", "How long a lookup waits for a topic to get an owner.",
             0.1, 120),
    _seconds("cluster.leave_seconds", "How long a broker that stops waits for others to take its "
             "topics.", 0, 600),
    _count("cluster.moves_at_once", "Planned moves under way at the same time.",
           1, 10_000, **_all),
    _seconds("cluster.slow_seconds", "A leader whose rounds take so long lets another one lead.",
             0.1, 600),
    _seconds("cluster.abstain_seconds", "How long such a broker does not want to lead.",
             0, _DAY),
)  # fmt: skip

_BALANCE: Final = (
    Setting("balance.ranking", (*SECTIONS["balance"], "ranking"), SettingType.CHOICE,
            "How load is measured.", choices=tuple(RankingName), **_all),
    _flag("balance.enabled", "Whether topics are moved automatically.", **_all),
    _flag("balance.dry_run", "Plans are made and shown, and not carried out.", **_all),
    _number("balance.high_start", "A broker above so many times the mean starts rebalancing.",
            1, 100, **_all),
    _number("balance.high_stop", "Brokers are brought below this, and no further.",
            1, 100, **_all),
    _number("balance.low_start", "A broker below this share of the mean starts rebalancing, too.",
            0, 1, **_all),
    _number("balance.low_stop", "Such a broker is filled up to this.", 0, 1, **_all),
    _seconds("balance.confirm_seconds", "An imbalance must last so long before anything moves.",
             0, _DAY, **_all),
    _number("balance.quiet", "Below this load of the busiest broker nothing is worth moving.",
            0, 1, **_all),
    _seconds("balance.interval_seconds", "The window of the three limits below.",
             1, _DAY, **_all),
    _count("balance.moves_per_interval", "Moves in a window.", 1, 1 << 20, **_all),
    _count("balance.moves_per_broker", "Moves from or to one broker in a window.",
           1, 1 << 20, **_all),
    _number("balance.load_per_interval", "Share of the cluster's load that may move in a window.",
            0, 1, **_all),
    _seconds("balance.topic_cooldown_seconds", "A topic that was moved stays at least so long.",
             0, 30 * _DAY, **_all),
    _seconds("balance.return_seconds", "A topic does not come back to a broker it left for so "
             "long, unless it must.", 0, 30 * _DAY, **_all),
    _seconds("balance.broker_cooldown_seconds", "A broker that got topics gives none away for so "
             "long, and the other way round.", 0, 30 * _DAY, **_all),
    _number("balance.min_move", "A topic below this share of the mean load is not moved alone.",
            0, 1, **_all),
    _number("balance.min_gain", "What a move must gain, as share of the mean, if it can't bring "
            "its target below the stop.", 0, 1, **_all),
    _seconds("balance.fresh_seconds", "A load report up to this age is trusted.",
             0.1, _DAY, **_all),
    _seconds("balance.stale_seconds", "At this age it is not trusted at all.", 0.1, _DAY, **_all),
    _number("balance.min_trust", "Below this a broker neither gives nor gets topics.",
            0, 1, **_all),
    _setting(SettingType.NUMBER, "milliseconds", "balance.ill_latency_ms",
             "Publishing slower than this, and than four times the median broker, is illness.",
             0, 60_000, **_all),
    _seconds("balance.smoothing_seconds", "The time constant of the moving average over reports.",
             0.1, _DAY, **_all),
    _seconds("balance.horizon_seconds", "How far the forecast looks that placement uses.",
             0, _DAY, **_all),
    _setting(SettingType.RULES, "", "balance.rules", "Where topics must, or must not, be.", **_all),
    _setting(SettingType.PATTERNS, "", "balance.blacklist_topics",
             "Topics that are never moved automatically.", **_all),
    _setting(SettingType.PATTERNS, "", "balance.blacklist_brokers", "Brokers that get no topics.",
             **_all),
    *(_number(f"weights.{part}", f"How much {part.replace('_', ' ')} counts in the weighted "
              "ranking.", 0, 1000, **_all)
      for part in ("cpu", "memory", "disk", "network_in", "network_out", "topics", "connections",
                   "backlog")),
    *(_number(f"full.{part}", f"What counts as full in {what}, where a report has no limit.",
              1, 1e15, **_all)
      for part, what in (("topics", "topics"), ("connections", "connections"),
                         ("backlog", "bytes of backlog"),
                         ("network", "bytes a second on the network"),
                         ("disk_io", "bytes a second on the disk"))),
)  # fmt: skip

SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting for setting in (*_BROKER, *_CLUSTER, *_BALANCE)
}
"""By name, in the order in which they are shown."""

_HTTP: Final = tuple(f"http.{field.name}" for field in fields(HttpSettings))
FIXED: Final[Mapping[str, str]] = {
    "broker.broker_id": "it is the broker's identity; another id is another broker",
    "cluster.lease_seconds": "the lease is bound to it when the broker registers",
    "cluster.open_at_once": "counted from the start; a change would lose count",
    "cluster.proxy_url": "given to clients that may keep it for long",
    **dict.fromkeys(_HTTP, "read when the HTTP door opens"),
}
"""What can only be given at the start of a broker, and why."""


def find(name: str) -> Setting:
    """The setting called ``name``. Raises ``NotFound`` with what there is."""
    found = SETTINGS.get(name)
    if found is not None:
        return found
    if name in FIXED:
        raise NotFound(f"{name} can't change while a broker runs ({FIXED[name]}): restart it")
    raise NotFound(f"there is no setting {name!r}: choose from {', '.join(SETTINGS)}")
