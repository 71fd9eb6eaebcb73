"""A simulator of load balancing: the real decision code with simulated brokers, topics and time.

``workload`` generates the load, ``world`` the brokers and their reports; ``run`` simulates hours
with the real ``LoadManager``; ``start`` measures single plans from random starts. All results
follow from a seed, and nothing waits for real time.
"""
