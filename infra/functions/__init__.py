"""Lambda functions and the schedules that call them."""

from __future__ import annotations
