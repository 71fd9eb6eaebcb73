"""``python -m tests.end_to_end``; see ``command``."""

from __future__ import annotations

import sys

from tests.end_to_end.command import main

sys.exit(main())
