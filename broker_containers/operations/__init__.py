"""Runs the administrative operations that ``sulina.operations`` declares.

``running`` looks an operation up, authorizes the caller, forwards it to the broker that must run it
and calls its handler. The other modules hold the handlers: one class per subject, each method
marked with the operation it handles. ``single_broker`` and ``cluster`` have those that differ
between the two. ``reference`` writes docs/reference/operations.md.
"""
