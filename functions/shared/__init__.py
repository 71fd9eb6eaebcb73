"""Code shared by several functions."""

from __future__ import annotations
