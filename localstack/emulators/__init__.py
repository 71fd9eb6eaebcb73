"""Emulators of cloud services, each as a child process of the caller.

There is one module per emulator, with ``running_<server>(folder)`` for ``with``, which starts it on
free ports of 127.0.0.1, waits until it answers, and kills it at the end. Packages are installed on
first use (:mod:`localstack.environments`). Starting blocks, so do not use it in an event loop.
"""
