"""The permissions of the person or pipeline that deploys, as IAM policies."""
