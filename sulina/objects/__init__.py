"""Object stores: whole objects by name, made once, read in parts, never changed.

``store`` is the interface, ``opening`` finds the implementation for a URL: ``s3``, ``folder``,
``gcs``, ``azure``, ``redis``, ``tikv`` and ``memory``. One contract suite, tests/objects, runs
against all of them.
"""
