"""All parts of a broker, each made of those before it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kafkaesque.access.key_keeper import FileKeyKeeper
from kafkaesque.access.principal_mapping import PrincipalMapping
from kafkaesque.access.sealing import KEY_BYTES, ClusterKeys, cluster_key
from kafkaesque.access.secret import Secret
from kafkaesque.access.verified_passwords import VerifiedPasswords
from kafkaesque.broker.activity import Activity
from kafkaesque.broker.audit import Audit, chosen_kinds
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.client import Audited, ControllerClient
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.controller.producer_ids import ProducerIds
from kafkaesque.broker.controller.voters import ControllerVoters
from kafkaesque.broker.coordinators.group_offsets import GroupOffsetsClient
from kafkaesque.broker.coordinators.groups import GroupCoordinators
from kafkaesque.broker.coordinators.registered_tables import RegisteredTables
from kafkaesque.broker.coordinators.share_groups import ShareGroups
from kafkaesque.broker.coordinators.table_hosts import TableServices
from kafkaesque.broker.coordinators.transaction_leaders import TransactionLeaders
from kafkaesque.broker.coordinators.transactions import TransactionCoordinators
from kafkaesque.broker.doors import Doors
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
from kafkaesque.broker.joining.gossip_ties import GossipTies, make_gossip
from kafkaesque.broker.joining.identity import Identity
from kafkaesque.broker.joining.registration import Registration
from kafkaesque.broker.life import Life
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.broker.live.hub import LiveHub
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata_follower import MetadataFollower
from kafkaesque.broker.options.encryption import INTERNAL_ENCRYPTION
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.partitions.schema_checks import ProduceChecks
from kafkaesque.broker.partitions.topic_keys import TopicKeys
from kafkaesque.broker.peer_follower import PeerFollower
from kafkaesque.broker.peers.greeting import Greeter
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.peers.papers import Papers
from kafkaesque.broker.queues.making import make_queues
from kafkaesque.broker.replication.leader_reports import LeaderReports
from kafkaesque.broker.replication.leader_waits import LeaderWaits
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.desk import RequestDesk
from kafkaesque.broker.requests.part_desk import PartDesk
from kafkaesque.broker.schemas.schema_log import SchemaLog
from kafkaesque.broker.serving import register_servers
from kafkaesque.broker.upkeep.access_freshness import AccessFreshness
from kafkaesque.broker.upkeep.group_recovery import GroupRecovery
from kafkaesque.broker.upkeep.log_cleaner import LogCleaner
from kafkaesque.broker.upkeep.log_scrubber import LogScrubber
from kafkaesque.broker.upkeep.log_starts import LogStarts
from kafkaesque.broker.upkeep.recovery_watch import RecoveryWatch
from kafkaesque.broker.upkeep.replica_mover import ReplicaMover
from kafkaesque.broker.upkeep.space_watch import SpaceWatch
from kafkaesque.broker.upkeep.unclean_election import UncleanElections
from kafkaesque.env import Env
from kafkaesque.env.clock import Timer
from kafkaesque.env.event_limit import EventLimit
from kafkaesque.model.ids import GroupId, NodeId, Offset, TopicId
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_store import LogStore

if TYPE_CHECKING:
    from kafkaesque.broker.upkeep.audit_writer import AuditWriter


def _nothing() -> None:
    """Nobody has asked to be told."""


class BrokerParts:
    """Makes the parts and hands each what it needs; `Broker` gives them life."""

    def __init__(
        self,
        *,
        env: Env,
        config: BrokerConfig,
        report: Callable[[str], None],
        report_error: Callable[[str], None] | None = None,
        report_warning: Callable[[str], None] | None = None,
    ) -> None:
        """`report_error` is told what somebody has to look after, `report_warning` what may be
        wrong; without them, `report` is.
        """
        self.env = env
        self.config = config
        self.node = config.node
        self.incarnation = int.from_bytes(env.dice.unique_bytes(6), "big")
        self.reports = Reports(
            info=EventLimit(report, env.clock.call_later).say,
            warning=report_warning or report,
            error=report_error or report,
        )
        self.life = Life()
        self.activity = Activity()
        self.audit = self._make_audit()
        #: Told once, in a later turn, when the disk has failed: clients have to go elsewhere.
        self.on_failed: Callable[[], None] = _nothing
        #: Told when another process has this broker's id, and this one is the one to stop.
        self.on_contested: Callable[[], None] = _nothing
        self._sweep: Timer | None = None
        self._make_links()
        self._make_controller()
        self._make_partitions()
        self._make_tables()
        self._make_upkeep()
        self.live_hub = LiveHub(clock=env.clock)
        self._make_ties()
        self._make_followers()
        self.doors = self._make_doors()

    # -- the parts, each made of those before it

    def _make_links(self) -> None:
        config, env, reports = self.config, self.env, self.reports
        self.leaders = LeadersTable(self.node)
        self.options = LiveOptions(self.node, config.option_values())
        self.peers = PeerNetwork(
            env=env,
            node=self.node,
            greeter=self._make_greeter(),
            timings=config.timings,
            papers=Papers(
                config.cluster_id,
                config.peer_tls,
                dials_tls=config.dials_peers_with_tls,
                is_optional=config.takes_peers_in_the_clear,
            ),
            report=reports.info,
            report_error=reports.error,
            report_warning=reports.warning,
        )
        self.caller = RemoteCaller(env.clock, self.peers)
        self.part_desk = PartDesk()
        self.store = LogStore(
            disk=env.disk,
            clock=env.clock,
            config=config.storage,
            cluster_id=config.cluster_id,
            node=self.node,
            draw=self._draw_number,
        )
        self.driver = RaftDriver(
            env=env,
            node=self.node,
            store=self.store,
            peers=self.peers,
            config=replace(config.raft, in_sync_lag_ticks=config.lag_ticks_max),
            tick_ms=config.tick_ms,
            on_leadership=lambda replica: self.leader_reports.on_leadership(replica),
            on_failed=self._on_disk_failed,
            activity=self.activity,
            report=reports.info,
            report_error=reports.error,
        )

    def _make_controller(self) -> None:
        clock, node = self.env.clock, self.node
        self.controller_voters = ControllerVoters(tuple(sorted(self.config.controllers)), node)
        self.controller_client = ControllerClient(
            node=node,
            clock=clock,
            caller=self.caller,
            voters=self.controller_voters,
            is_cut_off=lambda: self.cluster.is_cut_off(),
            new_topic_id=self._new_topic_id,
            audited=self._make_audited(),
        )
        self.metadata = MetadataView(clock, self.controller_client)
        self.cluster = Cluster(
            config=self.config,
            metadata=self.metadata,
            controller=self.controller_client,
            voters=self.controller_voters,
            peers=self.peers,
            leaders=self.leaders,
            driver=self.driver,
        )
        self.access_freshness = AccessFreshness(
            clock=clock,
            barrier=self.metadata,
            stale_ms_max=int(self.config.option("authorization.stale.ms.max")),
            report=self.reports.warning,
        )
        self.producer_ids = ProducerIds(node=node, controller=self.controller_client)
        self.leader_waits = LeaderWaits(clock, self.leaders, lambda: self.metadata.state)
        self.leader_reports = LeaderReports(
            node=node,
            clock=clock,
            leaders=self.leaders,
            leader_waits=self.leader_waits,
            driver=self.driver,
            peers=self.peers,
        )
        self.registration = Registration(
            node=node,
            incarnation=self.incarnation,
            metadata=self.metadata,
            reports=self.reports,
            config=self.config,
            controller=self.controller_client,
            life=self.life,
            store=self.store,
            clock=clock,
        )

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
                ),
            ),
        )

    def _make_audit(self) -> Audit:
        is_secured = any(each.access is not AccessMode.OPEN for each in self.config.listeners)
        chosen = str(self.config.option("audit.events")).split(",")
        return Audit(self.env.clock, chosen_kinds(chosen, is_secured=is_secured))

    def _make_audited(self) -> Audited | None:
        if not self.audit.trail.kinds:
            return None
        from kafkaesque.broker.controller.audited_changes import audited

        return partial(audited, self.audit)

    def _make_audit_writer(self) -> "AuditWriter | None":
        if not self.audit.trail.kinds:
            return None
        # Nobody else needs it.
        from kafkaesque.broker.upkeep.audit_writer import AuditWriter

        option = self.config.option
        return AuditWriter(
            node=self.node,
            incarnation=self.incarnation,
            clock=self.env.clock,
            trail=self.audit.trail,
            metadata=self.metadata,
            controller=self.controller_client,
            produce=self.forwarder.produce,
            fetch=self.forwarder.fetch,
            replication_factor=int(option("audit.topic.replication.factor")),
            retention_ms=int(option("audit.retention.ms")),
            retention_bytes=int(option("audit.retention.bytes")),
            encryption=str(option(INTERNAL_ENCRYPTION)),
            report=self.reports.error,
        )

    def _make_queues(self) -> None:
        self.queue_hosts, self.queue_calls = make_queues(
            node=self.node,
            env=self.env,
            metadata=self.metadata,
            leaders=self.leaders,
            peers=self.peers,
            caller=self.caller,
            partitions=self.partitions,
            forwarder=self.forwarder,
            checks=self.batch_checks,
            on_start_wanted=self.on_start_wanted,
        )
        self.queues = Queues(
            node=self.node,
            incarnation=self.incarnation,
            clock=self.env.clock,
            metadata=self.metadata,
            calls=self.queue_calls,
            hosts=self.queue_hosts,
        )

    def _make_upkeep(self) -> None:
        clock, disk = self.env.clock, self.env.disk
        self._make_movers()
        self.audit_writer = self._make_audit_writer()
        self.log_starts = LogStarts(
            node=self.node,
            clock=clock,
            store=self.store,
            driver=self.driver,
            caller=self.caller,
            partitions=self.partitions,
            metadata=self.metadata,
            leaders=self.leaders,
            life=self.life,
        )
        self.log_cleaner = LogCleaner(
            clock=clock,
            disk=disk,
            store=self.store,
            partitions=self.partitions,
            options=self.options,
            free_bytes_min=self.config.storage.free_bytes_min,
            life=self.life,
            reports=self.reports,
        )
        self.log_scrubber = LogScrubber(
            clock=clock,
            disk=disk,
            partitions=self.partitions,
            options=self.options,
            life=self.life,
        )
        self.space_watch = SpaceWatch(
            node=self.node,
            store=self.store,
            data_dir=self.config.data_dir,
            life=self.life,
            reports=self.reports,
        )

    def _make_movers(self) -> None:
        self.replica_mover = ReplicaMover(
            node=self.node,
            driver=self.driver,
            metadata=self.metadata,
            leaders=self.leaders,
            controller=self.controller_client,
            options=self.options,
            given=self.config.option_values(),
            reports=self.reports,
        )
        self.group_recovery = GroupRecovery(
            node=self.node,
            driver=self.driver,
            partitions=self.partitions,
            metadata=self.metadata,
            controller=self.controller_client,
            reports=self.reports,
        )
        self.unclean_elections = UncleanElections(
            clock=self.env.clock,
            peers=self.peers,
            metadata=self.metadata,
            leaders=self.leaders,
            controller=self.controller_client,
        )
        self.recovery_watch = RecoveryWatch(
            clock=self.env.clock,
            peers=self.peers,
            metadata=self.metadata,
            leaders=self.leaders,
            controller=self.controller_client,
            options=self.options,
            reports=self.reports,
        )

    def _make_ties(self) -> None:
        """What this broker says of itself, and hears of others that say that they are it."""
        ties = GossipTies(
            node=self.node,
            disk=self.env.disk,
            metadata=self.metadata,
            leaders=self.leaders,
            partitions=self.partitions,
            life=self.life,
            reports=self.reports,
        )
        self.gossip = make_gossip(
            env=self.env,
            config=self.config,
            peers=self.peers,
            leaders=self.leaders,
            reports=self.reports,
            ties=ties,
        )
        self.identity = Identity(
            env=self.env,
            config=self.config,
            incarnation=self.incarnation,
            life=self.life,
            peers=self.peers,
            metadata=self.metadata,
            registration=self.registration,
            gossip=self.gossip,
            reports=self.reports,
            on_contested=lambda: self.on_contested(),
        )
        ties.on_rival = self.identity.doubt
        ties.on_contested = lambda: self.on_contested()
        if self.gossip is not None:
            self.leader_reports.on_led = self.gossip.leads
        self.leader_reports.on_learned = self.log_starts.on_leader_report
        self.driver.on_damaged = self.log_scrubber.note
        self.peers.write_damaged = self.log_scrubber.damaged_groups

    def _make_followers(self) -> None:
        self.metadata_follower = MetadataFollower(
            clock=self.env.clock,
            config=self.config,
            incarnation=self.incarnation,
            life=self.life,
            metadata=self.metadata,
            options=self.options,
            peers=self.peers,
            gossip=self.gossip,
            partitions=self.partitions,
            tables=self.tables,
            recovery=self.group_recovery,
            topic_keys=self.topic_keys,
            registration=self.registration,
            reports=self.reports,
        )
        desk = RequestDesk()
        register_servers(
            desk,
            metadata=self.metadata,
            controller=self.controller_client,
            voters=self.controller_voters,
            driver=self.driver,
            forwarder=self.forwarder,
            log_starts=self.log_starts,
            parts=self.part_desk,
            tables=self.tables,
            queues=self.queue_hosts,
        )
        self.peers.events = PeerFollower(
            node=self.node,
            clock=self.env.clock,
            peers=self.peers,
            gossip=self.gossip,
            driver=self.driver,
            leaders=self.leaders,
            leader_reports=self.leader_reports,
            leader_waits=self.leader_waits,
            desk=desk,
            report=self.reports.info,
        )

    def _make_doors(self) -> Doors:
        config, options, hub = self.config, self.options, self.live_hub
        exchanges = Exchanges(
            env=self.env,
            cluster=self.cluster,
            queues=self.queues,
            publishing=self.publishing,
            hub=hub,
        )
        return Doors(
            clock=self.env.clock,
            dice=self.env.dice,
            network=self.env.network,
            activity=self.activity,
            cluster=self.cluster,
            topics=Topics(
                node=self.node,
                metadata=self.metadata,
                partitions=self.partitions,
                driver=self.driver,
                caller=self.caller,
                leader_waits=self.leader_waits,
                log_starts=self.log_starts,
                elections=self.unclean_elections,
            ),
            publishing=self.publishing,
            reading=Reading(
                rack=config.rack,
                clock=self.env.clock,
                partitions=self.partitions,
                forwarder=self.forwarder,
                metadata=self.metadata,
                peers=self.peers,
                options=options,
            ),
            groups=Groups(
                coordinators=self.group_coordinators,
                offsets=self.group_offsets,
                share=self.share_groups,
            ),
            transactions=Transactions(
                coordinators=self.transaction_coordinators, ids=self.producer_ids
            ),
            queues=self.queues,
            exchanges=exchanges,
            live=Live(node=self.node, hub=hub, exchanges=exchanges),
            access=self._make_access(),
            keys=self.topic_keys,
            schemas=self.schemas,
            configuration=Configuration(
                config=config, options=options, follower=self.metadata_follower
            ),
            condition=self._make_condition(),
            parts=Parts(node=self.node, caller=self.caller, desk=self.part_desk),
        )

    def _make_access(self) -> Access:
        dice, config = self.env.dice, self.config
        keys = {1: cluster_key(config.secrets[0])} if config.secrets else {}
        return Access(
            clock=self.env.clock,
            dice=dice,
            metadata=self.metadata,
            controller=self.controller_client,
            follower=self.metadata_follower,
            keys=ClusterKeys(keys),
            freshness=self.access_freshness,
            verified=VerifiedPasswords(lambda: Secret(dice.unique_bytes(KEY_BYTES))),
            disk=self.env.disk,
            audit=self.audit,
            super_users=config.super_users,
            mapping=PrincipalMapping(config.cluster_id, config.principal_mapping_rules),
        )

    def _make_condition(self) -> Condition:
        return Condition(
            life=self.life,
            disk=self.env.disk,
            store=self.store,
            metadata=self.metadata,
            voters=self.controller_voters,
            peers=self.peers,
            gossip=self.gossip,
            partitions=self.partitions,
            cleaner=self.log_cleaner,
            scrubber=self.log_scrubber,
            space=self.space_watch,
        )

    def _make_greeter(self) -> Greeter:
        config = self.config
        return Greeter(
            node=self.node,
            cluster_id=config.cluster_id,
            incarnation=self.incarnation,
            advertised=config.peer_address,
            secrets=config.secrets,
            life=lambda: 1 if self.gossip is None else self.gossip.life,
            on_life=self._note_life,
        )

    def _note_life(self, node: NodeId, life: int) -> None:
        if self.gossip is not None:
            self.gossip.note_life(node, life)

    def _draw_number(self) -> int:
        return (int.from_bytes(self.env.dice.unique_bytes(8), "big") >> 1) or 1

    def _new_topic_id(self) -> TopicId:
        return TopicId(self.env.dice.unique_bytes(16))

    def _on_disk_failed(self, error: Exception) -> None:
        raise NotImplementedError

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
