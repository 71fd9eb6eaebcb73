"""What holds for all tests."""

from __future__ import annotations

import os
import signal
import sys

from hypothesis import settings

# Before anything imports gRPC, which else breaks children that are forked while it works: Spark
# starts Java that way, and that child may die before it is Java.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# Tests start hundreds of Python processes. Without cached bytecode each of them compiles our code,
# a third of the CPU time that a broker takes to start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts what runs in the background with Ctrl-C ignored, and so would be whatever the tests
# start: they could not end it as a person does.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No time limit for an example: machines differ, and ours are busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
