"""A cluster of processes on one machine: its ports, its processes, and their supervisor."""
