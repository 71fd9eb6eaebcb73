"""``python -m tests.simulation``; see ``run``."""

from __future__ import annotations

import sys

from tests.simulation.run import main

sys.exit(main())
