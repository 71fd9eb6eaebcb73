"""Runs the Pulumi program without Pulumi's engine, and creates its resources with boto3.

The program decides what is created: there is no second list of resources here. Each type of
resource has one function that turns the program's inputs into requests of AWS's API; what AWS's
own model of a request does not know fails.
"""
