"""Ledgers in S3, the Glue table over them, and Spark on EMR Serverless."""
