"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# No time limit for an example: machines differ, and ours are busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
