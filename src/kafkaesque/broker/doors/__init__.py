"""What gateways and the admin port see of a broker: a few narrow doors, each with its promises."""

from dataclasses import dataclass

from kafkaesque.broker.activity import Activity
from kafkaesque.broker.doors.access import Access
from kafkaesque.broker.doors.cluster import Cluster
from kafkaesque.broker.doors.condition import Condition
from kafkaesque.broker.doors.configuration import Configuration
from kafkaesque.broker.doors.exchanges import Exchanges
from kafkaesque.broker.doors.groups import Groups
from kafkaesque.broker.doors.live import Live
from kafkaesque.broker.doors.parts import Parts
from kafkaesque.broker.doors.publishing import Publishing
from kafkaesque.broker.doors.queues import Queues
from kafkaesque.broker.doors.reading import Reading
from kafkaesque.broker.doors.topics import Topics
from kafkaesque.broker.doors.transactions import Transactions
from kafkaesque.broker.partitions.topic_keys import TopicKeys
from kafkaesque.broker.schemas.schema_log import SchemaLog
from kafkaesque.env.clock import Clock
from kafkaesque.env.dice import Dice
from kafkaesque.env.network import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """All doors of one broker; a handler takes those that it needs."""

    clock: Clock
    dice: Dice
    network: Network
    #: What the broker has done since its start; gateways count here.
    activity: Activity
    cluster: Cluster
    topics: Topics
    publishing: Publishing
    queues: Queues
    exchanges: Exchanges
    live: Live
    reading: Reading
    groups: Groups
    transactions: Transactions
    access: Access
    #: The topics' keys: versions, rotation, shredding.
    keys: TopicKeys
    #: Schemas of records; nothing is read before somebody asks.
    schemas: SchemaLog
    configuration: Configuration
    condition: Condition
    parts: Parts
