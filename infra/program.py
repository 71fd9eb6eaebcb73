"""Puts the tiers together: this file is the picture of the architecture.

``deploy`` makes every resource and returns what people want to paste. It raises ``Wrong`` before
anything is made if the configuration is.
"""

from __future__ import annotations

from dataclasses import replace

import pulumi_aws as aws

from infra.analytics import Analytics
from infra.artefacts import check_built, packed_functions
from infra.balancer import Balancer
from infra.brokers import Brokers
from infra.catalogue import Catalogue
from infra.certificates import Certificates
from infra.config import ZONES, Settings
from infra.containers import Containers
from infra.coordination import Coordination
from infra.endpoints import Endpoints
from infra.firewall import Firewall
from infra.functions import Functions
from infra.ground import Ground
from infra.images import Images
from infra.keys import Keys
from infra.lake import LakeBuckets
from infra.names import Names
from infra.network import Network
from infra.observability import Observability
from infra.outputs import (
    Outputs,
    analytics_outputs,
    cluster_outputs,
    function_outputs,
    lake_outputs,
)
from infra.scaling import Scaling
from infra.schedules import Schedules
from infra.storage import Storage
from infra.tier import Deployment, Place
from infra.wrong import Wrong


def deploy(settings: Settings) -> Outputs:
    """Everything. Tiers that were left out by configuration leave out what needs them."""
    if settings.has("functions"):
        if not settings.functions_folder:
            packed = packed_functions(settings.architecture)
            settings = replace(settings, functions_folder=packed)
        check_built(settings.functions_folder, settings.jobs_folder)
    place = find_place()
    root = Deployment(settings)
    keys = Keys(settings, place, root)
    network = Network(settings, place, root)
    firewall = Firewall(settings, place, network, root)
    outputs: Outputs = {"vpc": network.vpc.id}
    lake = LakeBuckets(settings, place, keys, root)
    Endpoints(settings, place, network, firewall, [lake.lake.arn, lake.work.arn], root)
    outputs |= lake_outputs(lake)
    if not settings.has("catalogue"):
        return outputs
    catalogue = Catalogue(settings, place, lake, root)
    if not settings.has("cluster"):
        return outputs
    names = Names(settings, place, network, root)
    images = Images(settings, place, keys, root)
    containers = Containers(settings, place, images, root)
    inside = Certificates(settings, place, keys, root) if settings.inside_tls else None
    ground = Ground(settings, place, keys, network, firewall, names, images, containers, inside)
    coordination = Coordination(ground, root)
    storage = Storage(ground, lake, root)
    balancer = Balancer(ground, root)
    brokers = Brokers(ground, coordination, storage, balancer, root)
    Scaling(ground, brokers, root)
    outputs |= cluster_outputs(ground, brokers, balancer)
    if not settings.has("functions"):
        return outputs
    analytics = Analytics(ground, lake, catalogue, root)
    functions = Functions(ground, lake, catalogue, brokers, balancer, analytics, root)
    Schedules(settings, place, functions, root)
    outputs |= analytics_outputs(catalogue, analytics) | function_outputs(functions)
    if settings.has("observability"):
        members = [*coordination.members, *storage.members]
        seen = Observability(ground, members, balancer, functions, analytics, root)
        outputs["alarms"] = seen.topic.arn
        outputs["dashboard"] = (
            f"https://{place.region}.console.aws.amazon.com/cloudwatch/home"
            f"?region={place.region}#dashboards/dashboard/{settings.prefix}"
        )
    return outputs


def find_place() -> Place:
    """Account, region and zones, by asking AWS. Raises ``Wrong`` with fewer than three zones."""
    region = aws.get_region().region
    found = aws.get_availability_zones(
        state="available",
        filters=[
            aws.GetAvailabilityZonesFilterArgs(name="zone-type", values=["availability-zone"])
        ],
    ).names
    if len(found) < ZONES:
        raise Wrong(
            f"the region {region} offers {len(found)} zones and Sulina wants {ZONES}: choose "
            "another one with `pulumi config set aws:region <region>`"
        )
    return Place(
        account=aws.get_caller_identity().account_id,
        region=region,
        partition=aws.get_partition().partition,
        zones=tuple(sorted(found)[:ZONES]),
    )
