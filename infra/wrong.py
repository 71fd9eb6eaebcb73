"""The one error that this program tells people: a sentence with the cause and the remedy."""

from __future__ import annotations


class Wrong(Exception):
    """Something in the configuration, or something that should have been prepared, is not right."""
