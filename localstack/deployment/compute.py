"""Roles, machines, containers, load balancers, scaling."""

from __future__ import annotations

import json
from typing import Any

from localstack.deployment.account import EmulatedAccount, Made, makes
from localstack.deployment.inputs import ResourceInputs, pascal


@makes("iam/role:Role")
def role(account: EmulatedAccount, given: ResourceInputs) -> Made:
    made = account.client("iam").create_role(
        RoleName=given.take("name"),
        AssumeRolePolicyDocument=given.take("assumeRolePolicy"),
        Tags=given.tags(),
    )["Role"]
    return made["RoleName"], {"arn": made["Arn"], "name": made["RoleName"]}


@makes("iam/rolePolicy:RolePolicy")
def role_policy(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name, role = given.take("name"), given.take("role")
    account.client("iam").put_role_policy(
        RoleName=role, PolicyName=name, PolicyDocument=given.take("policy")
    )
    return f"{role}:{name}", {}


@makes("iam/policy:Policy")
def policy(account: EmulatedAccount, given: ResourceInputs) -> Made:
    made = account.client("iam").create_policy(
        PolicyName=given.take("name"),
        PolicyDocument=given.take("policy"),
        Description=given.take("description"),
        Tags=given.tags(),
    )["Policy"]
    return made["Arn"], {"arn": made["Arn"], "name": made["PolicyName"]}


@makes("iam/instanceProfile:InstanceProfile")
def profile(account: EmulatedAccount, given: ResourceInputs) -> Made:
    iam, name = account.client("iam"), given.take("name")
    made = iam.create_instance_profile(InstanceProfileName=name, Tags=given.tags())
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=given.take("role"))
    return name, {"arn": made["InstanceProfile"]["Arn"], "name": name}


_PROFILE = "iamInstanceProfile"


@makes("ec2/instance:Instance")
def instance(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("forceDestroy")
    root: dict[str, Any] = given.take("rootBlockDevice")
    ec2, forwards = account.client("ec2"), not given.may("sourceDestCheck", True)
    optional = {
        "IamInstanceProfile": {"Name": profile} if (profile := given.may(_PROFILE)) else None,
        "DisableApiTermination": given.may("disableApiTermination"),
        "EbsOptimized": given.may("ebsOptimized"),
    }
    address = given.may("privateIp")
    made = ec2.run_instances(
        ImageId=given.take("ami"),
        InstanceType=given.take("instanceType"),
        MinCount=1,
        MaxCount=1,
        NetworkInterfaces=[
            {
                "DeviceIndex": 0,
                "SubnetId": given.take("subnetId"),
                **({"PrivateIpAddress": address} if address else {}),
                "Groups": given.take("vpcSecurityGroupIds"),
                "AssociatePublicIpAddress": given.take("associatePublicIpAddress"),
            }
        ],
        UserData=given.take("userData"),
        MetadataOptions=pascal(given.take("metadataOptions")),
        MaintenanceOptions=pascal(given.take("maintenanceOptions")),
        BlockDeviceMappings=[
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {
                    "VolumeType": root["volumeType"],
                    "VolumeSize": root["volumeSize"],
                    "Encrypted": root["encrypted"],
                    "KmsKeyId": root["kmsKeyId"],
                },
            }
        ],
        TagSpecifications=[{"ResourceType": "instance", "Tags": given.tags()}],
        **{name: value for name, value in optional.items() if value is not None},
    )["Instances"][0]
    if forwards:
        ec2.modify_instance_attribute(
            InstanceId=made["InstanceId"], SourceDestCheck={"Value": False}
        )
    interface = made["NetworkInterfaces"][0]["NetworkInterfaceId"]
    return made["InstanceId"], {
        "privateIp": made["PrivateIpAddress"],
        "primaryNetworkInterfaceId": interface,
    }


@makes("ecs/cluster:Cluster")
def cluster(account: EmulatedAccount, given: ResourceInputs) -> Made:
    made = account.client("ecs").create_cluster(
        clusterName=given.take("name"),
        settings=given.take("settings"),
        tags=given.tags("key", "value"),
    )["cluster"]
    return made["clusterArn"], {"arn": made["clusterArn"], "name": made["clusterName"]}


@makes("ecs/clusterCapacityProviders:ClusterCapacityProviders")
def capacity_providers(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("clusterName")
    account.client("ecs").put_cluster_capacity_providers(
        cluster=name,
        capacityProviders=given.take("capacityProviders"),
        defaultCapacityProviderStrategy=[],
    )
    return name, {}


@makes("ecs/taskDefinition:TaskDefinition")
def task_definition(account: EmulatedAccount, given: ResourceInputs) -> Made:
    volumes = [
        {
            "name": each["name"],
            **({"host": {"sourcePath": each["hostPath"]}} if "hostPath" in each else {}),
        }
        for each in given.may("volumes", [])
    ]
    containers = json.loads(given.take("containerDefinitions"))
    for container in containers:
        # For machines AWS is content with a reservation; moto wants a limit.
        container.setdefault("memory", 2 * container.get("memoryReservation", 1_024))
    platform = given.may("runtimePlatform")
    made = account.client("ecs").register_task_definition(
        containerDefinitions=containers,
        volumes=volumes,
        tags=given.tags("key", "value"),
        **(
            {
                "runtimePlatform": {
                    "cpuArchitecture": platform["cpuArchitecture"],
                    "operatingSystemFamily": platform["operatingSystemFamily"],
                }
            }
            if platform
            else {}
        ),
        **given.rest(),
    )["taskDefinition"]
    return made["family"], {"arn": made["taskDefinitionArn"]}


@makes("ecs/service:Service")
def service(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("waitForSteadyState", "forceNewDeployment", "triggers")
    name = given.take("name")
    deployment: dict[str, Any] = {
        "minimumHealthyPercent": given.take("deploymentMinimumHealthyPercent"),
        "maximumPercent": given.take("deploymentMaximumPercent"),
    }
    breaker = given.may("deploymentCircuitBreaker")
    if breaker:
        deployment["deploymentCircuitBreaker"] = breaker
    more: dict[str, Any] = {}
    network = given.may("networkConfiguration")
    if network:
        public = "ENABLED" if network["assignPublicIp"] else "DISABLED"
        more["networkConfiguration"] = {
            "awsvpcConfiguration": {
                "subnets": network["subnets"],
                "securityGroups": network["securityGroups"],
                "assignPublicIp": public,
            }
        }
    strategies = given.may("capacityProviderStrategies")
    if strategies:
        more["capacityProviderStrategy"] = strategies
    registries = given.may("serviceRegistries")
    if registries:
        more["serviceRegistries"] = [registries]
    made = account.client("ecs").create_service(
        serviceName=name,
        deploymentConfiguration=deployment,
        enableECSManagedTags=given.take("enableEcsManagedTags"),
        tags=given.tags("key", "value"),
        **more,
        **given.rest(),
    )["service"]
    return made["serviceArn"], {"arn": made["serviceArn"], "name": name}


@makes("lb/loadBalancer:LoadBalancer")
def load_balancer(account: EmulatedAccount, given: ResourceInputs) -> Made:
    elb = account.client("elbv2")
    attributes = {
        "load_balancing.cross_zone.enabled": given.take("enableCrossZoneLoadBalancing"),
        "deletion_protection.enabled": given.take("enableDeletionProtection"),
    }
    made = elb.create_load_balancer(
        Name=given.take("name"),
        Type=given.take("loadBalancerType"),
        Scheme="internal" if given.take("internal") else "internet-facing",
        Subnets=given.take("subnets"),
        SecurityGroups=given.take("securityGroups"),
        Tags=given.tags(),
    )["LoadBalancers"][0]
    arn = made["LoadBalancerArn"]
    elb.modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=_attributes(attributes))
    return arn, {
        "arn": arn,
        "arnSuffix": arn.split(":loadbalancer/")[1],
        "dnsName": made["DNSName"],
        "zoneId": made["CanonicalHostedZoneId"],
    }


def _attributes(values: dict[str, Any]) -> list[dict[str, str]]:
    return [{"Key": name, "Value": json.dumps(value).strip('"')} for name, value in values.items()]


@makes("lb/targetGroup:TargetGroup")
def target_group(account: EmulatedAccount, given: ResourceInputs) -> Made:
    elb = account.client("elbv2")
    check = given.take("healthCheck")
    attributes = {
        "deregistration_delay.timeout_seconds": given.take("deregistrationDelay"),
        "deregistration_delay.connection_termination.enabled": given.take("connectionTermination"),
        "preserve_client_ip.enabled": given.take("preserveClientIp"),
    }
    tags = given.tags()
    made = elb.create_target_group(
        HealthCheckProtocol=check["protocol"],
        HealthCheckPort=check["port"],
        HealthCheckPath=check["path"],
        HealthCheckIntervalSeconds=check["interval"],
        HealthCheckTimeoutSeconds=check["timeout"],
        HealthyThresholdCount=check["healthyThreshold"],
        UnhealthyThresholdCount=check["unhealthyThreshold"],
        Matcher={"HttpCode": check["matcher"]},
        Tags=tags,
        **given.pascal(),
    )["TargetGroups"][0]
    arn = made["TargetGroupArn"]
    elb.modify_target_group_attributes(TargetGroupArn=arn, Attributes=_attributes(attributes))
    return arn, {"arn": arn, "arnSuffix": arn.rpartition(":")[2]}


@makes("lb/listener:Listener")
def listener(account: EmulatedAccount, given: ResourceInputs) -> Made:
    certificate, alpn = given.may("certificateArn"), given.may("alpnPolicy")
    tags = given.tags()
    request = given.pascal()
    if certificate:
        request["Certificates"] = [{"CertificateArn": certificate}]
    if alpn:
        request["AlpnPolicy"] = [alpn]
    made = account.client("elbv2").create_listener(Tags=tags, **request)["Listeners"][0]
    return made["ListenerArn"], {"arn": made["ListenerArn"]}


@makes("acm/certificate:Certificate")
def certificate(account: EmulatedAccount, given: ResourceInputs) -> Made:
    acm, tags = account.client("acm"), given.tags()
    arn = acm.request_certificate(Tags=tags, **given.pascal())["CertificateArn"]
    found = acm.describe_certificate(CertificateArn=arn)["Certificate"]
    proof = found["DomainValidationOptions"][0]["ResourceRecord"]
    option = {
        "resourceRecordName": proof["Name"],
        "resourceRecordType": proof["Type"],
        "resourceRecordValue": proof["Value"],
    }
    return arn, {"arn": arn, "domainValidationOptions": [option]}


@makes("acm/certificateValidation:CertificateValidation")
def validation(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("validationRecordFqdns")
    return given.take("certificateArn"), {}


@makes("appautoscaling/target:Target")
def scaled(account: EmulatedAccount, given: ResourceInputs) -> Made:
    tags = given.may("tags")
    request = given.pascal()
    account.client("application-autoscaling").register_scalable_target(Tags=tags, **request)
    return request["ResourceId"], {}


@makes("appautoscaling/policy:Policy")
def scaling(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("name")
    request = given.pascal()
    made = account.client("application-autoscaling").put_scaling_policy(PolicyName=name, **request)
    return made["PolicyARN"], {"arn": made["PolicyARN"]}
