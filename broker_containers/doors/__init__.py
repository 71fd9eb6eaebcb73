"""The broker's doors: each turns one protocol into calls to the broker."""
