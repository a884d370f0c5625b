"""Which of Kafka's error codes says what has gone wrong: chosen here and nowhere else."""

from kafkaesque.access import errors as access_errors
from kafkaesque.gateway.kafka.topics import TopicForbidden
from kafkaesque.groups.errors import GroupError
from kafkaesque.model import errors, record_errors
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.routing.exchanges import errors as exchange_errors
from kafkaesque.transactions.errors import TransactionError

#: Characters of a message to a client. It may quote what the client sent, which may be as long as a
#: string can be.
MESSAGE_LENGTH_MAX = 1_000

_CODES: dict[type[Exception], ErrorCode] = {
    errors.UnknownTopicOrPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    TopicForbidden: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    errors.ClusterNotAuthorized: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    errors.TopicNotAuthorized: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    errors.GroupNotAuthorized: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    errors.QueueNotAuthorized: ErrorCode.QUEUE_AUTHORIZATION_FAILED,
    errors.ExchangeNotAuthorized: ErrorCode.EXCHANGE_AUTHORIZATION_FAILED,
    errors.VhostNotAuthorized: ErrorCode.VHOST_AUTHORIZATION_FAILED,
    exchange_errors.NoSuchVhost: ErrorCode.UNKNOWN_VHOST,
    exchange_errors.NoSuchExchange: ErrorCode.UNKNOWN_EXCHANGE,
    exchange_errors.NoSuchQueue: ErrorCode.UNKNOWN_QUEUE,
    exchange_errors.NoSuchTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    exchange_errors.InequivalentExchange: ErrorCode.EXCHANGE_ALREADY_EXISTS,
    exchange_errors.ExchangeInUse: ErrorCode.EXCHANGE_IN_USE,
    exchange_errors.ExchangeReserved: ErrorCode.EXCHANGE_RESERVED,
    exchange_errors.ExchangeInternal: ErrorCode.EXCHANGE_RESERVED,
    exchange_errors.UnknownExchangeKind: ErrorCode.INVALID_REQUEST,
    exchange_errors.BadArgument: ErrorCode.INVALID_REQUEST,
    exchange_errors.BadHeader: ErrorCode.INVALID_REQUEST,
    exchange_errors.NoSuchTransformation: ErrorCode.INVALID_REQUEST,
    errors.UnknownQueue: ErrorCode.UNKNOWN_QUEUE,
    errors.QueueExists: ErrorCode.QUEUE_ALREADY_EXISTS,
    errors.QueueInUse: ErrorCode.QUEUE_IN_USE,
    errors.UnknownConsumer: ErrorCode.UNKNOWN_CONSUMER,
    errors.TokenNotAuthorized: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    access_errors.TokenUnknown: ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
    access_errors.TokenExpired: ErrorCode.DELEGATION_TOKEN_EXPIRED,
    access_errors.TokenOwnerMismatch: ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
    access_errors.TokenRequestNotAllowed: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    errors.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    errors.NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.LeaderNotAvailable: ErrorCode.LEADER_NOT_AVAILABLE,
    errors.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    errors.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.OffsetNotAvailable: ErrorCode.OFFSET_NOT_AVAILABLE,
    errors.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.NotEnoughReplicasAfterAppend: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    errors.RequestTimedOut: ErrorCode.REQUEST_TIMED_OUT,
    errors.StorageFailed: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.TopicShowsQueue: ErrorCode.POLICY_VIOLATION,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.TopicNameTaken: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.TopicDeletionDisabled: ErrorCode.TOPIC_DELETION_DISABLED,
    errors.InvalidTopic: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    errors.FeatureUpdateFailed: ErrorCode.FEATURE_UPDATE_FAILED,
    errors.InvalidFeatureLevel: ErrorCode.INVALID_UPDATE_VERSION,
    errors.DuplicateVoter: ErrorCode.DUPLICATE_VOTER,
    errors.VoterNotFound: ErrorCode.VOTER_NOT_FOUND,
    errors.DuplicateBroker: ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    errors.BrokerNotRegistered: ErrorCode.BROKER_ID_NOT_REGISTERED,
    errors.NoReassignmentInProgress: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    errors.ElectionNotNeeded: ErrorCode.ELECTION_NOT_NEEDED,
    errors.EligibleLeadersNotAvailable: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    errors.InvalidConfig: ErrorCode.INVALID_CONFIG,
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.MessageTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.NotController: ErrorCode.NOT_CONTROLLER,
    errors.OverBound: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    record_errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    # As in Kafka, for which there is no batch then: sending it again would not help.
    record_errors.IncompleteBatch: ErrorCode.INVALID_RECORD,
    record_errors.KeyShredded: ErrorCode.CORRUPT_MESSAGE,
    record_errors.UnsupportedMagic: ErrorCode.INVALID_RECORD,
    record_errors.InvalidRecord: ErrorCode.INVALID_RECORD,
    record_errors.KeysMissing: ErrorCode.INVALID_RECORD,
    record_errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    record_errors.UnknownCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    record_errors.DecompressionTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.InvalidTxnState: ErrorCode.INVALID_TXN_STATE,
    errors.TransactionUnverified: ErrorCode.INVALID_TXN_STATE,
    errors.TransactionalIdMissing: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    errors.TransactionCoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}

_BY_NAME = {kind.__name__: code for kind, code in _CODES.items()}

_NAMED: dict[GroupError, ErrorCode] = {
    GroupError.OVER_BOUND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

_TRANSACTION_NAMED: dict[TransactionError, ErrorCode] = {
    # Coming again would not help, and aborting the transaction does.
    TransactionError.OVER_BOUND: ErrorCode.INVALID_TXN_STATE,
}


def code_of(error: Exception) -> ErrorCode:
    """Return the code that tells a client about an error."""
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR


def code_of_named(name: str) -> ErrorCode:
    """Return the code of an error that another broker has named."""
    return _BY_NAME.get(name, ErrorCode.UNKNOWN_SERVER_ERROR)


def message_of(error: Exception) -> str:
    """Return what is said to a client about an error."""
    return str(error)[:MESSAGE_LENGTH_MAX]


def code_of_group_error(error: GroupError) -> ErrorCode:
    """Return the code of a group request's outcome; names are the same but for a few."""
    code = _NAMED.get(error)
    return ErrorCode[error.name] if code is None else code


def code_of_transaction_error(
    error: TransactionError, *, is_fenced_known: bool = True
) -> ErrorCode:
    """Return the code of a transactional request's outcome.

    Versions from before KIP-588 do not know PRODUCER_FENCED.
    """
    if error is TransactionError.PRODUCER_FENCED and not is_fenced_known:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    code = _TRANSACTION_NAMED.get(error)
    return ErrorCode[error.name] if code is None else code
