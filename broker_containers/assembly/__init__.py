"""The composition root: assembles a broker from its parts, for each of the three ways to run one.

``services`` builds what all doors share, ``running`` opens the broker and its doors over it, and
``single`` and ``cluster`` supply what differs: metadata store, ledgers and ownership of topics.
"""
