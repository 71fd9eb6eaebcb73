"""Subscriptions: who gets which record, what was acknowledged, what comes again.

``window`` and ``dispatcher`` decide and never wait; ``subscription`` runs them with the frames
that ``reading`` brings.
"""
