"""What can go wrong between Spark and the brokers; each message is one sentence for people."""

from kafkaesque.protocols.kafka.error_codes import ErrorCode


class ConnectorError(Exception):
    """Base of the errors in this room; Spark shows its message at the end of what it reports."""


class WrongOption(ConnectorError):
    """An option's name or value cannot be used."""


class Unavailable(ConnectorError):
    """No broker, leader or coordinator answered in time."""


class NotAuthenticated(ConnectorError):
    """A broker does not believe who this is, or cannot be believed; trying again does not help."""


class DataLoss(ConnectorError):
    """Offsets that a query is to read are not there (any more)."""


class Fenced(ConnectorError):
    """Somebody newer writes with this transactional id: what this one writes does not count."""


class Refused(ConnectorError):
    """A broker answered with an error that does not pass by itself."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Passing(Exception):
    """What may be otherwise in a moment: a leader that moves, a coordinator that loads."""

    def __init__(self, message: str, *, may_have_moved: bool = True) -> None:
        """`may_have_moved`: another broker may be the one to ask next time."""
        super().__init__(message)
        self.may_have_moved = may_have_moved


#: Errors that pass by themselves: the request is made again, mostly of another broker.
_PASSING = frozenset(
    (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
)
#: Those of them that only say "not yet": nobody else will know better.
_NOT_YET = frozenset((ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT))
_FENCING = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
)


def name_of(code: int) -> str:
    """Return Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def check(code: int, what: str) -> None:
    """Do nothing for code 0.

    Raises:
        Passing: try again. Fenced: never. Refused: it would be the same again.
    """
    if code == ErrorCode.NONE:
        return
    message = f"{what}: the broker answers {name_of(code)}"
    if code in _PASSING:
        raise Passing(message, may_have_moved=code not in _NOT_YET)
    if code in _FENCING:
        raise Fenced(
            f"{message}: another attempt has begun since, or the transaction was open for longer"
            " than kafka.transaction.timeout.ms"
        )
    raise Refused(message, code)
