"""The VPC, its security groups, private endpoints and internal DNS."""
