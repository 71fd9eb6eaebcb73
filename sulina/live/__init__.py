"""A topic's history and its tail in one read, each record once.

* ``snapshot``: which records a read has, and where each is: in an object of the lake, or at the
  brokers. This is the cut-over.
* ``tail``: reads records from the brokers as Arrow columns.
* ``schemas``: the versions of a topic's schema, for typed columns.
* ``connection``: a client for blocking code, such as DuckDB's and Spark's.
"""
