"""One broker, put together: what gateways and the server talk to.

Life of a broker: `start` recovers the disk, opens the controller's group and the peer port, and
then, as the metadata says, the partitions placed here. It registers itself with the controller,
again and again until that is committed; from then on `is_ready`. Before any of that it makes sure
that no other process has its id (`identity`). `stop` hands leadership over,
closes the links and leaves the disk in a state that needs no recovery.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from kafkaesque.broker.activity import Activity
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.client import ControllerClient, OnOutcome
from kafkaesque.broker.controller.controller import Controller
from kafkaesque.broker.controller.founding import Decision, Founding
from kafkaesque.broker.controller.metadata_barrier import MetadataBarrier
from kafkaesque.broker.controller.metadata_store import MetadataStore
from kafkaesque.broker.controller.producer_ids import ProducerIds
from kafkaesque.broker.controller.registration import Registration
from kafkaesque.broker.controller.voters import ControllerVoters
from kafkaesque.broker.coordinators.group_offsets import GroupOffsetsClient
from kafkaesque.broker.coordinators.groups import GroupCoordinators
from kafkaesque.broker.coordinators.marker_writer import serve_marker
from kafkaesque.broker.coordinators.transaction_confirmer import confirm_transaction
from kafkaesque.broker.coordinators.transactions import TransactionCoordinators
from kafkaesque.broker.metadata.cluster_state import ClusterState, TopicState
from kafkaesque.broker.metadata.dynamic_options import resolve_options
from kafkaesque.broker.metadata.planner import Plan, PlanInputs, plan
from kafkaesque.broker.metadata.records import (
    AnyMetadataRecord,
    BrokerConfigChanged,
    BrokerRegistered,
    BrokerRemoved,
    ClientQuotaChanged,
    GroupConfigChanged,
    PartitionsAdded,
    ReplicasChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from kafkaesque.broker.options.tables import TOPIC_OPTIONS
from kafkaesque.broker.partitions.batch_checks import BatchChecks
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.peers.gossip_ties import make_gossip
from kafkaesque.broker.peers.greeting import Greeter
from kafkaesque.broker.peers.identity import Identity
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.peers.messages import LeaderReport, PeerAnswer
from kafkaesque.broker.replication.leader_reports import LeaderReports
from kafkaesque.broker.replication.leader_waits import LeaderWaits
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.requests.caller import RemoteCaller, read_peer_request, write_outcome
from kafkaesque.broker.requests.commands import (
    AddToTransaction,
    AdvanceStart,
    AskControllers,
    ConfirmTransaction,
    ControllerCommand,
    Done,
    GroupCommand,
    WriteMarker,
)
from kafkaesque.broker.upkeep.group_recovery import GroupRecovery
from kafkaesque.broker.upkeep.log_cleaner import LogCleaner
from kafkaesque.broker.upkeep.log_scrubber import LogScrubber
from kafkaesque.broker.upkeep.log_starts import LogStarts
from kafkaesque.broker.upkeep.recovery_watch import RecoveryWatch
from kafkaesque.broker.upkeep.replica_mover import ReplicaMover
from kafkaesque.broker.upkeep.space_watch import SpaceWatch
from kafkaesque.env import Env
from kafkaesque.env.clock import Timer
from kafkaesque.env.event_limit import EventLimit
from kafkaesque.env.network import Address
from kafkaesque.membership.entries import MemberState
from kafkaesque.model.errors import (
    DiskFailed,
    DiskFull,
    LeaderNotAvailable,
    NotLeader,
    RequestRefused,
)
from kafkaesque.model.ids import (
    NO_NODE,
    GroupId,
    NodeId,
    TopicId,
    TopicPartition,
    read_node,
)
from kafkaesque.model.log_line import LogLine
from kafkaesque.model.options import OptionValue
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.log_store import LogStore
from kafkaesque.storage.recovery import RecoveryReport

SWEEP_MS = 250
#: So long another broker's deletion of records waits until they are committed here.
ADVANCE_TIMEOUT_MS = 5_000


def _nothing() -> None:
    """Nobody has asked to be told."""


class Broker:
    """One broker of a cluster."""

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
        self.report = EventLimit(report, env.clock.call_later).say
        self.report_error = report_error or report
        self.report_warning = report_warning or report
        self.activity = Activity()
        self.node = config.node
        self.incarnation = int.from_bytes(env.dice.unique_bytes(6), "big")
        self.leaders = LeadersTable(self.node)
        self.leader_reports = LeaderReports(self)
        self.is_ready = False
        self.is_stopping = False
        self.failure: Exception | None = None
        #: Told once, in a later turn, when the disk has failed: clients have to go elsewhere.
        self.on_failed: Callable[[], None] = _nothing
        #: Told when another process has this broker's id, and this one is the one to stop.
        self.on_contested: Callable[[], None] = _nothing
        #: Told when client quotas have changed in `state`.
        self.on_quotas_changed: Callable[[], None] = _nothing
        self.options: dict[str, OptionValue] = {}
        #: What of them was set while brokers run, for all brokers and for this one.
        self.dynamic_options: Mapping[NodeId, Mapping[str, OptionValue]] = {}
        self._refused_options: tuple[str, ...] = ()
        self._on_ready: Callable[[], None] | None = None
        self._sweep: Timer | None = None
        self._make_parts()

    def _make_parts(self) -> None:
        config, env = self.config, self.env
        self.peers = PeerNetwork(
            env=env,
            node=self.node,
            greeter=self._make_greeter(),
            timings=config.timings,
            events=self,
            report=self.report,
            report_error=self.report_error,
            report_warning=self.report_warning,
        )
        self.gossip = make_gossip(self)
        self.identity = Identity(self)
        self.registration = Registration(self)
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
            config=replace(config.raft, in_sync_lag_ticks=self._lag_ticks()),
            tick_ms=config.tick_ms,
            on_leadership=self.leader_reports.on_leadership,
            on_failed=self._on_disk_failed,
            activity=self.activity,
            report=self.report,
            report_error=self.report_error,
        )
        self.caller = RemoteCaller(env.clock, self.peers)
        self.controller_voters = ControllerVoters(tuple(sorted(config.controllers)), self.node)
        self.controller_client = ControllerClient(
            node=self.node,
            clock=env.clock,
            caller=self.caller,
            voters=self.controller_voters,
            is_cut_off=self.is_cut_off,
            new_topic_id=self._new_topic_id,
        )
        self.batch_checks = BatchChecks(env.disk, env.clock)
        self.partitions = PartitionTable(self)
        self.replica_mover = ReplicaMover(self)
        self.log_starts = LogStarts(self)
        self.log_cleaner = LogCleaner(self)
        self.log_scrubber = LogScrubber(self)
        self.space_watch = SpaceWatch(self)
        self.driver.on_damaged = self.log_scrubber.note
        self.peers.write_damaged = self.log_scrubber.damaged_groups
        self.group_coordinators = GroupCoordinators(self)
        self.transaction_coordinators = TransactionCoordinators(self)
        self.producer_ids = ProducerIds(node=self.node, controller=self.controller_client)
        self.forwarder = Forwarder(self)
        self.group_offsets = GroupOffsetsClient(self)
        self.group_recovery = GroupRecovery(self)
        self.recovery_watch = RecoveryWatch(self)
        self._leader_waits = LeaderWaits(env.clock)
        self._metadata_barrier = MetadataBarrier(
            env.clock, self.controller_client, lambda: self.controller.applied_offset
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

    def _lag_ticks(self) -> int:
        lag_ms = int(self.config.option("replica.lag.time.max.ms"))
        return max(1, lag_ms // self.config.tick_ms)

    # -- life

    def start(self, on_ready: Callable[[], None]) -> None:
        """Recover, open the peer port and join the cluster; `on_ready` when clients may come.

        Raises:
            KafkaesqueError: the data directory is another's, is in use, or is damaged.
            OSError: the peer port cannot be bound.
        """
        self._on_ready = on_ready
        self._report_recovery(self.store.open())
        self.metadata_store = MetadataStore(
            self.env, self.store, self.report_error, self.config.metadata_snapshot_records
        )
        state, applied_offset, snapshot = self.metadata_store.load()
        self._on_state_loaded(state)
        self.controller = Controller(
            state=state,
            applied_offset=applied_offset,
            planner=self._plan,
            on_record=self._on_record,
            on_snapshot_loaded=self._on_snapshot_loaded,
            on_leading=self._on_controller_leading,
            save_snapshot=self.metadata_store.save,
            snapshot=snapshot,
            wall_ms=self.env.clock.wall_ms,
            on_caught_up=self.partitions.reconcile_soon,
        )
        self.controller.on_applied = self._metadata_barrier.on_applied
        self.controller_client.controller = self.controller
        self.founding = Founding(
            node=self.node,
            incarnation=self.incarnation,
            founders=tuple(self.config.controllers),
            is_fresh=self.metadata_store.is_fresh,
            group_state=self.metadata_store.group_state,
            clock=self.env.clock,
            on_decided=self._open_controller,
            report=self.report_error,
        )
        self.peers.listen(self.config.peer_listener or self.config.peer_address)
        if self.gossip is not None:
            self.gossip.bind()
        self.identity.begin(self._join)

    def _join(self) -> None:
        """No other process has this broker's id: take part."""
        # Before, what others say would be taken for a fresh broker's question.
        self.peers.write_word = self.founding.word_for
        self.peers.on_word = self.founding.on_word
        self.founding.start()
        for node, address in self.config.controllers.items():
            if address is not None:
                self.peers.add_peer(node, address)
        for broker in self.state.brokers.values():
            self._on_broker_registered(broker)
        self.peers.start()
        if self.gossip is not None:
            self.gossip.start()
        self.driver.start()
        self.partitions.reconcile()
        self.registration.start()
        self._sweep = self.env.clock.call_later(SWEEP_MS, self._on_sweep)

    def _report_recovery(self, found: RecoveryReport) -> None:
        counted = self.store.statistics
        if counted.recovery_records:
            sentence = (
                f"broker {self.node} has recovered its logs in {counted.recovery_ms} ms: "
                f"{counted.recovery_records} records read again, and "
                f"{counted.recovery_cut_bytes} bytes cut off that were never whole"
            )
            self.report(LogLine("recovery.done", sentence, duration_ms=counted.recovery_ms))
        for directory in found.missing:
            self.report_error(
                f"the directory {directory} of broker {self.node} is missing: it is copied from "
                "another broker"
            )

    def _open_controller(self, decision: Decision) -> None:
        """It is known whether this broker's controller may vote."""
        if self.failure is not None:
            return
        if decision.settled is not None:
            self.report_error(
                f"broker {self.node} has an empty directory in a cluster that is not new, as broker"
                f" {decision.settled} knows: it gets its copies from the other brokers, and has no "
                "vote until it has them"
            )
        try:
            replica = self.metadata_store.open_group(
                self.driver, self.controller, self.config, decision
            )
            self.controller.replica = self.controller_voters.replica = replica
        except (DiskFailed, StorageCorrupt) as error:
            # Long after the start, so nobody else takes it: the decision has waited for others.
            self._on_disk_failed(error)

    def stop(self, on_stopped: Callable[[], None]) -> None:
        """Hand leadership over, then close everything; data is synced when `on_stopped` comes."""
        self.is_stopping = True
        self.identity.close()
        self.founding.stop()
        if self._sweep is not None:
            self._sweep.cancel()
        self.group_coordinators.close()
        self.transaction_coordinators.close()

        def finish() -> None:
            counted = self.store.statistics
            self.report(
                f"broker {self.node} stops: {counted.wal_records} records in "
                f"{counted.commit_syncs} synced group commits, {counted.checkpoints} checkpoints"
            )
            self.batch_checks.close()
            self.store.look_at_disk()
            self.driver.stop()
            self.peers.close()
            self.partitions.close()
            self.log_scrubber.stop()
            self.log_cleaner.stop(lambda: self.store.close(on_stopped))

        gossip = self.gossip
        self.driver.hand_over_all(finish if gossip is None else lambda: gossip.leave(finish))

    def _on_sweep(self) -> None:
        now_ms = self.env.clock.now_ms()
        self.partitions.on_sweep(now_ms)
        self.leader_reports.on_sweep()
        self.replica_mover.on_sweep()
        self.log_starts.on_sweep(now_ms)
        self.log_cleaner.on_sweep(now_ms)
        self.log_scrubber.on_sweep(now_ms)
        self.space_watch.on_sweep()
        self.group_recovery.on_sweep(now_ms)
        self.recovery_watch.on_sweep(now_ms)
        self.metadata_store.on_sweep(self.controller)
        self.controller_voters.on_sweep(self.state)
        self._sweep = self.env.clock.call_later(SWEEP_MS, self._on_sweep)

    # -- what gateways ask

    @property
    def state(self) -> ClusterState:
        """The cluster's metadata, as this broker has it."""
        return self.controller.state

    def option(self, name: str) -> OptionValue:
        """Return a broker option in force: dynamic for this broker, for all, static, default."""
        return self.options[name]

    def alive_brokers(self) -> list[BrokerRegistered]:
        """Return the brokers that this one hears of, itself included."""
        return [broker for node, broker in self.state.brokers.items() if self.peers.is_alive(node)]

    def controller_node(self) -> NodeId | None:
        """Return which broker's controller leads, as far as is known."""
        return self.controller_client.leader()

    def is_cut_off(self) -> bool:
        """Tell whether it knows no living controller, and hears of no majority of the brokers."""
        known, controller = self.state.brokers, self.controller_node()
        if controller is not None and controller in known and self.peers.is_alive(controller):
            return False
        return len(known) > 1 and 2 * sum(map(self.peers.is_alive, known)) <= len(known)

    def partition(self, where: TopicPartition) -> Partition:
        """Return a partition's replica on this broker, leading or not.

        Raises:
            UnknownTopicOrPartition: not in this cluster.
            NotLeader: it exists and is elsewhere.
            LeaderNotAvailable: it is to be here and is being opened.
        """
        state = self.state.partition(where)
        partition = self.partitions.get(state.group)
        if partition is not None and partition.replica is not None:
            return partition
        if self.node in state.replicas:
            raise LeaderNotAvailable(f"{where} is being opened")
        raise NotLeader(f"{where} is not on this broker", self.leaders.leader(state.group))

    def submit(self, command: ControllerCommand, timeout_ms: int, on_done: OnOutcome) -> None:
        """Have the controller carry out a command, wherever it is."""
        self.controller_client.submit(command, timeout_ms, on_done)

    def when_metadata_current(self, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        """Call in a later turn, with True once `state` has all that was decided before this call.

        With False if that could not be found out in time.
        """
        self._metadata_barrier.wait(timeout_ms, on_done)

    def when_led(self, topic: str, timeout_ms: int, on_done: Callable[[], None]) -> None:
        """Call when all partitions of a topic are known to have leaders, or the time is up."""
        self._leader_waits.wait(topic, timeout_ms, on_done)
        self.check_leader_waits()

    def check_leader_waits(self) -> None:
        """Leaders or topics have changed: see whom `when_led` can tell."""
        self._leader_waits.check(self.state, self.leaders)

    # -- the controller's part

    def _plan(self, state: ClusterState, command: ControllerCommand) -> Plan:
        inputs = PlanInputs(
            alive=[node for node in state.brokers if self.peers.is_alive(node)],
            expected_brokers=max(len(state.brokers), len(self.controller_voters.current())),
            broker_option=self.option,
            start_option=self.config.option,
            new_topic_id=self._new_topic_id,
            draw=self.env.dice.below(1 << 16),
            wall_ms=self.env.clock.wall_ms(),
            applied_offset=self.controller.applied_offset,
            controllers=self.controller_voters.facts(),
            leader=self.leaders.leader,
            incarnation=self._incarnation_of,
        )
        return plan(state, command, inputs)

    def _incarnation_of(self, node: NodeId) -> int | None:
        """Return which process of a broker is alive, as far as this one hears of it."""
        if node == self.node:
            return self.incarnation
        return self.peers.incarnation(node) if self.peers.is_alive(node) else None

    def _on_controller_leading(self, leading: bool) -> None:
        if leading:
            self.report(self.controller_voters.describe_leading())
            self.controller_voters.on_sweep(self.state)

    def _on_snapshot_loaded(self, state: ClusterState) -> None:
        self._on_state_loaded(state)
        for broker in state.brokers.values():
            self._on_record(broker)
        self.partitions.reconcile()
        self.group_recovery.follow_all()
        self.on_quotas_changed()

    def _on_record(self, record: AnyMetadataRecord) -> None:
        match record:
            case BrokerRegistered():
                self._on_broker_registered(record)
            case BrokerRemoved():
                # Not within the turn of the controller's group: others lose a peer by it.
                self.env.clock.call_soon(lambda: self._forget_broker(NodeId(record.node)))
            case TopicCreated():
                self._tell_refused(self.state.topics_by_id.get(TopicId(record.topic_id)))
                self.partitions.reconcile_soon()
            case PartitionsAdded():
                self.partitions.reconcile_soon()
            case ReplicasChanged():
                self.partitions.on_replicas_changed(GroupId(record.placement.group))
            case TopicDeleted():
                self.partitions.reconcile_soon()
                self.group_coordinators.on_topic_deleted(record)
                self.transaction_coordinators.on_topic_deleted(record.name)
            case TopicConfigChanged():
                topic = self.state.topics_by_id.get(TopicId(record.topic_id))
                self._tell_changed("of a topic" if topic is None else f"of topic {topic.name}")
                self._tell_refused(topic)
                self.partitions.refresh_configs()
            case BrokerConfigChanged():
                node = read_node(record.node)
                self._tell_changed("of all brokers" if node == NO_NODE else f"of broker {node}")
                self._refresh_options(self.state)
                self.partitions.refresh_configs()
            case GroupConfigChanged():
                self._tell_changed(f"of group {record.group}")
                self.group_coordinators.on_group_config(record.group, record.configs)
            case ClientQuotaChanged():
                self.on_quotas_changed()
            case _:
                self.group_recovery.on_record(record)

    def _forget_broker(self, node: NodeId) -> None:
        if node not in self.state.brokers:
            self.peers.remove_peer(node)

    def _on_broker_registered(self, record: BrokerRegistered) -> None:
        node = NodeId(record.node)
        if node != self.node:
            # Where controllers are is for the configuration to say: they may have moved since.
            # Whoever takes part in gossip says itself where it is.
            is_known = self.gossip is not None and self.gossip.address(node) is not None
            if self.config.controllers.get(node) is None and not is_known:
                self.peers.add_peer(node, Address(record.peer_host, record.peer_port))
        elif record.incarnation != self.incarnation:
            if self.is_ready and not self.is_stopping:
                self.registration.on_overwritten(record)
        elif not self.is_ready:
            self.is_ready = True
            if self._on_ready is not None and not self.is_stopping:
                self.env.clock.call_soon(self._on_ready)

    def _on_state_loaded(self, state: ClusterState) -> None:
        self._refresh_options(state)
        self.group_coordinators.on_group_configs(state.group_configs)
        for topic in state.topics.values():
            self._tell_refused(topic)

    def _refresh_options(self, state: ClusterState) -> None:
        static = self.config.option_values()
        found = resolve_options(static, state.broker_configs, self.node)
        self.options, self.dynamic_options = found.values, found.dynamic
        if found.refused != self._refused_options:
            self._refused_options = found.refused
            for sentence in found.refused:
                self.report(f"an option that was set does not hold: {sentence}")

    def _tell_changed(self, whose: str) -> None:
        # Before it is ready it is told again what it knew.
        if self.is_ready:
            self.report(LogLine("config.changed", f"options {whose} have changed", what=whose))

    def _tell_refused(self, topic: TopicState | None) -> None:
        """Say which options of a topic do not hold, because an older release allowed more."""
        if topic is not None:
            for sentence in TOPIC_OPTIONS.parse_stored(topic.configs)[1].values():
                self.report(f"an option of topic {topic.name} does not hold: {sentence}")

    # -- PeerEvents

    def on_raft(self, node: NodeId, group: int, message: memoryview) -> None:
        """See `PeerEvents`."""
        self.driver.on_raft(node, GroupId(group), message)

    def on_leaders(self, node: NodeId, reports: list[LeaderReport]) -> None:
        """See `PeerEvents`."""
        self.leader_reports.on_reports(node, reports)

    def on_request(
        self, node: NodeId, request: msgspec.Raw, answer: Callable[[PeerAnswer], None]
    ) -> None:
        """See `PeerEvents`."""
        try:
            command = read_peer_request(request)
        except RequestRefused as refusal:
            answer(write_outcome(refusal))
            return
        if isinstance(command, ControllerCommand):
            self.controller_client.serve(
                node, command, lambda outcome: answer(write_outcome(outcome))
            )
        elif isinstance(command, AskControllers):
            answer(write_outcome(self.controller_voters.view(self.state)))
        elif isinstance(command, GroupCommand):
            self.group_offsets.serve(command, lambda outcome: answer(write_outcome(outcome)))
        elif isinstance(command, AdvanceStart):
            self.log_starts.serve(
                command, ADVANCE_TIMEOUT_MS, lambda outcome: answer(write_outcome(outcome))
            )
        elif isinstance(command, WriteMarker):
            serve_marker(self, command, lambda outcome: answer(write_outcome(outcome)))
        elif isinstance(command, ConfirmTransaction):
            confirm_transaction(self, command)
            answer(write_outcome(Done()))
        elif isinstance(command, AddToTransaction):
            self.transaction_coordinators.serve(
                command, lambda outcome: answer(write_outcome(outcome))
            )
        else:
            self.forwarder.serve(command, lambda outcome: answer(write_outcome(outcome)))

    def on_peer_seen(self, node: NodeId, *, restarted: bool) -> None:
        """See `PeerEvents`."""
        sentence = f"broker {self.node} hears of broker {node}"
        self.report(LogLine("broker.joined", sentence, peer=node, restarted=restarted))
        self.leaders.hear(node, restarted=restarted)
        self.check_leader_waits()
        self.driver.on_peer_seen(node, restarted=restarted)

    def on_peer_lost(self, node: NodeId) -> None:
        """See `PeerEvents`."""
        sentence = f"broker {self.node} has lost broker {node}: it is not heard of any more"
        self.report(LogLine("broker.left", sentence, peer=node))
        self.leaders.silence(node)
        self.driver.on_peer_lost(node)

    def on_peer_doubted(self, node: NodeId) -> None:
        """See `PeerEvents`."""
        # Clients that have just lost it, too, ask who leads now: better nobody than a dead broker,
        # because they ask again soon. Its groups wait for the proof.
        self.leaders.silence(node)
        if self.gossip is not None and self.gossip.state(node) is MemberState.DEAD:
            self.env.clock.call_soon(lambda: self.peers.give_up_doubted(node))

    def on_peer_trusted(self, node: NodeId) -> None:
        """See `PeerEvents`."""
        self.leaders.hear(node, restarted=False)
        self.check_leader_waits()

    def on_link_up(self, node: NodeId) -> None:
        """See `PeerEvents`."""
        self.leader_reports.on_link_up(node)

    # -- the disk

    def _on_disk_failed(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
            sentence = (
                f"broker {self.node}: the disk failed: {error}. Its partitions are offline here "
                "until the broker is restarted on a disk with free space and without errors: it "
                "does not go on by itself; other brokers do."
            )
            if isinstance(error, DiskFull):
                sentence += (
                    " Restarted while the disk is full it takes part without taking records, and "
                    "deletes what topics keep no longer: so let topics keep less (retention.bytes, "
                    "retention.ms) or delete some, and restart it, or remove other files first."
                )
            self.report_error(LogLine("disk.failed", sentence, reason=str(error)))
            self.group_coordinators.close()
            self.transaction_coordinators.close()
            # A node that is alive is taken to lead what it led: the others must see that it is not.
            self.peers.close()
            if self.gossip is not None:
                self.gossip.leave(_nothing)
            for node in (self.node, *self.peers.peers()):
                self.leaders.silence(node)
            self.env.clock.call_soon(self.on_failed)
