"""All parts of a broker, each made of those before it: `link_parts`, `log_parts`, these."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkaesque.access.principal_mapping import PrincipalMapping
from kafkaesque.access.sealing import KEY_BYTES, ClusterKeys, cluster_key
from kafkaesque.access.secret import Secret
from kafkaesque.access.verified_passwords import VerifiedPasswords
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.access import Access
from kafkaesque.broker.doors.condition import Condition
from kafkaesque.broker.doors.configuration import Configuration
from kafkaesque.broker.doors.exchanges import Exchanges
from kafkaesque.broker.doors.groups import Groups
from kafkaesque.broker.doors.live import Live
from kafkaesque.broker.doors.parts import Parts
from kafkaesque.broker.doors.reading import Reading
from kafkaesque.broker.doors.session_messages import SessionMessages
from kafkaesque.broker.doors.topics import Topics
from kafkaesque.broker.doors.transactions import Transactions
from kafkaesque.broker.joining.gossip_ties import GossipTies, make_gossip
from kafkaesque.broker.joining.identity import Identity
from kafkaesque.broker.log_parts import LogParts
from kafkaesque.broker.metadata_follower import MetadataFollower
from kafkaesque.broker.options.encryption import INTERNAL_ENCRYPTION
from kafkaesque.broker.peer_follower import PeerFollower
from kafkaesque.broker.requests.desk import RequestDesk
from kafkaesque.broker.serving import register_servers
from kafkaesque.broker.upkeep.group_recovery import GroupRecovery
from kafkaesque.broker.upkeep.log_cleaner import LogCleaner
from kafkaesque.broker.upkeep.log_scrubber import LogScrubber
from kafkaesque.broker.upkeep.log_starts import LogStarts
from kafkaesque.broker.upkeep.recovery_watch import RecoveryWatch
from kafkaesque.broker.upkeep.replica_mover import ReplicaMover
from kafkaesque.broker.upkeep.session_messages import SessionMessagesTrimming
from kafkaesque.broker.upkeep.space_watch import SpaceWatch
from kafkaesque.broker.upkeep.unclean_election import UncleanElections
from kafkaesque.env import Env

if TYPE_CHECKING:
    from kafkaesque.broker.upkeep.audit_writer import AuditWriter


class BrokerParts(LogParts):
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
        super().__init__(
            env=env,
            config=config,
            report=report,
            report_error=report_error,
            report_warning=report_warning,
        )
        self._make_upkeep()
        self._make_ties()
        self._make_followers()
        self.doors = self._make_doors()

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
        self.session_messages_trimming = SessionMessagesTrimming(
            clock=self.env.clock,
            metadata=self.metadata,
            partitions=self.partitions,
            calls=self.queue_calls,
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
            live=self.live_hub,
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
            live=self.live_hub,
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
            options=options,
            session_messages=SessionMessages(
                clock=self.env.clock,
                cluster=self.cluster,
                controller=self.controller_client,
                options=options,
            ),
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
                disk=self.env.disk,
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
                coordinators=self.transaction_coordinators,
                ids=self.producer_ids,
                runner=self.transaction_runner,
            ),
            queues=self.queues,
            exchanges=exchanges,
            live=Live(node=self.node, hub=hub, exchanges=exchanges, retained=self.retained),
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
