"""What can go wrong, by whose fault it is.

`RequestRefused` and what derives from it are a client's or a peer's mistake, or a state of the
cluster that the client has to live with: gateways turn them into their protocol's error codes.
`InvariantBroken` is ours: the broker stops with a report. `DiskFailed` is the machine's.
"""


class KafkaesqueError(Exception):
    """Base of every error that this package raises on purpose."""


class InvariantBroken(KafkaesqueError):
    """Something that must always hold does not: a defect of ours, never a client's fault."""


class DiskFailed(KafkaesqueError):
    """The disk refused a read, a write or a sync; what was not acknowledged may be lost."""


class DiskFull(DiskFailed):
    """No space is left on the device."""


class ReadFailed(DiskFailed):
    """The device does not give what a file holds; nothing was changed, and others may be whole."""


class WorkerLost(KafkaesqueError):
    """The process that did heavy work has died before it was done."""


class ConfigError(KafkaesqueError):
    """An option is unknown, of the wrong type or out of range."""


class RequestRefused(KafkaesqueError):
    """The request cannot be done; the state is as it was before."""


class NotAuthorized(RequestRefused):
    """No rule allows it to whom it is done for."""


class ClusterNotAuthorized(NotAuthorized):
    """No rule allows it with the cluster."""


class TopicNotAuthorized(NotAuthorized):
    """No rule allows it with the topic."""


class GroupNotAuthorized(NotAuthorized):
    """No rule allows it with the group."""


class QueueNotAuthorized(NotAuthorized):
    """No rule allows it with the queue."""


class ExchangeNotAuthorized(NotAuthorized):
    """No rule allows it with the exchange."""


class VhostNotAuthorized(NotAuthorized):
    """No rule allows it with the virtual host."""


class TokenNotAuthorized(NotAuthorized):
    """No rule allows it with this user's delegation tokens."""


class UnknownTopicOrPartition(RequestRefused):
    """No such topic or partition in this cluster, or not on this broker."""


class TopicShowsQueue(UnknownTopicOrPartition):
    """There is a queue that is shown as this topic: it can be read, and nothing else."""


class UnknownQueue(RequestRefused):
    """There is no queue of this name."""


class QueueExists(RequestRefused):
    """There is a queue of this name, with other options."""


class QueueInUse(RequestRefused):
    """Another consumer has the queue for itself."""


class UnknownConsumer(RequestRefused):
    """The queue's leader does not know the consumer: it has to attach, perhaps again."""


class UnknownTopicId(RequestRefused):
    """No topic has this id (any more)."""


class NotLeader(RequestRefused):
    """This broker does not lead the group; `leader` says who does, as far as is known."""

    def __init__(self, message: str = "not the leader", leader: int | None = None) -> None:
        super().__init__(message)
        self.leader = leader


class LeaderNotAvailable(RequestRefused):
    """The group has no leader at the moment; try again."""


class FencedLeaderEpoch(RequestRefused):
    """The client's leader epoch is older than the broker's."""


class UnknownLeaderEpoch(RequestRefused):
    """The client's leader epoch is newer than the broker's."""


class OffsetOutOfRange(RequestRefused):
    """The offset is before the log's start or after its end."""


class OffsetNotAvailable(RequestRefused):
    """It is not known here now: after this replica's end, or the log changes all the time."""


class NotEnoughReplicas(RequestRefused):
    """Fewer replicas are in sync than `min.insync.replicas`; nothing was written."""


class NotEnoughReplicasAfterAppend(RequestRefused):
    """Written to the leader's log, but not known to be committed."""


class RequestTimedOut(RequestRefused):
    """Not finished in the time that the client gave; the outcome is unknown."""


class StorageFailed(RequestRefused):
    """The disk below this partition failed; the broker serves it no longer."""


class TopicKeyMissing(StorageFailed):
    """This broker does not have the key that a sealed batch needs; another one may have it."""


class TopicExists(RequestRefused):
    """A topic of that name exists."""


class TopicNameTaken(RequestRefused):
    """A queue is shown as a topic of that name: no topic can be made with it."""


class TopicDeletionDisabled(RequestRefused):
    """This broker deletes no topics."""


class InvalidTopic(RequestRefused):
    """The topic's name is not a legal one."""


class InvalidPartitions(RequestRefused):
    """The number of partitions is not possible."""


class InvalidReplicationFactor(RequestRefused):
    """The number of replicas is below 1 or above the number of brokers."""


class InvalidReplicaAssignment(RequestRefused):
    """The placement that the client asked for is not possible."""


class NoReassignmentInProgress(RequestRefused):
    """Replicas of this partition do not move at the moment."""


class InvalidConfig(RequestRefused):
    """A topic or broker option is unknown or its value is out of range."""


class InvalidRequest(RequestRefused):
    """The request contradicts itself or breaks a rule of its protocol."""


class MessageTooLarge(RequestRefused):
    """A batch is larger than `max.message.bytes`."""


class OutOfOrderSequence(RequestRefused):
    """A producer's sequence numbers do not follow those it has sent before."""


class InvalidProducerEpoch(RequestRefused):
    """A newer incarnation of the producer has written: this one is fenced."""


class InvalidTxnState(RequestRefused):
    """What is asked for does not fit to the state that the producer's transaction is in."""


class TransactionUnverified(RequestRefused):
    """A batch would open a transaction that its coordinator has not confirmed (KIP-890).

    `guard` is what the confirmation is to be given with.
    """

    def __init__(self, message: str, guard: tuple[int, int, int]) -> None:
        super().__init__(message)
        self.guard = guard


class TransactionalIdMissing(RequestRefused):
    """A batch is part of a transaction, and its request names none."""


class TransactionCoordinatorFenced(RequestRefused):
    """A marker comes from a coordinator that is one no more."""


class BrokerNotRegistered(RequestRefused):
    """No broker of this id is part of the cluster."""


class DuplicateBroker(RequestRefused):
    """Another process of this broker's id is alive."""


class DuplicateVoter(RequestRefused):
    """The broker is a controller already."""


class VoterNotFound(RequestRefused):
    """The broker is no controller."""


class FeatureUpdateFailed(RequestRefused):
    """A feature's level is not what it would have to be."""


class InvalidFeatureLevel(FeatureUpdateFailed):
    """The cluster cannot be put to this level of this feature."""


class ElectionNotNeeded(RequestRefused):
    """The partition has a leader."""


class EligibleLeadersNotAvailable(RequestRefused):
    """None of the partition's replicas can lead it, not even in an unclean election."""


class NotController(RequestRefused):
    """This broker does not lead the controller group."""


class LogEndMoved(RequestRefused):
    """The log does not end where it was to end: somebody else has appended meanwhile."""


class OverBound(RequestRefused):
    """A named bound of the broker is reached; try again later."""
