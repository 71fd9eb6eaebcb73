"""A complete cloud on one machine, without Docker: ``python -m localstack.cloud``.

It runs an emulated AWS with a bucket and settings, and a cluster like ``sulina up --brokers`` whose
closed ledgers are stored in the bucket. All data is in one folder; all processes stop together.
"""
