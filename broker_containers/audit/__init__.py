"""The audit trail: who did what, from where, by which door, and how it ended.

``trail`` is what doors and operations call, ``writer`` writes the records, and ``summaries`` keeps
a storm of equal events from becoming a storm of records. ``sulina.audit`` has the records' form.
"""
