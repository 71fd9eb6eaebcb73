"""``python -m tests.danube.conformance``; see ``command``."""

from __future__ import annotations

import sys

from tests.danube.conformance.command import main

sys.exit(main())
