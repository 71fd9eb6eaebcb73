"""A topic's log: where frames get their offsets, how they are stored, read back and deleted."""
