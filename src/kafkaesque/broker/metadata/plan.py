"""What a plan of the controller is, and what it is made from besides the state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkaesque.broker.metadata.controller_planner import ControllerFacts
from kafkaesque.broker.metadata.records import AnyMetadataRecord
from kafkaesque.broker.requests.commands import ControllerResult
from kafkaesque.model.ids import GroupId, NodeId, Offset, TopicId
from kafkaesque.model.options import OptionValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Records to be proposed, and the answer once they are committed."""

    records: list[AnyMetadataRecord]
    result: ControllerResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What a plan needs besides the state."""

    #: Brokers that can take replicas now.
    alive: Sequence[NodeId]
    #: How many brokers the cluster is meant to have, as far as is known.
    expected_brokers: int
    #: Broker options in force, by name.
    broker_option: Callable[[str], OptionValue]
    #: Broker options as they were given to this broker at its start; the others have the same.
    start_option: Callable[[str], OptionValue]
    new_topic_id: Callable[[], TopicId]
    #: Any number; breaks ties in placement.
    draw: int
    #: Unix time.
    wall_ms: int = 0
    #: Up to where the metadata's log is in the state.
    applied_offset: Offset = Offset(0)
    controllers: ControllerFacts = ControllerFacts()
    #: Who leads a group, as far as is heard.
    leader: Callable[[GroupId], NodeId | None] = lambda group: None
    #: Which process of a broker is alive, as far as is heard.
    incarnation: Callable[[NodeId], int | None] = lambda node: None
