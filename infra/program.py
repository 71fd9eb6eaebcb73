"""Assembles the deployment: this file shows the architecture."""

from __future__ import annotations

from dataclasses import replace

import pulumi
import pulumi_aws as aws

from infra.artifacts import check_built, packed_functions
from infra.cluster.brokers import BrokerService
from infra.cluster.containers import Containers
from infra.cluster.etcd import Etcd
from infra.cluster.images import IMAGES, Images
from infra.cluster.load_balancer import LoadBalancer
from infra.cluster.scaling import Scaling
from infra.cluster.shared import SharedResources
from infra.cluster.storage_nodes import StorageNodeGroup
from infra.component import DeletionGuard, Deployment, Region
from infra.config.settings import ZONES, StackSettings
from infra.cost.estimate import sentence
from infra.errors import DeploymentError
from infra.functions.functions import Functions
from infra.functions.schedules import Schedules
from infra.lake.buckets import LakeBuckets
from infra.lake.catalog import Catalog
from infra.lake.spark import SparkApplication
from infra.network.dns import PrivateDns
from infra.network.firewall import Firewall
from infra.network.nat import Nat
from infra.network.vpc import VpcNetwork, check_network
from infra.network.vpc_endpoints import VpcEndpoints
from infra.observability.alarms import Observability
from infra.observability.prometheus import Prometheus
from infra.outputs import (
    Outputs,
    analytics_outputs,
    cluster_outputs,
    function_outputs,
    lake_outputs,
    prometheus_outputs,
)
from infra.progress import announce, done
from infra.security.certificates import Certificates
from infra.security.keys import Keys


def deploy(settings: StackSettings) -> Outputs:
    """Create the layers that ``settings.up_to`` includes, and return the stack's outputs.

    Raises ``DeploymentError`` before any resource is changed if a build is missing, or if the
    settings ask for what cannot be changed.
    """
    if settings.has("functions"):
        if not settings.functions_folder:
            packed = packed_functions(settings.architecture)
            settings = replace(settings, functions_folder=packed)
        check_built(settings.functions_folder, settings.jobs_folder, settings.architecture)
    cost = sentence(settings)
    pulumi.log.info(cost)
    announce(settings)
    region = find_region(settings.zones)
    check_network(settings)
    root = Deployment(settings, region)
    outputs: Outputs = {**_layers(root), "monthlyCost": cost}
    DeletionGuard(root)
    return outputs


def _layers(root: Deployment) -> Outputs:
    """Create the layers, and return what each of them tells the people who use it."""
    settings, region = root.settings, root.region
    keys = Keys(root)
    network = VpcNetwork(root)
    firewall = Firewall(network, root)
    outputs: Outputs = {"vpc": network.vpc.id}
    lake = LakeBuckets(keys, root)
    endpoints = VpcEndpoints(network, firewall, [lake.lake.arn, lake.work.arn], root)
    ways_out: tuple[pulumi.Resource, ...] = (endpoints,)
    outputs |= lake_outputs(lake)
    done("network, keys and buckets", network.vpc.id, keys.data.id, lake.lake.bucket.id)
    if not settings.has("catalog"):
        return outputs
    catalog = Catalog(lake, root)
    if not settings.has("cluster"):
        return outputs
    if settings.egress == "nat":
        ways_out += (Nat(keys, network, firewall, root),)
    dns = PrivateDns(network, root)
    images = Images(keys, root)
    containers = Containers(images, root)
    certificates = Certificates(keys, root) if settings.internal_tls else None
    shared = SharedResources(
        keys, network, firewall, dns, images, containers, ways_out, certificates
    )
    etcd = Etcd(shared, root)
    storage = StorageNodeGroup(shared, lake, root)
    members = [*etcd.members, *storage.members]
    balancer = LoadBalancer(shared, root)
    brokers = BrokerService(shared, etcd, storage, balancer, root)
    balancer.publish([brokers.service])
    Scaling(shared, brokers, root)
    if settings.runs:
        done("images", *(images.reference(each) for each in IMAGES))
        for member in members:
            done(f"{member.name} runs", member.service.id)
    done("load balancer", *(each.id for each in balancer.listeners))
    if settings.runs:
        done("brokers run", brokers.service.id)
    outputs |= cluster_outputs(shared, brokers, balancer)
    if not settings.has("functions"):
        return outputs
    spark = SparkApplication(network, firewall, lake, catalog, root)
    functions = Functions(shared, lake, catalog, brokers, balancer, spark, root)
    Schedules(functions, root)
    outputs |= analytics_outputs(catalog, spark) | function_outputs(functions)
    done("functions and Spark", spark.application.id, functions.url.function_url)
    if settings.has("observability"):
        monitored = Observability(shared, members, balancer, functions, spark, root)
        outputs["alarms"] = monitored.topic.arn
        outputs["dashboard"] = (
            f"https://{region.name}.console.aws.amazon.com/cloudwatch/home"
            f"?region={region.name}#dashboards/dashboard/{settings.prefix}"
        )
        if settings.prometheus:
            outputs |= prometheus_outputs(Prometheus(lake, monitored.topic, root))
    return outputs


def find_region(zones: int) -> Region:
    """Look up account, region and zones. Raises ``DeploymentError`` if there are too few zones.

    With one zone, the region has it three times: the subnets are the same, in the same place.
    """
    name = aws.get_region().region
    found = aws.get_availability_zones(
        state="available",
        filters=[
            aws.GetAvailabilityZonesFilterArgs(name="zone-type", values=["availability-zone"])
        ],
    ).names
    if len(found) < zones:
        raise DeploymentError(
            f"the region {name} has {len(found)} availability zones but Sulina needs {zones}: "
            "choose another region with `pulumi config set aws:region <region>`"
        )
    return Region(
        account=aws.get_caller_identity().account_id,
        name=name,
        partition=aws.get_partition().partition,
        zones=tuple(sorted(found)[:zones] * (ZONES // zones)),
    )
