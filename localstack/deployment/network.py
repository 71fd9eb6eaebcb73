"""VPC, subnets, groups and their rules, endpoints, names."""

from __future__ import annotations

from typing import Any

from localstack.deployment.account import EmulatedAccount, Made, makes
from localstack.deployment.inputs import ResourceInputs


def _tagged(kind: str, given: ResourceInputs) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": given.tags()}]


@makes("ec2/vpc:Vpc")
def vpc(account: EmulatedAccount, given: ResourceInputs) -> Made:
    ec2 = account.client("ec2")
    made = ec2.create_vpc(
        CidrBlock=given.take("cidrBlock"), TagSpecifications=_tagged("vpc", given)
    )["Vpc"]["VpcId"]
    for name in ("enableDnsHostnames", "enableDnsSupport"):
        value = {"Value": given.take(name)}
        ec2.modify_vpc_attribute(VpcId=made, **{name[0].upper() + name[1:]: value})
    return made, {}


@makes("ec2/defaultSecurityGroup:DefaultSecurityGroup")
def default_group(account: EmulatedAccount, given: ResourceInputs) -> Made:
    ec2 = account.client("ec2")
    only = [
        {"Name": "vpc-id", "Values": [given.take("vpcId")]},
        {"Name": "group-name", "Values": ["default"]},
    ]
    group = ec2.describe_security_groups(Filters=only)["SecurityGroups"][0]
    _empty(ec2, group)
    given.drop("tags")
    return group["GroupId"], {}


def _empty(ec2: Any, group: dict[str, Any]) -> None:
    for direction, rules in (("ingress", "IpPermissions"), ("egress", "IpPermissionsEgress")):
        if group[rules]:
            revoke = getattr(ec2, f"revoke_security_group_{direction}")
            revoke(GroupId=group["GroupId"], IpPermissions=group[rules])


@makes("ec2/securityGroup:SecurityGroup")
def group(account: EmulatedAccount, given: ResourceInputs) -> Made:
    ec2 = account.client("ec2")
    made = ec2.create_security_group(
        GroupName=given.take("name"),
        Description=given.take("description"),
        VpcId=given.take("vpcId"),
        TagSpecifications=_tagged("security-group", given),
    )["GroupId"]
    _empty(ec2, ec2.describe_security_groups(GroupIds=[made])["SecurityGroups"][0])
    return made, {}


def _rule(account: EmulatedAccount, given: ResourceInputs, direction: str) -> Made:
    permission: dict[str, Any] = {
        "IpProtocol": given.take("ipProtocol"),
        "FromPort": given.take("fromPort"),
        "ToPort": given.take("toPort"),
    }
    block, other = given.may("cidrIpv4"), given.may("referencedSecurityGroupId")
    prefixes = given.may("prefixListId")
    if block:
        permission["IpRanges"] = [{"CidrIp": block}]
    if other:
        permission["UserIdGroupPairs"] = [{"GroupId": other}]
    if prefixes:
        permission["PrefixListIds"] = [{"PrefixListId": prefixes}]
    permit = getattr(account.client("ec2"), f"authorize_security_group_{direction}")
    made = permit(
        GroupId=given.take("securityGroupId"),
        IpPermissions=[permission],
        TagSpecifications=_tagged("security-group-rule", given),
    )
    return made["SecurityGroupRules"][0]["SecurityGroupRuleId"], {}


@makes("vpc/securityGroupIngressRule:SecurityGroupIngressRule")
def ingress(account: EmulatedAccount, given: ResourceInputs) -> Made:
    return _rule(account, given, "ingress")


@makes("vpc/securityGroupEgressRule:SecurityGroupEgressRule")
def egress(account: EmulatedAccount, given: ResourceInputs) -> Made:
    return _rule(account, given, "egress")


@makes("ec2/subnet:Subnet")
def subnet(account: EmulatedAccount, given: ResourceInputs) -> Made:
    ec2 = account.client("ec2")
    public = given.take("mapPublicIpOnLaunch")
    tags = _tagged("subnet", given)
    made = ec2.create_subnet(TagSpecifications=tags, **given.pascal())["Subnet"]["SubnetId"]
    ec2.modify_subnet_attribute(SubnetId=made, MapPublicIpOnLaunch={"Value": public})
    return made, {}


@makes("ec2/routeTable:RouteTable")
def route_table(account: EmulatedAccount, given: ResourceInputs) -> Made:
    tags = _tagged("route-table", given)
    made = account.client("ec2").create_route_table(TagSpecifications=tags, **given.pascal())
    return made["RouteTable"]["RouteTableId"], {}


@makes("ec2/routeTableAssociation:RouteTableAssociation")
def association(account: EmulatedAccount, given: ResourceInputs) -> Made:
    return account.client("ec2").associate_route_table(**given.pascal())["AssociationId"], {}


@makes("ec2/internetGateway:InternetGateway")
def gateway(account: EmulatedAccount, given: ResourceInputs) -> Made:
    ec2 = account.client("ec2")
    tags = _tagged("internet-gateway", given)
    made = ec2.create_internet_gateway(TagSpecifications=tags)["InternetGateway"]
    ec2.attach_internet_gateway(
        InternetGatewayId=made["InternetGatewayId"], VpcId=given.take("vpcId")
    )
    return made["InternetGatewayId"], {}


@makes("ec2/route:Route")
def route(account: EmulatedAccount, given: ResourceInputs) -> Made:
    account.client("ec2").create_route(**given.pascal())
    return "route", {}


@makes("ec2/vpcEndpoint:VpcEndpoint")
def endpoint(account: EmulatedAccount, given: ResourceInputs) -> Made:
    ec2 = account.client("ec2")
    policy = given.may("policy")
    tags = _tagged("vpc-endpoint", given)
    request = given.pascal()
    if policy:
        request["PolicyDocument"] = policy
    made = ec2.create_vpc_endpoint(TagSpecifications=tags, **request)["VpcEndpoint"]
    lists = ec2.describe_managed_prefix_lists()["PrefixLists"]
    s3 = [each["PrefixListId"] for each in lists if each["PrefixListName"].endswith(".s3")]
    return made["VpcEndpointId"], {"prefixListId": s3[0]}


@makes("servicediscovery/privateDnsNamespace:PrivateDnsNamespace")
def namespace(account: EmulatedAccount, given: ResourceInputs) -> Made:
    names = account.client("servicediscovery")
    tags = given.tags()
    wanted = given.pascal()
    names.create_private_dns_namespace(Tags=tags, CreatorRequestId="infra", **wanted)
    listed = names.list_namespaces()["Namespaces"]
    found = next(each for each in listed if each["Name"] == wanted["Name"])
    zone = found["Properties"]["DnsProperties"]["HostedZoneId"]
    return found["Id"], {"hostedZone": zone, "arn": found["Arn"]}


@makes("servicediscovery/service:Service")
def service(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("forceDestroy")
    tags = given.tags()
    config = given.take("dnsConfig")
    records = [{"Type": each["type"], "TTL": each["ttl"]} for each in config["dnsRecords"]]
    made = account.client("servicediscovery").create_service(
        Name=given.take("name"),
        NamespaceId=config["namespaceId"],
        DnsConfig={"DnsRecords": records, "RoutingPolicy": config["routingPolicy"]},
        Tags=tags,
    )["Service"]
    return made["Id"], {"arn": made["Arn"]}


@makes("servicediscovery/instance:Instance")
def registered(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("instanceId")
    account.client("servicediscovery").register_instance(
        InstanceId=name,
        ServiceId=given.take("serviceId"),
        Attributes=given.take("attributes"),
        CreatorRequestId="infra",
    )
    return name, {}


@makes("route53/record:Record")
def record(account: EmulatedAccount, given: ResourceInputs) -> Made:
    zone, name, kind = given.take("zoneId"), given.take("name"), given.take("type")
    wanted: dict[str, Any] = {"Name": name, "Type": kind}
    for alias in given.may("aliases", []):
        wanted["AliasTarget"] = {
            "DNSName": alias["name"],
            "HostedZoneId": alias["zoneId"],
            "EvaluateTargetHealth": alias["evaluateTargetHealth"],
        }
    values = given.may("records")
    if values:
        wanted["TTL"] = given.take("ttl")
        wanted["ResourceRecords"] = [{"Value": value} for value in values]
    account.client("route53").change_resource_record_sets(
        HostedZoneId=zone,
        ChangeBatch={"Changes": [{"Action": "CREATE", "ResourceRecordSet": wanted}]},
    )
    return f"{zone}_{name}_{kind}", {"fqdn": name}
