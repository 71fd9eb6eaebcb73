"""The broker: opens topics when they are first used and runs their background work."""
