"""Every setting that can change while brokers run, and those that cannot, with the reason.

A test fails if a field of the settings is in neither list.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from broker_containers.load.settings import RankingName
from broker_containers.schemas.compatibility import JsonRules
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
"""Where the settings of each section are in ``LiveSettings``."""


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
_restart: Final[Any] = {"effect": SettingEffect.RESTART}
_all: Final[Any] = {"scope": SettingScope.CLUSTER, "effect": SettingEffect.ROUND}

_BROKER: Final = (
    _bytes("broker.cache_bytes", "Memory for the newest frames of all topics together.",
           _MIB, _TIB),
    _bytes("broker.max_frame_bytes", "Maximum size of a frame that a producer sends.",
           64 * _KIB, 64 * _MIB, **_new),
    _setting(SettingType.WHOLE, "seconds", "broker.max_delay_seconds",
             "How far in the future a record's delivery time may be.", 0, _YEAR),
    _seconds("broker.cursor_flush_seconds", "How often changed cursors are stored.",
             0.01, 60, **_round),
    _seconds("broker.retention_seconds", "How often retention policies are applied.",
             0.1, _DAY, **_round),
    _flag("broker.auto_create_topics", "Create a topic when it is first used."),
    Setting("broker.json_schema_rules", (*SECTIONS["broker"], "json_schema_rules"),
            SettingType.CHOICE, "How the registry compares versions of a JSON Schema: by the data "
            "that they allow, or by Danube's rules.", choices=tuple(JsonRules),
            scope=SettingScope.CLUSTER),
    _count("broker.max_requests", "Maximum number of concurrent requests per connection.",
           1, 65_536),
    _count("broker.max_peers", "Maximum number of producers and consumers per connection.",
           1, 1 << 20, **_new),
    _count("broker.max_connections", "Maximum number of connections over the binary protocol.",
           1, 1 << 20, **_new),
    _count("broker.max_unidentified", "Maximum number of connections per door that have not shown "
           "a valid token.", 1, 1 << 20, **_restart),
    _count("broker.max_unidentified_per_address", "The same for the connections of one client "
           "address.", 1, 1 << 20, **_restart),
    _bytes("ledger.roll_bytes", "Size at which a topic starts a new ledger.",
           64 * _KIB, 64 * _GIB),
    _seconds("ledger.roll_seconds", "Age at which a topic starts a new ledger.",
             1, 30 * _DAY),
    _seconds("tier.after_seconds", "Age at which an open ledger is closed, to be tiered.",
             1, 30 * _DAY, **_round),
    _seconds("tier.check_seconds", "How often to look for closed ledgers to tier.",
             0.1, _DAY, **_round),
    _count("tier.at_once", "Maximum number of ledgers that a broker tiers concurrently.",
           1, 256, **_round),
    _seconds("tier.local_seconds", "How long the entries of a tiered ledger stay on storage nodes, "
             "counted from the ledger's last record.", 0, _YEAR, **_round),
    _bytes("tier.local_bytes", "How many of a topic's newest bytes always stay there.",
           0, 1024 * _TIB, **_round),
    _seconds("tier.offload_seconds", "Timeout for tiering one ledger; it is tried again later.",
             1, _DAY, **_round),
    _count("subscription.frames", "Maximum number of frames a subscription keeps loaded.",
           1, 1 << 20),
    _count("subscription.records", "Maximum number of records a subscription keeps loaded.",
           1, 1 << 30),
    _count("subscription.delayed", "Maximum number of delayed frames a subscription tracks.",
           1, 1 << 24),
    Setting("log.level", ("log_level",), SettingType.CHOICE, "The lowest severity that is logged.",
            choices=LEVELS),
)  # fmt: skip

_CLUSTER: Final = (
    _seconds("cluster.check_seconds", "How often a broker checks who leads, in addition to "
             "watching for changes.", 0.1, 60, **_round),
    _seconds("cluster.evaluate_seconds", "How often the leader evaluates the cluster, in addition "
             "to reacting to changes.", 0.1, 600, **_all),
    _seconds("cluster.report_seconds", "How often a broker reports its load.", 0.5, 600, **_round),
    _seconds("cluster.rebalance_seconds", "How often the leader considers moving topics.",
             1, _DAY, **_all),
    _seconds("cluster.move_seconds", "How long an owner may take to hand over a topic; then the "
             "leader reassigns it.",
             0.5, 600, **_all),
    _seconds("cluster.lookup_seconds", "How long a lookup waits for a topic to get an owner.",
             0.1, 120),
    _seconds("cluster.leave_seconds", "How long a stopping broker waits for others to take over "
             "its topics.", 0, 600),
    _seconds("cluster.redirect_seconds", "After that, how long it tells Danube's clients at most "
             "where their topics are now.", 0, 600),
    _count("cluster.moves_at_once", "Maximum number of concurrent planned moves.",
           1, 10_000, **_all),
    _seconds("cluster.slow_seconds", "A leader whose rounds repeatedly take longer resigns.",
             0.1, 600),
    _seconds("cluster.abstain_seconds", "How long it then does not stand for election.",
             0, _DAY),
)  # fmt: skip

_BALANCE: Final = (
    Setting("balance.ranking", (*SECTIONS["balance"], "ranking"), SettingType.CHOICE,
            "How load is measured.", choices=tuple(RankingName), **_all),
    _flag("balance.enabled", "Move topics automatically.", **_all),
    _flag("balance.dry_run", "Make and show plans without carrying them out.", **_all),
    _number("balance.high_start", "Rebalance when a broker's load exceeds the mean by this factor.",
            1, 100, **_all),
    _number("balance.high_stop", "Move topics away until the load is below this factor.",
            1, 100, **_all),
    _number("balance.low_start", "Also rebalance when a broker's load is below this share of "
            "the mean.",
            0, 1, **_all),
    _number("balance.low_stop", "Fill such a broker up to this share of the mean.", 0, 1, **_all),
    _seconds("balance.confirm_seconds", "How long an imbalance must last before topics move.",
             0, _DAY, **_all),
    _number("balance.quiet", "Move nothing while the busiest broker's load is below this.",
            0, 1, **_all),
    _seconds("balance.interval_seconds", "The interval that the next three limits apply to.",
             1, _DAY, **_all),
    _count("balance.moves_per_interval", "Maximum number of moves per interval.",
           1, 1 << 20, **_all),
    _count("balance.moves_per_broker", "Maximum number of moves from or to a broker per interval.",
           1, 1 << 20, **_all),
    _number("balance.load_per_interval", "Maximum share of the cluster's load moved per interval.",
            0, 1, **_all),
    _seconds("balance.topic_cooldown_seconds", "How long a moved topic stays where it is.",
             0, 30 * _DAY, **_all),
    _seconds("balance.return_seconds", "How long a topic does not return to a broker it left, "
             "unless a rule requires it.", 0, 30 * _DAY, **_all),
    _seconds("balance.broker_cooldown_seconds", "How long a broker that received topics gives "
             "none away, and vice versa.", 0, 30 * _DAY, **_all),
    _number("balance.min_move", "Do not move a topic whose load is below this share of the mean.",
            0, 1, **_all),
    _number("balance.min_gain", "Minimum gain of a move, as a share of the mean load, where the "
            "target ends up above balance.high_stop.", 0, 1, **_all),
    _seconds("balance.fresh_seconds", "Maximum age of a fully trusted load report.",
             0.1, _DAY, **_all),
    _seconds("balance.stale_seconds", "Age at which a load report is ignored.", 0.1, _DAY, **_all),
    _number("balance.min_trust", "Brokers whose reports are trusted less neither give nor "
            "receive topics.",
            0, 1, **_all),
    _setting(SettingType.NUMBER, "milliseconds", "balance.ill_latency_ms",
             "A broker that publishes slower than this, and than four times the median, counts "
             "as unhealthy.",
             0, 60_000, **_all),
    _seconds("balance.smoothing_seconds", "Time constant of the moving average over load reports.",
             0.1, _DAY, **_all),
    _seconds("balance.horizon_seconds", "How far ahead placement forecasts load.",
             0, _DAY, **_all),
    _setting(SettingType.RULES, "", "balance.rules", "Which brokers topics may or may not be on.",
             **_all),
    _setting(SettingType.PATTERNS, "", "balance.blacklist_topics",
             "Topics that are never moved automatically.", **_all),
    _setting(SettingType.PATTERNS, "", "balance.blacklist_brokers",
             "Brokers that receive no topics.", **_all),
    *(_number(f"weights.{part}", f"Weight of {part.replace('_', ' ')} in the weighted "
              "ranking.", 0, 1000, **_all)
      for part in ("cpu", "memory", "disk", "network_in", "network_out", "topics", "connections",
                   "backlog")),
    *(_number(f"full.{part}", f"{what} of a full broker, if its report states no limit.",
              1, 1e15, **_all)
      for part, what in (("topics", "Topics"), ("connections", "Connections"),
                         ("backlog", "Bytes of backlog"),
                         ("network", "Network bytes per second"),
                         ("disk_io", "Disk bytes per second"))),
)  # fmt: skip

_HTTP: Final = (
    _count("http.max_connections", "Maximum number of HTTP connections; further ones replace idle "
           "ones, or get 503 unless they check the broker's health.",
           1, 1 << 20, **_restart),
    _seconds("http.request_seconds", "Timeout of a request, from its headers to its response.",
             0.1, 600, **_restart),
    _seconds("http.silent_seconds", "How long a new connection may take to send its first "
             "request.", 0.1, 600, **_restart),
    _seconds("http.keepalive_seconds", "How long an idle connection is kept; longer than load "
             "balancers keep theirs.", 1, 3600, **_restart),
    _seconds("http.goodbye_seconds", "How long requests in progress may take when the broker "
             "stops.", 0, 600, **_restart),
    _bytes("http.max_body_bytes", "Maximum body of an administrative request.",
           _KIB, 64 * _MIB, **_restart),
    _bytes("http.max_message_bytes", "Maximum body of a publish request; broker.max_frame_bytes "
           "applies as well.", _KIB, 64 * _MIB, **_restart),
    _bytes("http.max_waiting_bytes", "Maximum bytes published over HTTP and not yet durable, all "
           "topics together.", 1, _TIB),
    _count("http.max_peek_messages", "Maximum number of messages in a peek response.",
           1, 1 << 20),
    _bytes("http.max_peek_bytes", "Maximum size of a peek response, about; a message that takes "
           "more is refused.", _KIB, 64 * _MIB),
    _count("http.metrics_topics", "Topics and subscriptions with individual metrics; the others "
           "count in the totals.", 0, 1 << 20, **_restart),
    _setting(SettingType.PATTERNS, "", "http.cors_origins",
             "Web sites that browsers may call from; * allows all.", **_restart),
    _setting(SettingType.PATTERNS, "", "http.allowed_hosts",
             "Host names by which brokers without tokens may be called over HTTP, besides "
             "localhost, IP addresses and their own; * allows all.", **_restart),
)  # fmt: skip

SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting for setting in (*_BROKER, *_HTTP, *_CLUSTER, *_BALANCE)
}
"""By name, in display order."""

FIXED: Final[Mapping[str, str]] = {
    "broker.broker_id": "it identifies the broker; a different id is a different broker",
    "cluster.lease_seconds": "the lease is granted with it when the broker registers",
    "cluster.proxy_url": "clients may keep it for a long time",
}
"""What can only be set when a broker starts, and why."""


def find(name: str) -> Setting:
    """The setting called ``name``. Raises ``NotFound``, which lists the known names."""
    found = SETTINGS.get(name)
    if found is not None:
        return found
    if name in FIXED:
        raise NotFound(
            f"{name} cannot change while a broker runs ({FIXED[name]}): restart the broker"
        )
    raise NotFound(f"there is no setting {name!r}: choose from {', '.join(SETTINGS)}")
