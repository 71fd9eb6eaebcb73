"""Alarms and the dashboard."""

from __future__ import annotations
