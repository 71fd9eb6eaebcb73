"""The endpoint that clients connect to: a network load balancer with one listener per protocol.

With a certificate, TLS ends here, and the load balancer opens its own TLS connections to brokers.
Otherwise it passes TLS through: clients then see the brokers' certificate, and brokers that of the
client. A public load balancer has no listener for administration (50051).

A change of ``public`` or of the protocol replaces the load balancer or its target groups. The new
ones have other names and are created first, which the engine has to be told: what has a fixed name
it would delete first. The DNS record changes once brokers serve the new ones.
Nothing protects a load balancer from being deleted: it holds no data, and protection would prevent
its replacement.

Health checks use ``/health/live``, not readiness: ECS replaces a container whose health check
fails, and a broker that has lost etcd for a while is not ready but must keep serving.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.cluster.shared import SharedResources
from infra.component import Component, Deployment
from infra.network import ports
from infra.network.firewall import listener_ports
from infra.network.vpc import VpcNetwork

LISTENERS: Final = {
    ports.BINARY: "binary",
    ports.GRPC: "grpc",
    ports.HTTP: "http",
    ports.ADMIN: "admin",
}
_SHORT: Final = {ports.BINARY: "bin", ports.GRPC: "rpc", ports.HTTP: "web", ports.ADMIN: "adm"}
"""The name of a target group has at most 32 characters."""
_ALPN: Final = {ports.GRPC: "HTTP2Only", ports.ADMIN: "HTTP2Only"}
"""gRPC clients require that TLS negotiates HTTP/2."""
_TLS_POLICY: Final = "ELBSecurityPolicy-TLS13-1-2-2021-06"
_DRAIN_SECONDS: Final = 30


class LoadBalancer(Component):
    """The load balancer, its listeners, target groups and certificate.

    ``publish`` adds the DNS record, ``private_link`` the service for other accounts.
    """

    def __init__(self, shared: SharedResources, parent: Deployment) -> None:
        super().__init__("LoadBalancer", parent)
        settings, network, endpoint = self.settings, shared.network, self.settings.endpoint
        subnets = network.edge if endpoint.public else network.work
        self.balancer = aws.lb.LoadBalancer(
            "clients",
            name=self.named("pub" if endpoint.public else "int"),
            load_balancer_type="network",
            internal=not endpoint.public,
            # At most one subnet of a zone.
            subnets=[subnet.id for subnet in subnets[: settings.zones]],
            security_groups=[shared.firewall.group_id("balancer")],
            enable_cross_zone_load_balancing=True,
            enable_deletion_protection=False,
            # PrivateLink has its own list of who may connect, and shows addresses of its own.
            enforce_security_group_inbound_rules_on_private_link_traffic="off"
            if endpoint.private_link
            else None,
            opts=self.within(
                delete_before_replace=False,
                # AWS refuses public addresses in a network without an internet gateway, and to
                # remove the gateway of a network with public addresses.
                depends_on=[network.internet] if endpoint.public else [],
            ),
        )
        certificate = self._certificate()
        self.targets = {port: self._target(port, network) for port in listener_ports(settings)}
        self.listeners = [
            self._listener(port, target, certificate) for port, target in self.targets.items()
        ]
        self.host: pulumi.Output[str] = pulumi.Output.from_input(
            endpoint.domain or self.balancer.dns_name
        )
        self.private_link = self._private_link() if endpoint.private_link else None
        self.register_outputs({"host": self.host})

    def url(self, port: int) -> pulumi.Output[str]:
        """The URL with which clients connect to a port."""
        tls = self.settings.internal_tls
        if port == ports.BINARY:
            scheme = "sulina+tls" if tls else "sulina"
        else:
            scheme = "https" if tls else "http"
        return pulumi.Output.concat(f"{scheme}://", self.host, f":{port}")

    def _target(self, port: int, network: VpcNetwork) -> aws.lb.TargetGroup:
        ends = self.settings.tls_ends_at
        protocol = "TLS" if ends == "balancer" else "TCP"
        scheme = "p" if self.settings.endpoint.public else "i"
        variant = scheme + ("s" if protocol == "TLS" else "t")
        return aws.lb.TargetGroup(
            LISTENERS[port],
            name=self.named(f"{_SHORT[port]}-{variant}"),
            port=port,
            protocol=protocol,
            target_type="ip",
            vpc_id=network.vpc.id,
            # A stopping broker asks its clients to leave; then remaining connections are closed.
            deregistration_delay=_DRAIN_SECONDS,
            connection_termination=True,
            preserve_client_ip="false",
            health_check={
                "protocol": "HTTPS" if ends else "HTTP",
                "port": str(ports.HTTP),
                "path": "/health/live",
                "matcher": "200",
                "interval": 10,
                "timeout": 6,
                "healthy_threshold": 2,
                "unhealthy_threshold": 3,
            },
            opts=self.within(delete_before_replace=False),
        )

    def _listener(
        self, port: int, target: aws.lb.TargetGroup, certificate: pulumi.Input[str] | None
    ) -> aws.lb.Listener:
        return aws.lb.Listener(
            LISTENERS[port],
            load_balancer_arn=self.balancer.arn,
            port=port,
            protocol="TCP" if certificate is None else "TLS",
            certificate_arn=certificate,
            ssl_policy=None if certificate is None else _TLS_POLICY,
            alpn_policy=None if certificate is None else _ALPN.get(port),
            default_actions=[{"type": "forward", "target_group_arn": target.arn}],
            opts=self.within(),
        )

    def _certificate(self) -> pulumi.Input[str] | None:
        endpoint = self.settings.endpoint
        if not endpoint.certified:
            return None
        if endpoint.certificate_arn:
            return endpoint.certificate_arn
        certificate = aws.acm.Certificate(
            "clients",
            domain_name=endpoint.domain,
            validation_method="DNS",
            opts=self.within(),
        )
        wanted = certificate.domain_validation_options[0]
        proof = aws.route53.Record(
            "proof",
            zone_id=endpoint.zone_id,
            name=wanted.resource_record_name,
            type=wanted.resource_record_type,
            ttl=300,
            records=[wanted.resource_record_value],
            opts=self.within(),
        )
        valid = aws.acm.CertificateValidation(
            "clients",
            certificate_arn=certificate.arn,
            validation_record_fqdns=[proof.fqdn],
            opts=self.within(),
        )
        found: pulumi.Input[str] = valid.certificate_arn
        return found

    def publish(self, after: Sequence[pulumi.Resource]) -> None:
        """Point the domain name at the load balancer, once ``after`` are done."""
        endpoint = self.settings.endpoint
        if not endpoint.zone_id:
            return
        aws.route53.Record(
            "clients",
            zone_id=endpoint.zone_id,
            name=endpoint.domain,
            type="A",
            aliases=[
                {
                    "name": self.balancer.dns_name,
                    "zone_id": self.balancer.zone_id,
                    "evaluate_target_health": False,
                }
            ],
            opts=self.within(depends_on=list(after)),
        )

    def _private_link(self) -> aws.ec2.VpcEndpointService:
        """A service that other accounts connect to from their own networks.

        Under the domain name, once AWS has checked that it is ours, by a record in its zone.
        """
        endpoint, region = self.settings.endpoint, self.region
        service = aws.ec2.VpcEndpointService(
            "private-link",
            acceptance_required=False,
            network_load_balancer_arns=[self.balancer.arn],
            allowed_principals=[
                each if ":" in each else f"arn:{region.partition}:iam::{each}:root"
                for each in endpoint.private_link
            ],
            private_dns_name=endpoint.domain,
            tags={"Name": self.named("private-link")},
            opts=self.within(),
        )
        if endpoint.zone_id:
            wanted = service.private_dns_name_configurations[0]
            proof = aws.route53.Record(
                "private-link",
                zone_id=endpoint.zone_id,
                name=pulumi.Output.concat(wanted.name, ".", endpoint.domain),
                type=wanted.type,
                ttl=300,
                records=[wanted.value],
                opts=self.within(),
            )
            aws.vpc.EndpointServicePrivateDnsVerification(
                "private-link",
                service_id=service.id,
                wait_for_verification=True,
                opts=self.within(depends_on=[proof]),
            )
        return service
