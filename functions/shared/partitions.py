"""Partitions of the Glue table over the ledgers: one per partition of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from functions.shared.aws import code_of
from functions.shared.lake import LakeLocation
from sulina.lake.layout import ObjectName


@dataclass(frozen=True, slots=True)
class PartitionName:
    """The topic partition that a partition of the table covers."""

    namespace: str
    topic: str
    partition: str

    @classmethod
    def of(cls, name: ObjectName) -> PartitionName:
        """The partition that an object belongs to."""
        return cls(name.namespace, name.topic, str(name.partition))

    @property
    def values(self) -> list[str]:
        """The partition's values, in the order of the table's partition keys."""
        return [self.namespace, self.topic, self.partition]

    @property
    def folder(self) -> str:
        """The prefix of its objects, relative to the lake."""
        any_object = ObjectName(self.namespace, self.topic, int(self.partition), 0, 0)
        return any_object.key.rpartition("/")[0] + "/"


class GluePartitions:
    """The partitions of one table. Glue errors propagate."""

    def __init__(self, glue: Any, database: str, table: str, lake: LakeLocation) -> None:
        self._glue = glue
        self._table = {"DatabaseName": database, "TableName": table}
        self._lake = lake

    def add(self, found: PartitionName) -> bool:
        """Register a partition; False if it exists already."""
        try:
            self._glue.get_partition(**self._table, PartitionValues=found.values)
            return False
        except ClientError as error:
            if code_of(error) != "EntityNotFoundException":
                raise
        table = self._glue.get_table(
            DatabaseName=self._table["DatabaseName"], Name=self._table["TableName"]
        )["Table"]
        descriptor = {**table["StorageDescriptor"], "Location": self._lake.url(found.folder)}
        entry = {"Values": found.values, "StorageDescriptor": descriptor}
        try:
            self._glue.create_partition(**self._table, PartitionInput=entry)
        except ClientError as error:
            if code_of(error) == "AlreadyExistsException":  # a concurrent call registered it
                return False
            raise
        return True

    def all(self) -> Iterator[PartitionName]:
        """Every partition of the table."""
        pages = self._glue.get_paginator("get_partitions").paginate(
            **self._table, ExcludeColumnSchema=True
        )
        for page in pages:
            for entry in page["Partitions"]:
                yield PartitionName(*entry["Values"])

    def remove(self, name: PartitionName) -> None:
        """Remove a partition, if it exists; its objects are not deleted."""
        try:
            self._glue.delete_partition(**self._table, PartitionValues=name.values)
        except ClientError as error:
            if code_of(error) != "EntityNotFoundException":
                raise
