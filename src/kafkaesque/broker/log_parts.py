"""The parts of a broker that keep its logs, and what is coordinated from them."""

from collections.abc import Callable

from kafkaesque.access.key_keeper import FileKeyKeeper
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.coordinators.group_offsets import GroupOffsetsClient
from kafkaesque.broker.coordinators.groups import GroupCoordinators
from kafkaesque.broker.coordinators.registered_tables import RegisteredTables
from kafkaesque.broker.coordinators.share_groups import ShareGroups
from kafkaesque.broker.coordinators.table_hosts import TableServices
from kafkaesque.broker.coordinators.transaction_leaders import TransactionLeaders
from kafkaesque.broker.coordinators.transaction_runner import TransactionRunner
from kafkaesque.broker.coordinators.transactions import TransactionCoordinators
from kafkaesque.broker.doors.publishing import Publishing
from kafkaesque.broker.doors.queues import Queues
from kafkaesque.broker.link_parts import LinkParts
from kafkaesque.broker.live.hub import LiveHub
from kafkaesque.broker.live.retained_log import RetainedLog
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.partitions.few_names import FewNames
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.partitions.key_indexes import KeyIndexes
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.partitions.schema_checks import ProduceChecks
from kafkaesque.broker.partitions.topic_keys import TopicKeys
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.hosts import QueueHosts
from kafkaesque.broker.queues.joining import Joining, JoiningParts
from kafkaesque.broker.queues.mover import Mover
from kafkaesque.broker.schemas.schema_log import SchemaLog
from kafkaesque.broker.upkeep.group_recovery import GroupRecovery
from kafkaesque.broker.upkeep.log_starts import LogStarts
from kafkaesque.env import Env
from kafkaesque.model.ids import GroupId, Offset
from kafkaesque.storage.group_log import GroupLog


class LogParts(LinkParts):
    """Makes the partitions, and the groups, transactions and queues that live in them."""

    #: Made by `BrokerParts`; no partition is open before.
    log_starts: LogStarts
    group_recovery: GroupRecovery

    def __init__(
        self,
        *,
        env: Env,
        config: BrokerConfig,
        report: Callable[[str], None],
        report_error: Callable[[str], None] | None = None,
        report_warning: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(
            env=env,
            config=config,
            report=report,
            report_error=report_error,
            report_warning=report_warning,
        )
        self._make_partitions()
        self._make_tables()

    def _make_partitions(self) -> None:
        clock, disk = self.env.clock, self.env.disk
        self.batch_checks = ProduceChecks(disk, clock)
        keeper_keys, draw = self.config.keeper_keys, self.env.dice.unique_bytes
        self.topic_keys = TopicKeys(
            clock=clock,
            dice=self.env.dice,
            disk=disk,
            metadata=self.metadata,
            controller=self.controller_client,
            keeper=FileKeyKeeper(keeper_keys, draw) if keeper_keys else None,
            life=self.life,
            reports=self.reports,
            audit=self.audit,
        )
        self.partitions = PartitionTable(
            node=self.node,
            clock=clock,
            disk=disk,
            store=self.store,
            driver=self.driver,
            metadata=self.metadata,
            leaders=self.leaders,
            options=self.options,
            life=self.life,
            activity=self.activity,
            reports=self.reports,
            events=self,
            keys=self.topic_keys,
            dice=self.env.dice,
        )
        self.key_indexes = KeyIndexes(
            clock, disk, self.store.statistics, self.config.storage.free_bytes_min
        )
        self.forwarder = Forwarder(
            node=self.node,
            clock=clock,
            disk=disk,
            caller=self.caller,
            metadata=self.metadata,
            leaders=self.leaders,
            peers=self.peers,
            partitions=self.partitions,
            batch_checks=self.batch_checks,
            few_names=FewNames(clock, disk, self.key_indexes),
        )
        self.schemas = self.batch_checks.bind(
            SchemaLog(clock, self.metadata, self.controller_client, self.forwarder, self.options)
        )
        self.publishing = Publishing(self.partitions, self.forwarder, self.batch_checks, self.store)

    def _make_tables(self) -> None:
        services = TableServices(
            clock=self.env.clock,
            disk=self.env.disk,
            reports=self.reports,
            metadata=self.metadata,
            leaders=self.leaders,
            leader_waits=self.leader_waits,
            controller=self.controller_client,
            options=self.options,
        )
        self.transaction_leaders = TransactionLeaders(
            node=self.node,
            clock=self.env.clock,
            metadata=self.metadata,
            leaders=self.leaders,
            caller=self.caller,
            partitions=self.partitions,
        )
        self.group_coordinators = GroupCoordinators(services)
        self.transaction_coordinators = TransactionCoordinators(
            services,
            node=self.node,
            caller=self.caller,
            producer_ids=self.producer_ids,
            partition_leaders=self.transaction_leaders,
        )
        self.share_groups = ShareGroups(
            clock=self.env.clock,
            metadata=self.metadata,
            controller=self.controller_client,
            coordinators=self.group_coordinators,
        )
        self.group_offsets = GroupOffsetsClient(
            node=self.node,
            clock=self.env.clock,
            caller=self.caller,
            metadata=self.metadata,
            leaders=self.leaders,
            coordinators=self.group_coordinators,
        )
        self._make_queues()
        self.transaction_runner = self._make_transaction_runner()
        self._make_live()
        #: All kinds of tables that live in partitions of a topic of their own.
        self.tables = (
            RegisteredTables(
                tables=self.group_coordinators, servers=(self.group_offsets.register,)
            ),
            RegisteredTables(
                tables=self.transaction_coordinators,
                servers=(
                    self.transaction_coordinators.register,
                    self.transaction_leaders.register,
                    self.transaction_runner.register,
                ),
            ),
        )

    def _make_live(self) -> None:
        self.retained = RetainedLog(
            clock=self.env.clock,
            metadata=self.metadata,
            controller=self.controller_client,
            log=self.forwarder,
            options=self.options,
        )
        self.live_hub = LiveHub(
            clock=self.env.clock,
            peers=self.peers,
            caller=self.caller,
            timings=self.config.timings,
            when_settled=self.retained.when_settled,
        )

    def _make_transaction_runner(self) -> TransactionRunner:
        joining = JoiningParts(
            clock=self.env.clock,
            partitions=self.partitions,
            checks=self.batch_checks,
            find_host=self.queue_hosts.find,
            confirm=self.transaction_coordinators.confirm,
        )
        return TransactionRunner(
            node=self.node,
            clock=self.env.clock,
            caller=self.caller,
            metadata=self.metadata,
            leaders=self.leaders,
            coordinators=self.transaction_coordinators,
            join=lambda request, on_done: Joining(joining, request, on_done).begin(),
        )

    def _make_queues(self) -> None:
        clock = self.env.clock
        self.queue_hosts = QueueHosts(
            node=self.node,
            incarnation=self.incarnation,
            clock=clock,
            disk=self.env.disk,
            metadata=self.metadata,
            peers=self.peers,
            partitions=self.partitions,
            forwarder=self.forwarder,
            checks=self.batch_checks,
            on_start_wanted=self.on_start_wanted,
            reports=self.reports,
        )
        self.queue_calls = QueueCalls(
            node=self.node,
            clock=clock,
            caller=self.caller,
            metadata=self.metadata,
            leaders=self.leaders,
            hosts=self.queue_hosts,
        )
        mover = Mover(
            clock=clock,
            metadata=self.metadata,
            calls=self.queue_calls,
            forwarder=self.forwarder,
            options=self.options,
        )
        self.queue_hosts.on_move = mover.move
        self.queues = Queues(
            node=self.node,
            incarnation=self.incarnation,
            clock=clock,
            metadata=self.metadata,
            leaders=self.leaders,
            calls=self.queue_calls,
            hosts=self.queue_hosts,
        )

    # -- PartitionEvents

    def on_opened(self, group: GroupId) -> None:
        """See `PartitionEvents`."""
        self.group_recovery.follow(group)

    def on_leadership(self, partition: Partition) -> None:
        """See `PartitionEvents`."""
        self.queue_hosts.on_leadership(partition)
        for kind in self.tables:
            kind.tables.on_leadership(partition)

    def on_removed(self, partition: Partition) -> None:
        """See `PartitionEvents`."""
        self.queue_hosts.on_removed(partition)
        for kind in self.tables:
            kind.tables.on_removed(partition)

    def on_start_wanted(self, group: GroupId, start: Offset) -> None:
        """See `PartitionEvents`."""
        self.log_starts.want(group, start)

    def is_given_up(self, group: GroupId, log: GroupLog) -> bool:
        """See `PartitionEvents`."""
        return self.group_recovery.is_given_up(group, log)

    def on_given_up(self, state: PartitionState, log: GroupLog) -> None:
        """See `PartitionEvents`."""
        self.group_recovery.tell_given_up(state, log)
