"""JetStream's errors, by number: clients know them by it."""

from __future__ import annotations

from enum import Enum

from kafkaesque.model.errors import KafkaesqueError


class ApiCode(Enum):
    """HTTP-like status, number, and what is said."""

    BAD_REQUEST = (400, 10003, "bad request")
    INVALID_JSON = (400, 10025, "invalid JSON")
    NOT_AVAILABLE = (503, 10008, "JetStream system temporarily unavailable")
    NOT_ALLOWED = (403, 10016, "not permitted")
    CONSUMER_CREATE = (500, 10012, "consumer could not be created")
    CONSUMER_EXISTS = (400, 10148, "consumer already exists")
    CONSUMER_NAME_IN_USE = (400, 10013, "consumer name already in use")
    CONSUMER_NOT_FOUND = (404, 10014, "consumer not found")
    CONSUMER_DOES_NOT_EXIST = (400, 10149, "consumer does not exist")
    DURABLE_MISMATCH = (
        400,
        10017,
        "consumer name in subject does not match durable name in request",
    )
    DURABLE_MISSING = (400, 10018, "consumer expected to be durable but a durable name was not set")
    FILTER_MISMATCH = (
        400,
        10131,
        "Consumer create request did not match filtered subject from create subject",
    )
    CONSUMERS_MAX = (400, 10026, "maximum consumers limit reached")
    DELIVER_POLICY = (400, 10094, "consumer delivery policy and its start do not go together")
    FILTERS_TWICE = (
        400,
        10136,
        "consumer cannot have both FilterSubject and FilterSubjects specified",
    )
    FILTERS_OVERLAP = (400, 10138, "consumer subject filters cannot overlap")
    FILTER_EMPTY = (400, 10139, "consumer filter in FilterSubjects cannot be empty")
    DELIVER_WILDCARD = (400, 10079, "consumer deliver subject has wildcards")
    DELIVER_CYCLE = (400, 10081, "consumer deliver subject forms a cycle")
    PUSH_MAX_WAITING = (400, 10080, "consumer in push mode can not set max waiting")
    HEARTBEAT_SHORT = (400, 10083, "consumer idle heartbeat needs to be >= 100ms")
    WORK_PULLED = (
        400,
        10084,
        "consumer in pull mode requires explicit ack policy on workqueue stream",
    )
    WORK_PUSHED = (400, 10098, "workqueue stream requires explicit ack")
    HEARTBEAT_PULLED = (400, 10088, "consumer idle heartbeat requires a push based consumer")
    FLOW_PULLED = (400, 10089, "consumer flow control requires a push based consumer")
    FLOW_WITHOUT_HEARTBEAT = (400, 10108, "consumer with flow control also needs heartbeats")
    MAX_DELIVER_BACKOFF = (400, 10116, "max deliver is required to be > length of backoff values")
    CONSUMER_CONFIG = (400, 10078, "consumer config not supported")
    STREAM_EXISTS = (400, 10058, "stream name already in use with a different configuration")
    STREAM_NOT_FOUND = (404, 10059, "stream not found")
    STREAM_NOT_MATCHED = (400, 10060, "expected stream does not match")
    STREAM_MISMATCH = (400, 10056, "stream name in subject does not match request")
    STREAM_CONFIG = (500, 10052, "stream configuration is not supported")
    MIRROR_NAME = (400, 10142, "mirrored stream name is invalid")
    MIRROR_WITH_SUBJECTS = (400, 10034, "stream mirrors can not contain subjects")
    MIRROR_WITH_SOURCES = (400, 10031, "stream mirrors can not also contain other sources")
    MIRROR_TWO_STARTS = (
        400,
        10032,
        "stream mirrors can not have both start seq and start time configured",
    )
    MIRROR_FILTER = (500, 10049, "subject filter for the mirror: invalid subject")
    MIRROR_FILTER_AND_TRANSFORMS = (
        400,
        10150,
        "mirror with multiple subject transforms cannot also have a single subject filter",
    )
    MIRROR_TRANSFORM = (400, 10154, "mirror transform: invalid destination")
    MIRROR_CHANGED = (400, 10055, "stream mirror configuration can not be updated")
    SOURCE_NAME = (400, 10141, "sourced stream name is invalid")
    SOURCE_TWICE = (400, 10140, "duplicate source configuration detected")
    SOURCE_FILTER = (500, 10049, "subject filter for the source: invalid subject")
    SOURCE_FILTER_AND_TRANSFORMS = (
        400,
        10144,
        "source with multiple subject transforms cannot also have a single subject filter",
    )
    SOURCE_TRANSFORM = (400, 10146, "source transform: invalid destination")
    STREAM_NAME = (400, 10003, "invalid stream name")
    SUBJECTS_OVERLAP = (400, 10065, "subjects overlap with an existing stream")
    NO_MESSAGE = (404, 10037, "no message found")
    MESSAGE_TOO_LARGE = (400, 10054, "message size exceeds maximum allowed")
    STREAM_FULL = (503, 10077, "maximum messages exceeded")
    LAST_ID = (400, 10070, "wrong last msg ID")
    LAST_SEQUENCE = (400, 10071, "wrong last sequence")
    ROLLUP = (500, 10111, "rollup not permitted")
    SEALED = (400, 10109, "invalid operation on sealed stream")
    PURGE_DENIED = (500, 10110, "stream purge not permitted")
    DELETE_DENIED = (500, 10057, "message delete not permitted")


class ApiError(KafkaesqueError):
    """A request that is not carried out."""

    def __init__(self, code: ApiCode, what: str = "") -> None:
        super().__init__(what or code.value[2])
        self.code = code

    @property
    def body(self) -> dict[str, object]:
        """The error as answers have it."""
        status, number, _ = self.code.value
        return {"code": status, "err_code": number, "description": str(self)}
