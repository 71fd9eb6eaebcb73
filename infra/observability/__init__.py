"""Alarms and the dashboard."""
