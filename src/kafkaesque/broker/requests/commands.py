"""What can be asked of the controller and of other brokers, and what they answer."""

from typing import ClassVar

import msgspec

from kafkaesque.access.credentials import FirstCredential
from kafkaesque.access.rules import Rule
from kafkaesque.broker.peers.messages import PeerRequest
from kafkaesque.broker.requests.access_commands import AccessCommand, RemovedRules
from kafkaesque.broker.requests.client_command import ClientCommand
from kafkaesque.broker.requests.exchange_commands import ExchangeCommand
from kafkaesque.broker.requests.live_requests import LiveRequest
from kafkaesque.broker.requests.queue_commands import QueueCommand, QueueResult
from kafkaesque.broker.requests.queue_requests import (
    AnyQueueRequest,
    ExtendWaits,
    TakeOverConsumer,
)
from kafkaesque.broker.requests.survivor_report import SurvivorReport
from kafkaesque.broker.requests.transaction_requests import JoinTransaction, RunTransaction


class RegisterBroker(PeerRequest, frozen=True, tag="register", kw_only=True):
    """A broker has started and says where it can be reached."""

    #: The others may dial it where it was, until they have heard where it is.
    may_go_unanswered: ClassVar[bool] = True

    node: int
    host: str
    kafka_port: int
    text_port: int
    peer_host: str
    peer_port: int
    rack: str | None
    incarnation: int
    directory_id: str = ""
    #: The first and the last level that it knows, of each feature.
    features: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    admin_port: int = 0
    #: By the names of its listeners: protocol, host and port.
    endpoints: dict[str, tuple[str, str, int]] = msgspec.field(default_factory=dict)
    #: Who may log in to a cluster that this registration founds; nothing in any other.
    first_users: tuple[FirstCredential, ...] | msgspec.UnsetType = msgspec.UNSET
    #: What they may do.
    first_rules: tuple[Rule, ...] | msgspec.UnsetType = msgspec.UNSET


class RemoveBroker(ClientCommand, frozen=True, tag="remove-broker", kw_only=True):
    """A broker that holds nothing and is stopped leaves the cluster for good."""

    node: int


class ChangeControllers(ClientCommand, frozen=True, tag="change-controllers", kw_only=True):
    """Let a broker vote in the controllers' group, or no more; done when that is written down."""

    node: int
    #: What the broker's data directory must be; empty: any.
    directory_id: str = ""
    is_added: bool


class AskControllers(PeerRequest, frozen=True, tag="ask-controllers"):
    """Who votes in the controllers' group, and how far everybody has its log; for its leader."""


class RaiseFeature(ClientCommand, frozen=True, tag="raise-feature", kw_only=True):
    """Let the cluster use what a level of a feature brings."""

    name: str
    level: int
    validate_only: bool = False


class CreateTopic(ClientCommand, frozen=True, tag="create-topic", kw_only=True):
    """Create a topic; -1 stands for the broker's default."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    #: Replicas of each partition, instead of a count and a factor.
    assignments: list[list[int]] | None = None
    configs: dict[str, str] = msgspec.field(default_factory=dict)
    validate_only: bool = False
    #: The id that it is to have; empty: the controller chooses one.
    topic_id: bytes = b""
    #: Ids with which it was asked for before, and nobody knows whether it was done.
    doubtful_ids: tuple[bytes, ...] = ()


class DeleteTopic(ClientCommand, frozen=True, tag="delete-topic", kw_only=True):
    """Delete a topic with all it holds; by name, or by id where the name is None."""

    name: str | None = None
    topic_id: bytes = bytes(16)


class CreatePartitions(ClientCommand, frozen=True, tag="create-partitions", kw_only=True):
    """Raise the number of partitions to `count`; records that are there stay where they are."""

    name: str
    count: int
    #: Replicas of each new partition.
    assignments: list[list[int]] | None = None
    validate_only: bool = False


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one option; None sets it back to its default."""

    name: str
    value: str | None
    #: "set", "delete", "append" or "subtract"; the last two are for lists.
    operation: str = "set"


class ChangeConfig(ClientCommand, frozen=True, tag="change-config", kw_only=True):
    """Change options of a topic, or of a broker or all brokers where the topic is None."""

    topic: str | None = None
    #: As `write_node` writes it; 0 stands for all.
    node: int = 0
    changes: list[ConfigChange]
    #: Options that are not named go back to their defaults, as AlterConfigs has it.
    replace_all: bool = False
    validate_only: bool = False


class ChangeGroupConfig(ClientCommand, frozen=True, tag="change-group-config", kw_only=True):
    """Change options of a group, whether it exists or not; for the rest see `ChangeConfig`."""

    group: str
    changes: list[ConfigChange]
    replace_all: bool = False
    validate_only: bool = False


class QuotaChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one quota; None takes it away."""

    name: str
    value: float | None


class ChangeQuotas(ClientCommand, frozen=True, tag="change-quotas", kw_only=True):
    """Change client quotas of an entity; those that are not named stay."""

    #: Pairs of type and name; None is the default of the type.
    entity: tuple[tuple[str, str | None], ...]
    changes: list[QuotaChange]
    validate_only: bool = False


class AllocateProducerIds(PeerRequest, frozen=True, tag="producer-ids", kw_only=True):
    """Give a block of producer ids to a broker."""

    node: int
    count: int = 1000


class BeginRecovery(PeerRequest, frozen=True, tag="begin-recovery", kw_only=True):
    """Groups have lost their quorums: recover them with the replicas that are left."""

    groups: list[int]
    #: By the clock of who says it.
    at_ms: int = 0


class AskElection(ClientCommand, frozen=True, tag="ask-election", kw_only=True):
    """An administrator wants a group without a leader recovered, whatever its topic allows."""

    group: int
    #: The newest formation that is known: if there is a later one, nothing is begun.
    after: int
    at_ms: int = 0


class ToldSurvivor(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica has told for a formation of its group."""

    group: int
    formation: int
    report: SurvivorReport


class TellSurvivors(PeerRequest, frozen=True, tag="tell-survivors", kw_only=True):
    """A broker's replicas have entered formations of their groups."""

    told: list[ToldSurvivor]


class DecideRecovery(ClientCommand, frozen=True, tag="decide-recovery", kw_only=True):
    """Decide how a formation begins, if those that have told are enough."""

    group: int
    formation: int
    may_be_unclean: bool
    at_ms: int = 0


class TellGivenUp(PeerRequest, frozen=True, tag="tell-given-up", kw_only=True):
    """A replica came back with so many records that were given up meanwhile."""

    group: int
    count: int


class WantedReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """Which replicas a partition is to have; None stops a move that is under way."""

    topic: str
    partition: int
    replicas: list[int] | None


class MoveReplicas(ClientCommand, frozen=True, tag="move-replicas", kw_only=True):
    """Have replicas of partitions moved; each is taken or refused by itself."""

    partitions: list[WantedReplicas]
    may_change_factor: bool = True


class AskMoves(ClientCommand, frozen=True, tag="ask-moves"):
    """Which replicas move, as whoever leads the controllers knows."""


class AskMetadataEnd(PeerRequest, frozen=True, tag="ask-metadata-end"):
    """How far the metadata are, as whoever leads the controllers knows; see `MetadataBarrier`."""


class TakeUpMove(PeerRequest, frozen=True, tag="take-up-move", kw_only=True):
    """A partition's leader is going to carry out a move: leaders of earlier terms are not to."""

    group: int
    move: int
    term: int


class FinishMove(PeerRequest, frozen=True, tag="finish-move", kw_only=True):
    """The leader that took up a move has committed the replicas that were wanted."""

    group: int
    move: int
    term: int


class TransferLeadership(PeerRequest, frozen=True, tag="transfer", kw_only=True):
    """Asked of a group's leader: hand over to this replica."""

    group: int
    to_node: int


class ForwardProduce(PeerRequest, frozen=True, tag="produce", kw_only=True):
    """Asked of a partition's leader, by a gateway whose client cannot go there itself."""

    topic: str
    partition: int
    acks: int
    timeout_ms: int
    records: bytes


class ForwardAppend(PeerRequest, frozen=True, tag="append-at", kw_only=True):
    """Asked of a partition's leader: a batch that is appended if the log ends at `end_offset`.

    `LogEndMoved` says that it does not; then whoever asks has to read on, and decide anew.
    """

    topic: str
    partition: int
    end_offset: int
    timeout_ms: int
    records: bytes


class AdvanceStart(PeerRequest, frozen=True, tag="advance-start", kw_only=True):
    """Asked of any replica: records before an offset were deleted on another one."""

    group: int
    start_offset: int
    #: The term of the last record that was deleted; -1: an earlier release does not say.
    start_term: int = -1


#: In place of an offset in `ForwardFetch`: from the log's start, from the last stable offset.
EARLIEST = -2
LATEST = -1


#: The subject of records without a key, and filters of NATS: see `SubjectFilters`. In UTF-8, with
#: what is no text as Python's `surrogateescape` has it.
WantedNames = tuple[bytes, ...]


class ForwardFetch(PeerRequest, frozen=True, tag="fetch", kw_only=True):
    """Asked of a partition's leader: batches of committed transactions from an offset on."""

    topic: str
    partition: int
    offset: int
    bytes_max: int
    #: So long to wait where there are none; earlier releases answer at once.
    wait_ms: int = 0
    #: Whether open transactions do not end what is read: all that is committed to the log is.
    reads_all: bool | msgspec.UnsetType = msgspec.UNSET
    #: Records that are not wanted by these may be left out. Earlier releases leave out none.
    names: WantedNames | msgspec.UnsetType = msgspec.UNSET


class GroupOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A group's committed offset in one partition."""

    topic: str
    partition: int
    offset: int


class ForwardCommitOffsets(PeerRequest, frozen=True, tag="commit-offsets", kw_only=True):
    """Asked of a group's coordinator, for somebody who is in no generation of the group."""

    group_id: str
    offsets: list[GroupOffset]


class ForwardFetchOffsets(PeerRequest, frozen=True, tag="fetch-offsets", kw_only=True):
    """Asked of a group's coordinator: what is committed for these partitions of a topic."""

    group_id: str
    topic: str
    partitions: list[int]


class WriteMarker(PeerRequest, frozen=True, tag="write-marker", kw_only=True):
    """Asked of a partition's leader, by a coordinator: end a producer's transaction there."""

    topic: str
    #: Of the topic that is meant: no other one of that name is to take it. Empty: not said, by a
    #: release before this field.
    topic_id: bytes = b""
    partition: int
    #: Of the leadership that is meant: no later one is to take it.
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    is_epoch_bumped: bool
    coordinator_epoch: int
    is_commit: bool


class AddToTransaction(PeerRequest, frozen=True, tag="add-to-transaction", kw_only=True):
    """Asked of a transaction's coordinator, by a partition's leader (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topic: str
    #: Of the topic that the leader has; empty: not said, by a release before this field.
    topic_id: bytes = b""
    partition: int
    #: Ask whether it takes part; else add it.
    verify_only: bool


class LedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition under one leadership of it; an empty id says nothing of the topic."""

    topic: str
    topic_id: bytes = b""
    partition: int
    leader_epoch: int


class ConfirmTransaction(PeerRequest, frozen=True, tag="confirm-transaction", kw_only=True):
    """Told a partitions' leader, by a coordinator: they take part in a producer's transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    partitions: list[LedPartition]


class AskPart(PeerRequest, frozen=True, tag="ask-part", kw_only=True):
    """What a broker knows of itself for one page of the admin API; answered by `Part`."""

    page: str
    #: What is asked, as the page has it.
    question: bytes


ControllerCommand = (
    RegisterBroker
    | AccessCommand
    | QueueCommand
    | ExchangeCommand
    | RemoveBroker
    | ChangeControllers
    | RaiseFeature
    | CreateTopic
    | DeleteTopic
    | CreatePartitions
    | ChangeConfig
    | ChangeGroupConfig
    | ChangeQuotas
    | AllocateProducerIds
    | BeginRecovery
    | AskElection
    | TellSurvivors
    | DecideRecovery
    | TellGivenUp
    | MoveReplicas
    | AskMoves
    | AskMetadataEnd
    | TakeUpMove
    | FinishMove
)


class AwaitMetadata(PeerRequest, frozen=True, tag="await-metadata", kw_only=True):
    """Wait until the other broker has applied the metadata's log up to an offset. Answer: `Done`.

    Refused with `RequestTimedOut` if it has not within the time.
    """

    offset: int
    timeout_ms: int


GroupCommand = ForwardCommitOffsets | ForwardFetchOffsets
AnyPeerRequest = (
    ControllerCommand
    | TransferLeadership
    | AskControllers
    | AskPart
    | AwaitMetadata
    | AdvanceStart
    | ForwardProduce
    | ForwardAppend
    | ForwardFetch
    | GroupCommand
    | AnyQueueRequest
    | ExtendWaits
    | TakeOverConsumer
    | LiveRequest
    | WriteMarker
    | AddToTransaction
    | ConfirmTransaction
    | RunTransaction
    | JoinTransaction
)


class TopicResult(msgspec.Struct, frozen=True, kw_only=True, tag="topic"):
    """A topic as it is after the command."""

    name: str
    topic_id: bytes
    partition_count: int
    replication_factor: int
    configs: dict[str, str] = msgspec.field(default_factory=dict)


class ProducerIdBlock(msgspec.Struct, frozen=True, kw_only=True, tag="producer-ids"):
    """Producer ids `first` to `first + count - 1`, for one broker alone."""

    first: int
    count: int


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a part of a request was not done: the name of an error, and what it says."""

    error: str
    message: str


class ControllerCopy(msgspec.Struct, frozen=True, kw_only=True):
    """How far a broker has the controllers' log, as the leader knows."""

    node: int
    directory_id: str
    #: After the last record that it has durably; -1: the leader has not heard.
    end_offset: int
    is_voter: bool
    is_alive: bool
    #: It has all that is committed, and counts.
    has_all: bool


class ControllersView(msgspec.Struct, frozen=True, kw_only=True, tag="controllers"):
    """The controllers' group as its leader sees it."""

    leader: int
    term: int
    high_watermark: int
    copies: list[ControllerCopy]


class MovesResult(msgspec.Struct, frozen=True, kw_only=True, tag="moves"):
    """What came of each partition, in the order of the request; None: it is done or under way."""

    refusals: list[Refusal | None]


class MovingPartition(msgspec.Struct, frozen=True, array_like=True):
    """A partition whose replicas move; see `PartitionState`."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class MovesView(msgspec.Struct, frozen=True, kw_only=True, tag="moves-view"):
    """All partitions whose replicas move."""

    moving: list[MovingPartition]


class MetadataEnd(msgspec.Struct, frozen=True, kw_only=True, tag="metadata-end"):
    """Whatever a controller has answered so far lies before this offset of the metadata's log."""

    offset: int


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's part of a page of the admin API."""

    #: When it was true, by the broker's own clock.
    at_ms: int
    #: What was found, as the page has it.
    body: bytes


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Nothing more to say."""


class AddedToTransaction(msgspec.Struct, frozen=True, tag="added"):
    """The name of a `TransactionError`; NONE where the partition takes part."""

    error: str


class ProduceResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where a batch has been written."""

    base_offset: int
    log_start_offset: int
    #: The time of the append where the topic has LogAppendTime, else -1.
    append_time_ms: int = -1


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Batches as they stand in the log, and the log's ends."""

    #: All of them, before the last stable offset.
    records: bytes
    #: Producer ids, and offsets from which their batches are to be skipped up to the next marker.
    aborted: list[tuple[int, int]]
    last_stable_offset: int
    log_start_offset: int
    #: Where reading goes on, where names were asked for: what lies before it is here or not wanted.
    next_offset: int | msgspec.UnsetType = msgspec.UNSET


class GroupOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """What is committed; partitions without an offset are left out."""

    offsets: list[GroupOffset]


ControllerResult = (
    TopicResult
    | QueueResult
    | RemovedRules
    | ProducerIdBlock
    | MovesResult
    | MovesView
    | MetadataEnd
    | Done
)
