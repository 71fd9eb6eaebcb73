"""What deploying names, their certificates, and Managed Prometheus needs."""

from __future__ import annotations

from typing import Final

from infra.permissions.needs import Needs, anything, named, new, ours

_TAGS = "ListTagsForResource TagResource UntagResource"

NAMES: Final[Needs] = {
    "aws:servicediscovery/privateDnsNamespace:PrivateDnsNamespace": (
        new("servicediscovery", "CreatePrivateDnsNamespace"),
        ours(
            "servicediscovery",
            "DeleteNamespace GetNamespace GetOperation UpdatePrivateDnsNamespace",
            "namespace/*",
        ),
        anything("servicediscovery", "ListTagsForResource TagResource UntagResource"),
        anything("route53", "CreateHostedZone ListHostedZonesByName"),
        named(
            "route53",
            "AssociateVPCWithHostedZone ChangeResourceRecordSets DeleteHostedZone GetHostedZone",
            "hostedzone/*",
        ),
        anything("ec2", "DescribeRegions DescribeVpcs"),
    ),
    "aws:servicediscovery/service:Service": (
        ours("servicediscovery", "CreateService", "namespace/*"),
        ours(
            "servicediscovery",
            "DeleteService GetOperation GetService ListInstances UpdateService",
            "service/*",
        ),
        anything("servicediscovery", "ListTagsForResource TagResource UntagResource"),
    ),
    "aws:servicediscovery/instance:Instance": (
        ours(
            "servicediscovery",
            "DeregisterInstance GetInstance GetOperation RegisterInstance",
            "service/*",
        ),
        named("route53", "ChangeResourceRecordSets", "hostedzone/*"),
    ),
    "aws:acm/certificate:Certificate": (
        new("acm", "RequestCertificate"),
        ours(
            "acm",
            "AddTagsToCertificate DeleteCertificate DescribeCertificate ListTagsForCertificate "
            "RemoveTagsFromCertificate",
            "certificate/*",
        ),
        # Tags of a request for a certificate.
        new("acm", "AddTagsToCertificate", "certificate/*"),
    ),
    "aws:acm/certificateValidation:CertificateValidation": (
        ours("acm", "DescribeCertificate", "certificate/*"),
    ),
    "aws:route53/record:Record": (
        named(
            "route53",
            "ChangeResourceRecordSets GetHostedZone ListResourceRecordSets",
            "hostedzone/*",
        ),
        named("route53", "GetChange", "change/*"),
    ),
    "aws:amp/workspace:Workspace": (
        new("aps", "CreateWorkspace"),
        ours(
            "aps",
            f"DeleteWorkspace DescribeWorkspace UpdateWorkspaceAlias {_TAGS}",
            "workspace/*",
        ),
        new("aps", "TagResource", "workspace/*"),
    ),
    "aws:amp/ruleGroupNamespace:RuleGroupNamespace": (
        ours(
            "aps",
            "CreateRuleGroupsNamespace DeleteRuleGroupsNamespace DescribeRuleGroupsNamespace "
            f"PutRuleGroupsNamespace {_TAGS}",
            "rulegroupsnamespace/*/sulina",
        ),
        new("aps", "CreateRuleGroupsNamespace TagResource", "rulegroupsnamespace/*/sulina"),
    ),
    "aws:amp/alertManagerDefinition:AlertManagerDefinition": (
        ours(
            "aps",
            "CreateAlertManagerDefinition DeleteAlertManagerDefinition "
            "DescribeAlertManagerDefinition PutAlertManagerDefinition",
            "workspace/*",
        ),
    ),
}
