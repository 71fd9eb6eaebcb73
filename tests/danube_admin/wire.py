"""Danube's admin services as they are on the wire, described independently of our own .proto.

A client built from this reveals mistakes in the other: a number, a type, a name.
"""

from __future__ import annotations

import re
from typing import Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

PACKAGE: Final = "danube_admin"

METHODS: Final = """
BrokerAdmin/ListBrokers: Empty -> BrokerListResponse
BrokerAdmin/GetLeaderBroker: Empty -> BrokerResponse
BrokerAdmin/ListNamespaces: Empty -> NamespaceListResponse
BrokerAdmin/UnloadBroker: UnloadBrokerRequest -> UnloadBrokerResponse
BrokerAdmin/ActivateBroker: ActivateBrokerRequest -> ActivateBrokerResponse
BrokerAdmin/GetClusterBalance: ClusterBalanceRequest -> ClusterBalanceResponse
BrokerAdmin/TriggerRebalance: RebalanceRequest -> RebalanceResponse
ClusterAdmin/ClusterStatus: Empty -> ClusterStatusResponse
ClusterAdmin/AddNode: AddNodeRequest -> AddNodeResponse
ClusterAdmin/PromoteNode: PromoteNodeRequest -> PromoteNodeResponse
ClusterAdmin/RemoveNode: RemoveNodeRequest -> RemoveNodeResponse
NamespaceAdmin/GetNamespaceTopics: NamespaceRequest -> TopicListResponse
NamespaceAdmin/GetNamespacePolicies: NamespaceRequest -> PolicyResponse
NamespaceAdmin/CreateNamespace: NamespaceRequest -> NamespaceResponse
NamespaceAdmin/DeleteNamespace: NamespaceRequest -> NamespaceResponse
TopicAdmin/ListNamespaceTopics: NamespaceRequest -> TopicInfoListResponse
TopicAdmin/ListBrokerTopics: BrokerRequest -> TopicInfoListResponse
TopicAdmin/CreateTopic: NewTopicRequest -> TopicResponse
TopicAdmin/CreatePartitionedTopic: PartitionedTopicRequest -> TopicResponse
TopicAdmin/DeleteTopic: TopicRequest -> TopicResponse
TopicAdmin/UnloadTopic: TopicRequest -> TopicResponse
TopicAdmin/ListSubscriptions: TopicRequest -> SubscriptionListResponse
TopicAdmin/Unsubscribe: SubscriptionRequest -> SubscriptionResponse
TopicAdmin/SetSubscriptionFailurePolicy: SetSubscriptionFailurePolicyRequest -> SubscriptionResponse
TopicAdmin/GetSubscriptionFailurePolicy: GetSubscriptionFailurePolicyRequest
    -> GetSubscriptionFailurePolicyResponse
TopicAdmin/DescribeTopic: DescribeTopicRequest -> DescribeTopicResponse
TopicAdmin/SetSubscriptionDispatchConfig: SetSubscriptionDispatchConfigRequest
    -> SubscriptionResponse
TopicAdmin/GetSubscriptionDispatchConfig: GetSubscriptionDispatchConfigRequest
    -> GetSubscriptionDispatchConfigResponse
SecurityAdmin/CreateRole: CreateRoleRequest -> CreateRoleResponse
SecurityAdmin/GetRole: GetRoleRequest -> GetRoleResponse
SecurityAdmin/ListRoles: Empty -> ListRolesResponse
SecurityAdmin/DeleteRole: DeleteRoleRequest -> DeleteRoleResponse
SecurityAdmin/CreateBinding: CreateBindingRequest -> CreateBindingResponse
SecurityAdmin/GetBinding: GetBindingRequest -> GetBindingResponse
SecurityAdmin/ListBindings: ListBindingsRequest -> ListBindingsResponse
SecurityAdmin/ListAllBindings: Empty -> ListBindingsResponse
SecurityAdmin/DeleteBinding: DeleteBindingRequest -> DeleteBindingResponse
"""

ENUMS: Final = """
DispatchStrategy: NonReliable = 0, Reliable = 1
SubscriptionBackoffStrategy: Fixed = 0, Exponential = 1
SubscriptionPoisonPolicy: DeadLetter = 0, Block = 1, Drop = 2
"""

MESSAGES: Final = """
Empty:
NamespaceRequest: 1 name:string
NamespaceResponse: 1 success:bool
NewTopicRequest: 1 name:string; 2 schema_subject:optional string;
    3 dispatch_strategy:DispatchStrategy
TopicRequest: 1 name:string
TopicResponse: 1 success:bool
PartitionedTopicRequest: 1 base_name:string; 2 partitions:uint32;
    3 schema_subject:optional string; 4 dispatch_strategy:DispatchStrategy
SubscriptionRequest: 1 topic:string; 2 subscription:string
SubscriptionResponse: 1 success:bool
SubscriptionFailurePolicy: 1 max_redelivery_count:uint32; 2 ack_timeout_ms:uint64;
    3 base_redelivery_delay_ms:uint64; 4 max_redelivery_delay_ms:uint64;
    5 backoff_strategy:SubscriptionBackoffStrategy; 6 dead_letter_topic:optional string;
    7 poison_policy:SubscriptionPoisonPolicy
SetSubscriptionFailurePolicyRequest: 1 topic:string; 2 subscription:string;
    3 failure_policy:SubscriptionFailurePolicy
GetSubscriptionFailurePolicyRequest: 1 topic:string; 2 subscription:string
GetSubscriptionFailurePolicyResponse: 1 failure_policy:optional SubscriptionFailurePolicy;
    2 subscription_type:int32
SubscriptionDispatchConfig: 1 max_unacked_messages:uint32
SetSubscriptionDispatchConfigRequest: 1 topic:string; 2 subscription:string;
    3 dispatch_config:SubscriptionDispatchConfig
GetSubscriptionDispatchConfigRequest: 1 topic:string; 2 subscription:string
GetSubscriptionDispatchConfigResponse: 1 dispatch_config:optional SubscriptionDispatchConfig
BrokerListResponse: 1 brokers:repeated BrokerInfo
BrokerInfo: 1 broker_id:string; 2 broker_addr:string; 3 broker_role:string; 4 admin_addr:string;
    5 metrics_addr:string; 6 broker_status:string
BrokerResponse: 1 leader:string
NamespaceListResponse: 1 namespaces:repeated string
TopicListResponse: 1 topics:repeated string
TopicInfo: 1 name:string; 2 broker_id:string; 3 delivery:string
TopicInfoListResponse: 1 topics:repeated TopicInfo
BrokerRequest: 1 broker_id:string
PolicyResponse: 1 policies:string
SubscriptionListResponse: 1 subscriptions:repeated string
DescribeTopicRequest: 1 name:string
DescribeTopicResponse: 1 name:string; 2 subscriptions:repeated string; 3 broker_id:string;
    4 delivery:string; 5 schema_subject:optional string; 6 schema_id:optional uint64;
    7 schema_version:optional uint32; 8 schema_type:optional string;
    9 compatibility_mode:optional string
UnloadBrokerRequest: 1 broker_id:string; 2 max_parallel:uint32;
    3 namespaces_include:repeated string; 4 namespaces_exclude:repeated string; 5 dry_run:bool;
    6 timeout_seconds:uint32
UnloadBrokerResponse: 1 started:bool; 2 total:uint32; 3 succeeded:uint32; 4 failed:uint32;
    5 pending:uint32; 6 failed_topics:repeated string
ActivateBrokerRequest: 1 broker_id:string; 2 reason:string
ActivateBrokerResponse: 1 success:bool
ClusterBalanceRequest:
ClusterBalanceResponse: 1 coefficient_of_variation:double; 2 mean_load:double;
    3 max_load:double; 4 min_load:double; 5 std_deviation:double; 6 broker_count:uint32;
    7 brokers:repeated BrokerLoadInfo; 8 assignment_strategy:string
BrokerLoadInfo: 1 broker_id:uint64; 2 load:double; 3 topic_count:uint32; 4 is_overloaded:bool;
    5 is_underloaded:bool
RebalanceRequest: 1 dry_run:bool; 2 max_moves:optional uint32
RebalanceResponse: 1 success:bool; 2 moves_executed:uint32;
    3 proposed_moves:repeated ProposedMove; 4 error_message:string
ProposedMove: 1 topic_name:string; 2 from_broker:uint64; 3 to_broker:uint64;
    4 estimated_load:double; 5 reason:string
ClusterStatusResponse: 1 leader_id:uint64; 2 current_term:uint64; 3 last_applied:uint64;
    4 voters:repeated uint64; 5 learners:repeated uint64; 6 self_node_id:uint64;
    7 raft_addr:string
AddNodeRequest: 1 addr:string; 2 node_id:uint64
AddNodeResponse: 1 success:bool; 2 node_id:uint64; 3 message:string
PromoteNodeRequest: 1 node_id:uint64
PromoteNodeResponse: 1 success:bool; 2 message:string
RemoveNodeRequest: 1 node_id:uint64
RemoveNodeResponse: 1 success:bool; 2 message:string
RoleDefinition: 1 name:string; 2 permissions:repeated string; 3 system:bool
CreateRoleRequest: 1 role:RoleDefinition
CreateRoleResponse: 1 success:bool
GetRoleRequest: 1 name:string
GetRoleResponse: 1 role:RoleDefinition
ListRolesResponse: 1 roles:repeated RoleDefinition
DeleteRoleRequest: 1 name:string
DeleteRoleResponse: 1 success:bool
BindingDefinition: 1 id:string; 2 principal_type:string; 3 principal_name:string;
    4 role_names:repeated string; 5 scope:string; 6 resource_name:string
CreateBindingRequest: 1 binding:BindingDefinition
CreateBindingResponse: 1 success:bool
GetBindingRequest: 1 scope:string; 2 resource_name:string; 3 binding_id:string
GetBindingResponse: 1 binding:BindingDefinition
ListBindingsRequest: 1 scope:string; 2 resource_name:string
ListBindingsResponse: 1 bindings:repeated BindingDefinition
DeleteBindingRequest: 1 scope:string; 2 resource_name:string; 3 binding_id:string
DeleteBindingResponse: 1 success:bool
"""

_FIELD: Final = re.compile(r"(\d+) (\w+):(repeated |optional )?(\w+)")
_SCALARS: Final = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "string": FieldDescriptorProto.TYPE_STRING,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
}


def described() -> FileDescriptorProto:
    """The tables above as a description that protobuf understands."""
    file = FileDescriptorProto(name="wire.proto", package=PACKAGE, syntax="proto3")
    for name, values in _rows(ENUMS):
        enum = file.enum_type.add(name=name)
        for value in values.split(","):
            word, _, number = value.partition("=")
            enum.value.add(name=word.strip(), number=int(number))
    enums = {enum.name for enum in file.enum_type}
    for name, fields in _rows(MESSAGES):
        message = file.message_type.add(name=name)
        for number, field, label, kind in _FIELD.findall(fields):
            made = message.field.add(name=field, number=int(number))
            made.label = (
                FieldDescriptorProto.LABEL_REPEATED
                if label.strip() == "repeated"
                else FieldDescriptorProto.LABEL_OPTIONAL
            )
            if kind in _SCALARS:
                made.type = _SCALARS[kind]
            else:
                known = FieldDescriptorProto.TYPE_ENUM, FieldDescriptorProto.TYPE_MESSAGE
                made.type = known[kind not in enums]
                made.type_name = f".{PACKAGE}.{kind}"
            if label.strip() == "optional":
                made.proto3_optional = True
                made.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field}")
    return file


def pool() -> DescriptorPool:
    """Separate from the pool of our own .proto, which has the same names."""
    apart = DescriptorPool()
    apart.Add(described())
    return apart


def methods() -> dict[str, tuple[str, str]]:
    """Service/Method -> request and response."""
    pairs = ((name, kinds.split(" -> ")) for name, kinds in _rows(METHODS))
    return {name: (taken, given) for name, (taken, given) in pairs}


def _rows(table: str) -> list[tuple[str, str]]:
    lines = table.replace("\n    ", " ").strip().splitlines()
    return [(name, rest.strip()) for name, _, rest in (line.partition(":") for line in lines)]
