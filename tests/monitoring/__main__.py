"""``python -m tests.monitoring`` prints the reference of metrics (docs/reference/metrics.md)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.monitoring.cluster import watched_cluster
from tests.monitoring.scraped import reference

with tempfile.TemporaryDirectory() as folder, watched_cluster(Path(folder)) as watched:
    sys.stdout.write(reference(watched.broker, watched.node))
