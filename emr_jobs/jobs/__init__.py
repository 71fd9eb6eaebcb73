"""Spark jobs on topics, scheduled or run by hand with ``python -m emr_jobs.jobs.<name>``.

The same modules run in local mode, against an emulated S3 and on EMR Serverless, where
``emr_jobs.submit`` starts them. docs/jobs.md describes them.
"""
