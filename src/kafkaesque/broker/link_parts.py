"""The parts of a broker that tie it to the others: links, consensus, and the controller."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kafkaesque.broker.activity import Activity
from kafkaesque.broker.audit import Audit, chosen_kinds
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.client import Audited, ControllerClient
from kafkaesque.broker.controller.metadata_everywhere import MetadataEverywhere
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.controller.producer_ids import ProducerIds
from kafkaesque.broker.controller.voters import ControllerVoters
from kafkaesque.broker.doors.cluster import Cluster
from kafkaesque.broker.joining.gossip_driver import GossipDriver
from kafkaesque.broker.joining.registration import Registration
from kafkaesque.broker.life import Life
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.peers.greeting import Greeter
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.peers.papers import Papers
from kafkaesque.broker.replication.leader_reports import LeaderReports
from kafkaesque.broker.replication.leader_waits import LeaderWaits
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.part_desk import PartDesk
from kafkaesque.broker.upkeep.access_freshness import AccessFreshness
from kafkaesque.env import Env
from kafkaesque.env.clock import Timer
from kafkaesque.env.event_limit import EventLimit
from kafkaesque.model.ids import NodeId, TopicId
from kafkaesque.storage.log_store import LogStore


def _nothing() -> None:
    """Nobody has asked to be told."""


class LinkParts:
    """Makes the links to other brokers and the ways to the controller; the first of the parts."""

    #: Made by `BrokerParts`, when there is something to tell.
    gossip: GossipDriver | None

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
            everywhere=MetadataEverywhere(
                clock=clock, metadata=self.metadata, peers=self.peers, caller=self.caller
            ),
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

    def _make_audit(self) -> Audit:
        is_secured = any(each.access is not AccessMode.OPEN for each in self.config.listeners)
        chosen = str(self.config.option("audit.events")).split(",")
        return Audit(self.env.clock, chosen_kinds(chosen, is_secured=is_secured))

    def _make_audited(self) -> Audited | None:
        if not self.audit.trail.kinds:
            return None
        from kafkaesque.broker.controller.audited_changes import audited

        return partial(audited, self.audit)

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
