"""Share groups as their coordinators know them, and where they are in their topics."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkaesque.cli.addresses import REQUEST_TIMEOUT_S
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.group_offsets import Partition
from kafkaesque.cli.group_states import Group, group_with_members
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import Right, check_rule, missing_rule, on_group, on_topic
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafkaesque.protocols.kafka.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.share_group_describe_request import (
    ShareGroupDescribeRequest,
)

PROTOCOL = "share"
_AGAIN_S = 0.1
_FIND_VERSION, _DESCRIBE_VERSION = 4, 1
_OFFSETS_VERSION, _ALTER_VERSION = 1, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareProgress:
    """How far a share group is in one partition."""

    topic: str
    partition: int
    #: The first record that is not done with; None: nobody has read there yet.
    start: int | None
    #: Records that are not done with, those that are locked included.
    lag_messages: int | None


class ShareGroupAdmin:
    """Asks the coordinator of one share group."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.group = group
        self._bootstrap = bootstrap

    def describe(self) -> Group | None:
        """Return the group; None if there is no share group of the name.

        Raises:
            CommandFailed: its coordinator does not answer.
        """
        (found,) = self._ask(
            ApiKey.SHARE_GROUP_DESCRIBE,
            _DESCRIBE_VERSION,
            ShareGroupDescribeRequest([self.group]),
            lambda answer: answer.groups[0],
        ).groups
        if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        self._check(found, on_group("describe", self.group))
        return group_with_members(found, PROTOCOL)

    def progress(self) -> list[ShareProgress]:
        """Return how far the group is.

        Raises:
            CommandFailed: its coordinator does not answer.
        """
        request = DescribeShareGroupOffsetsRequest(
            [DescribeShareGroupOffsetsRequestGroup(self.group, None)]
        )
        key = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
        (found,) = self._ask(key, _OFFSETS_VERSION, request, lambda it: it.groups[0]).groups
        self._check(found, on_group("describe", self.group))
        return [
            ShareProgress(
                topic=topic.topic_name,
                partition=each.partition_index,
                start=None if each.start_offset < 0 else each.start_offset,
                lag_messages=None if each.lag < 0 else each.lag,
            )
            for topic in found.topics
            for each in topic.partitions
        ]

    def go_on_at(self, offsets: Mapping[Partition, int]) -> Sequence[str]:
        """Let the group go on at offsets; return what was refused, in sentences.

        Raises:
            CommandFailed: all of it was refused.
        """
        topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
        for (topic, number), offset in offsets.items():
            partition = AlterShareGroupOffsetsRequestPartition(number, offset)
            topics.setdefault(topic, []).append(partition)
        request = AlterShareGroupOffsetsRequest(
            self.group,
            [AlterShareGroupOffsetsRequestTopic(name, each) for name, each in topics.items()],
        )
        key = ApiKey.ALTER_SHARE_GROUP_OFFSETS
        answer = self._ask(key, _ALTER_VERSION, request, lambda it: it)
        self._check(answer, on_group("read", self.group))
        refused = [
            self._refusal(topic.topic_name, each)
            for topic in answer.responses
            for each in topic.partitions
            if each.error_code
        ]
        return list(dict.fromkeys(refused))

    def _refusal(self, topic: str, found: Any) -> str:
        missing = missing_rule(found.error_code, self._bootstrap, on_topic("read", topic))
        if missing is not None:
            return f"{missing.message}; {missing.hint}"
        reason = found.error_message or ErrorCode(found.error_code).name
        return f"{topic}-{found.partition_index}: {reason}"

    def _ask(self, key: ApiKey, version: int, request: Any, part: Any) -> Any:
        """Ask the coordinator, wherever it is by now."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            code, address = self._coordinator()
            if address is not None:
                answer = ask(address, key, version, request)
                code = part(answer).error_code
                if not ErrorCode(code).retriable:
                    return answer
            check_rule(code, self._bootstrap, on_group("describe", self.group))
            if time.monotonic() > deadline:
                raise CommandFailed(f"group {self.group}: {ErrorCode(code).name}")
            time.sleep(_AGAIN_S)

    def _coordinator(self) -> tuple[int, str | None]:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
        answer = ask(self._bootstrap, ApiKey.FIND_COORDINATOR, _FIND_VERSION, request)
        (found,) = answer.coordinators
        if found.error_code:
            return found.error_code, None
        return 0, f"{found.host}:{found.port}"

    def _check(self, found: Any, right: Right) -> None:
        check_rule(found.error_code, self._bootstrap, right)
        if found.error_code:
            reason = found.error_message or ErrorCode(found.error_code).name
            raise CommandFailed(f"group {self.group}: {reason}")
