"""Typed columns: payloads of a topic with a schema as a table. docs/lake.md has the rules.

For users of this package:

* ``schema_version.SchemaVersion``: a version of a subject, as the registry has it.
* ``table.table_schema(versions)``: the ``TableSchema`` of all versions. Its ``columns`` have stable
  field ids, names, kinds, defaults and children; ``arrow_type`` is the struct ``value`` with the
  ids in its metadata, as Parquet stores them; ``as_of(number)`` is the table of one version, with
  the same ids. Any process computes the same from the same versions.
* ``columns.PayloadDecoder(table).decode(payloads, ids, numbers)``: the columns ``value`` and
  ``value_error`` of records, each decoded with the version it names.

Within, ``*_shape`` parses a schema to a ``Shape``, ``*_rows`` decodes one payload and defines what
is right, ``*_columns`` decodes many at once and leaves to ``*_rows`` what it cannot vouch for, and
``resolve`` reads a version's values into the table's columns by id.
"""
