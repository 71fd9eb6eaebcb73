"""Subscriptions: which consumer gets which record, acknowledgements, redelivery, cursors.

``delivery_window`` and ``dispatcher`` decide and never wait; ``subscription`` runs them on the
event loop with the frames that ``frame_reader`` reads.
"""
