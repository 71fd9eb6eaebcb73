"""Sulina on AWS: the Pulumi program."""
