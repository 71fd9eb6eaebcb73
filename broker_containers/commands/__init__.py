"""The commands that run brokers: ``sulina up``, ``broker run``, ``cluster rebuild``.

The command line finds them by the entry points in pyproject.toml.
"""
