"""SchemaRegistry: converts requests to calls of the registry, and results to replies.

Errors have a status and a text: NOT_FOUND for subjects, versions, ids and topics that do not exist,
INVALID_ARGUMENT for an invalid type, mode or definition, FAILED_PRECONDITION for requests that the
present state does not allow, such as an incompatible schema.
"""

from __future__ import annotations

from typing import Final

from broker_containers.doors.danube_schema import danube_schema_pb2 as pb
from broker_containers.doors.grpc_shared.calls import AdminService, CallGuard, admin_handlers
from broker_containers.doors.grpc_shared.methods import Method
from broker_containers.doors.grpc_shared.names import topic_name
from broker_containers.operations.schemas import VisibleSubjects
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.schemas.formats import mode_of, validation_of
from broker_containers.schemas.values import Remarks, Schema
from broker_containers.security.access import author
from sulina.metadata.keys.schemas import TopicSchemaRecord, Validation
from sulina.names import TopicName

CALL_SECONDS: Final = 20.0
_SECOND_US: Final = 1_000_000
_DESCRIBED: Final = pb.DESCRIPTOR.services_by_name["SchemaRegistry"]
NAME: Final = _DESCRIBED.full_name


def schema_methods(
    schemas: SchemaChecks, guard: CallGuard, seconds: float = CALL_SECONDS
) -> list[Method]:
    """The methods of the service. Calls time out after ``seconds``."""
    clock = schemas.registry.clock
    return admin_handlers(_DESCRIBED, SchemaService(schemas), clock, seconds, guard)


class SchemaService(AdminService):
    """The calls of the service."""

    def __init__(self, schemas: SchemaChecks) -> None:
        self._registry = schemas.registry
        self._visible = VisibleSubjects(schemas.bound)

    # ---- subjects and versions ----

    async def register_schema(self, request: pb.RegisterSchemaRequest) -> pb.RegisterSchemaResponse:
        remarks = Remarks(request.description, author(request.created_by), tuple(request.tags))
        made = await self._registry.register(
            request.subject, request.schema_type, request.schema_definition, remarks
        )
        return pb.RegisterSchemaResponse(
            schema_id=made.id,
            version=made.version,
            is_new_version=made.new,
            fingerprint=made.fingerprint,
        )

    async def get_schema(self, request: pb.GetSchemaRequest) -> pb.GetSchemaResponse:
        version = request.version if request.HasField("version") else None
        found = await self._registry.get(request.schema_id, version)
        self._visible.check(found.subject)
        return _answer(found)

    async def get_latest_schema(self, request: pb.GetLatestSchemaRequest) -> pb.GetSchemaResponse:
        self._visible.check(request.subject)
        return _answer(await self._registry.version(request.subject))

    async def list_versions(self, request: pb.ListVersionsRequest) -> pb.ListVersionsResponse:
        self._visible.check(request.subject)
        found = await self._registry.versions(request.subject)
        return pb.ListVersionsResponse(
            versions=[
                pb.SchemaVersionInfo(
                    version=each.version.number,
                    created_at=each.version.created_us // _SECOND_US,
                    created_by=each.version.created_by,
                    description=each.version.description,
                    fingerprint=each.version.fingerprint,
                    schema_id=each.id,
                )
                for each in found
            ]
        )

    async def list_subjects(self, request: pb.ListSubjectsRequest) -> pb.ListSubjectsResponse:
        found = self._visible.of(await self._registry.subjects())
        return pb.ListSubjectsResponse(
            subjects=[
                pb.SubjectSummary(
                    subject=name,
                    schema_type=subject.latest.type.value,
                    latest_version=subject.latest.number,
                    compatibility_mode=subject.compatibility.value.upper(),  # only here, as Danube
                    schema_id=subject.id,
                    tags=subject.tags,
                )
                for name, subject in found.items()
            ]
        )

    async def check_compatibility(
        self, request: pb.CheckCompatibilityRequest
    ) -> pb.CheckCompatibilityResponse:
        mode = mode_of(request.compatibility_mode) if request.compatibility_mode else None
        errors = await self._registry.check(
            request.subject, request.schema_type, request.new_schema_definition, mode
        )
        return pb.CheckCompatibilityResponse(is_compatible=not errors, errors=errors)

    async def delete_schema_version(
        self, request: pb.DeleteSchemaVersionRequest
    ) -> pb.DeleteSchemaVersionResponse:
        await self._registry.delete_version(request.subject, request.version)
        return pb.DeleteSchemaVersionResponse(
            success=True, message=f"version {request.version} of {request.subject!r} is deleted"
        )

    async def set_compatibility_mode(
        self, request: pb.SetCompatibilityModeRequest
    ) -> pb.SetCompatibilityModeResponse:
        mode = mode_of(request.compatibility_mode)
        await self._registry.set_compatibility(request.subject, mode)
        return pb.SetCompatibilityModeResponse(
            success=True, message=f"new versions of {request.subject!r} must be {mode.value} now"
        )

    # ---- topics ----

    async def configure_topic_schema(
        self, request: pb.ConfigureTopicSchemaRequest
    ) -> pb.ConfigureTopicSchemaResponse:
        topic = topic_name(request.topic_name)
        wanted = TopicSchemaRecord(
            request.schema_subject,
            validation_of(request.validation_policy),
            request.enable_payload_validation,
        )
        await self._registry.topics.configure(topic, wanted)
        return pb.ConfigureTopicSchemaResponse(success=True, message=_summary(topic, wanted))

    async def update_topic_validation_policy(
        self, request: pb.UpdateTopicValidationPolicyRequest
    ) -> pb.UpdateTopicValidationPolicyResponse:
        topic = topic_name(request.topic_name)
        wanted = await self._registry.topics.set_policy(
            topic, validation_of(request.validation_policy), request.enable_payload_validation
        )
        return pb.UpdateTopicValidationPolicyResponse(success=True, message=_summary(topic, wanted))

    async def get_topic_schema_config(
        self, request: pb.GetTopicSchemaConfigRequest
    ) -> pb.GetTopicSchemaConfigResponse:
        found = await self._registry.topics.get(topic_name(request.topic_name))
        if found is None:
            return pb.GetTopicSchemaConfigResponse(validation_policy=Validation.NONE.value)
        subject = await self._registry.subject(found.subject)
        return pb.GetTopicSchemaConfigResponse(
            schema_subject=found.subject,
            validation_policy=found.validation.value,
            enable_payload_validation=found.payload,
            schema_id=subject.id,
        )


def _answer(found: Schema) -> pb.GetSchemaResponse:
    version = found.version
    return pb.GetSchemaResponse(
        schema_id=found.id,
        version=version.number,
        subject=found.subject,
        schema_type=version.type.value,
        schema_definition=version.definition_bytes,
        description=version.description,
        created_at=version.created_us // _SECOND_US,
        created_by=version.created_by,
        tags=version.tags,
        fingerprint=version.fingerprint,
        compatibility_mode=found.compatibility.value,
    )


def _summary(topic: TopicName, config: TopicSchemaRecord) -> str:
    payload = "payloads are validated" if config.payload else "payloads are not validated"
    return f"{topic} is bound to {config.subject!r}, policy {config.validation.value}; {payload}"
