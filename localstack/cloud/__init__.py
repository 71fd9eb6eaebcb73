"""A whole cloud on one machine, without Docker: ``python -m localstack.cloud``.

An emulated AWS, with a bucket and settings made in it; etcd, storage nodes and brokers as
``sulina up --brokers`` runs them, whose closed ledgers go to the bucket; all in one folder, all
ended together.
"""
