"""The stack's settings: parsed, checked, with defaults."""
