"""``python -m tests.deploy``; see ``command``."""

from __future__ import annotations

import sys

from tests.deploy.command import main

sys.exit(main())
