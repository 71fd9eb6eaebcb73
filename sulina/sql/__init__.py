"""SQL on topics: DuckDB over a topic's history in the lake and its tail at the brokers.

* ``skipping``: which parts a filter excludes without reading them.
* ``dataset``: a topic as an Arrow dataset, which DuckDB scans with its columns and filters.
* ``names``: the topics that a query names.
* ``session``: runs queries.
"""
