"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Before anything imports gRPC, which else breaks children that are forked while it works: Spark
# starts Java that way, and that child may die before it is Java.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# No time limit for an example: machines differ, and ours are busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
