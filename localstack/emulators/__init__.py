"""Servers that stand in for a cloud's services, each as a child process of the caller.

One file a server, each with ``running_<server>(folder)`` for ``with``, which starts it on free
ports of 127.0.0.1, waits until it answers, and kills it at the end. What a server needs is
installed the first time (see :mod:`localstack.environments`). None of this is for use inside an
event loop: starting blocks.
"""
