"""Topics as Iceberg tables: metadata only, over the objects that replays read.

* ``planning``: which objects a table takes next, and from which offset on it must forget. Pure.
* ``committing``: brings a table up to date, whatever else commits to it.
* ``iceberg``: a table in an Iceberg catalog, by pyiceberg; ``columns`` and ``data_file`` describe
  the objects in Iceberg's terms, ``catalogs`` opens a catalog by its URL.
* ``objects``: lists a topic's objects and reads their footers.
"""
