"""What deploying the network needs: the VPC, its ways out, its groups."""

from __future__ import annotations

from typing import Final

from infra.permissions.needs import (
    REQUEST_TAG,
    UNTAGGED,
    Needs,
    anything,
    named,
    new,
    ours,
)

_TAGS = (
    # Tags that a creating request sets, and later changes of our own resources' tags.
    named("ec2", "CreateTags", "*/*", when={"Null": {"ec2:CreateAction": "false"}}),
    ours("ec2", "CreateTags DeleteTags", "*/*"),
)
_RULES = (
    ours(
        "ec2",
        "AuthorizeSecurityGroupEgress AuthorizeSecurityGroupIngress ModifySecurityGroupRules "
        "RevokeSecurityGroupEgress RevokeSecurityGroupIngress",
        "security-group/*",
    ),
    new(
        "ec2",
        "AuthorizeSecurityGroupEgress AuthorizeSecurityGroupIngress",
        "security-group-rule/*",
    ),
    ours("ec2", "ModifySecurityGroupRules", "security-group-rule/*"),
    anything("ec2", "DescribeSecurityGroupRules DescribeSecurityGroups"),
)
_CLAIM = {"StringEquals": REQUEST_TAG["StringEquals"], **UNTAGGED}

NETWORK: Final[Needs] = {
    "aws:ec2/vpc:Vpc": (
        new("ec2", "CreateVpc", "vpc/*"),
        ours("ec2", "DeleteVpc DescribeVpcAttribute ModifyVpcAttribute", "vpc/*"),
        anything(
            "ec2",
            "DescribeNetworkAcls DescribeRouteTables DescribeSecurityGroups DescribeVpcs",
        ),
        *_TAGS,
    ),
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": (
        # AWS creates this group with the VPC, without tags.
        named("ec2", "CreateTags", "security-group/*", when=_CLAIM),
        *_RULES,
    ),
    "aws:ec2/securityGroup:SecurityGroup": (
        new("ec2", "CreateSecurityGroup", "security-group/*"),
        ours("ec2", "CreateSecurityGroup", "vpc/*"),
        ours("ec2", "DeleteSecurityGroup", "security-group/*"),
        # Functions can leave network interfaces behind, which block the deletion of a group.
        anything("ec2", "DescribeNetworkInterfaces"),
        named("ec2", "DeleteNetworkInterface", "network-interface/*"),
        *_RULES,
        *_TAGS,
    ),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": (*_RULES, *_TAGS),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": (*_RULES, *_TAGS),
    "aws:ec2/subnet:Subnet": (
        new("ec2", "CreateSubnet", "subnet/*"),
        ours("ec2", "CreateSubnet", "vpc/*"),
        ours("ec2", "DeleteSubnet ModifySubnetAttribute", "subnet/*"),
        anything("ec2", "DescribeNetworkInterfaces DescribeSubnets"),
        *_TAGS,
    ),
    "aws:ec2/routeTable:RouteTable": (
        new("ec2", "CreateRouteTable", "route-table/*"),
        ours("ec2", "CreateRouteTable", "vpc/*"),
        ours("ec2", "DeleteRouteTable", "route-table/*"),
        anything("ec2", "DescribeRouteTables"),
        *_TAGS,
    ),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": (
        ours(
            "ec2",
            "AssociateRouteTable DisassociateRouteTable ReplaceRouteTableAssociation",
            "route-table/*",
            "subnet/*",
        ),
        anything("ec2", "DescribeRouteTables"),
    ),
    "aws:ec2/route:Route": (
        ours("ec2", "CreateRoute DeleteRoute ReplaceRoute", "route-table/*"),
        anything("ec2", "DescribeRouteTables"),
    ),
    "aws:ec2/internetGateway:InternetGateway": (
        new("ec2", "CreateInternetGateway", "internet-gateway/*"),
        ours("ec2", "AttachInternetGateway DetachInternetGateway", "internet-gateway/*", "vpc/*"),
        ours("ec2", "DeleteInternetGateway", "internet-gateway/*"),
        anything("ec2", "DescribeInternetGateways"),
        *_TAGS,
    ),
    "aws:ec2/vpcEndpoint:VpcEndpoint": (
        new("ec2", "CreateVpcEndpoint", "vpc-endpoint/*"),
        ours(
            "ec2",
            "CreateVpcEndpoint ModifyVpcEndpoint",
            *("route-table/*", "security-group/*", "subnet/*"),
        ),
        ours("ec2", "CreateVpcEndpoint", "vpc/*"),
        ours("ec2", "DeleteVpcEndpoints ModifyVpcEndpoint", "vpc-endpoint/*"),
        anything("ec2", "DescribePrefixLists DescribeVpcEndpoints"),
        # For the endpoint's private names.
        named("route53", "AssociateVPCWithHostedZone", "hostedzone/*"),
        *_TAGS,
    ),
    "aws:ec2/vpcEndpointService:VpcEndpointService": (
        new("ec2", "CreateVpcEndpointServiceConfiguration", "vpc-endpoint-service/*"),
        ours(
            "ec2",
            "DeleteVpcEndpointServiceConfigurations ModifyVpcEndpointServiceConfiguration "
            "ModifyVpcEndpointServicePermissions",
            "vpc-endpoint-service/*",
        ),
        anything(
            "ec2",
            "DescribeVpcEndpointServiceConfigurations",
        ),
        ours("ec2", "DescribeVpcEndpointServicePermissions", "vpc-endpoint-service/*"),
        *_TAGS,
    ),
    "aws:vpc/endpointServicePrivateDnsVerification:EndpointServicePrivateDnsVerification": (
        ours("ec2", "StartVpcEndpointServicePrivateDnsVerification", "vpc-endpoint-service/*"),
        anything("ec2", "DescribeVpcEndpointServiceConfigurations"),
    ),
}
