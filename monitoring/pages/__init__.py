"""The dashboards: cluster, broker, topic, storage, lake.

Brokers are scraped by the job ``sulina``, storage nodes by ``sulina-storage``
(``prometheus.yml``). Series that are named as Danube's have the label ``broker``; the others are
told apart by ``instance``.
"""

from __future__ import annotations

from typing import Final

from monitoring.pages.broker import BROKER
from monitoring.pages.cluster import CLUSTER
from monitoring.pages.lake import LAKE
from monitoring.pages.storage import STORAGE
from monitoring.pages.topic import TOPIC

DASHBOARDS: Final = (CLUSTER, BROKER, TOPIC, STORAGE, LAKE)
