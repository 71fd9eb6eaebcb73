"""Topics: where frames get their offsets, and where they wait for their consumers."""
