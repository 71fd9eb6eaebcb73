"""``python -m tests.attack``; see ``command``."""

from __future__ import annotations

import sys

from tests.attack.command import main

sys.exit(main())
