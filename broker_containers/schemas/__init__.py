"""The schema registry: subjects with versions, compatibility, and the checking of payloads.

``registry`` is what doors call. ``formats`` knows the languages of schemas, a file each;
``compatibility`` compares versions; ``gate`` decides about the messages of one topic.
"""
