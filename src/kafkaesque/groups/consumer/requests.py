"""What is wrong with a heartbeat in itself, whatever the group."""

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.events import ConsumerGroupHeartbeat
from kafkaesque.groups.consumer.states import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from kafkaesque.groups.errors import GroupError


class Refused(Exception):
    """A heartbeat that is answered with an error; raised before anything is changed."""

    def __init__(self, error: GroupError, message: str | None = None) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message


def check_heartbeat(beat: ConsumerGroupHeartbeat, config: GroupConfig) -> None:
    """Make sure that a heartbeat is one.

    Raises:
        Refused: it is not.
    """
    if not beat.member_id and (beat.requires_member_id or beat.member_epoch != JOINING_EPOCH):
        raise _invalid("MemberId can't be empty.")
    if not beat.group_id:
        raise _invalid("GroupId can't be empty.")
    if beat.instance_id == "":
        raise _invalid("InstanceId can't be empty.")
    if beat.rack_id == "":
        raise _invalid("RackId can't be empty.")
    if beat.member_epoch == JOINING_EPOCH:
        _check_join(beat)
    elif beat.member_epoch == LEAVING_STATIC_EPOCH and beat.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif beat.member_epoch < LEAVING_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    _check_sizes(beat, config)
    if beat.assignor is not None and beat.assignor not in config.consumer.assignors:
        supported = ", ".join(config.consumer.assignors)
        raise Refused(
            GroupError.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {beat.assignor[:100]} is not supported. "
            f"Supported assignors: {supported}.",
        )


def _check_join(beat: ConsumerGroupHeartbeat) -> None:
    if beat.rebalance_timeout_ms is None:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if beat.owned is None or beat.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if beat.topic_names is None and beat.topic_expression is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def _check_sizes(beat: ConsumerGroupHeartbeat, config: GroupConfig) -> None:
    names = (beat.group_id, beat.member_id, beat.instance_id, beat.rack_id, beat.topic_expression)
    if any(len((name or "").encode()) > config.name_bytes_max for name in names):
        raise _invalid(f"A name is longer than {config.name_bytes_max} bytes.")
    size = sum(len(name.encode()) for name in beat.topic_names or ())
    if size > config.consumer.subscription_bytes_max:
        raise _invalid(
            f"SubscribedTopicNames are longer than {config.consumer.subscription_bytes_max} bytes."
        )


def _invalid(message: str) -> Refused:
    return Refused(GroupError.INVALID_REQUEST, message)
