"""The storage node: entries of many ledgers, kept durably, behind one interface.

``entries`` has the interface that every backend offers, ``memory_store`` the one that forgets,
``journal`` the one that keeps entries on a disk.
"""
