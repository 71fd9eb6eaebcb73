"""Makes Pulumi's resources with boto3 on an emulated AWS: what AWS's own model refuses, fails."""
