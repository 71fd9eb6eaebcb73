"""The schema registry: subjects with versions, compatibility, and validation of payloads.

``registry`` is what operations call. ``formats`` loads the schema languages, one file each;
``compatibility`` compares versions; ``checks`` validates the messages of topics.
"""
