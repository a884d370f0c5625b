"""The life of a broker; `parts.py` puts it together, and nothing else knows all of its parts.

Life of a broker: `start` recovers the disk, opens the controller's group and the peer port, and
then, as the metadata says, the partitions placed here. It registers itself with the controller,
again and again until that is committed; from then on `life.is_ready`. Before any of that it makes
sure that no other process has its id (`identity`). `stop` hands leadership over, closes the links
and leaves the disk in a state that needs no recovery.
"""

from collections.abc import Callable
from functools import partial

from kafkaesque.broker.controller.controller import Controller
from kafkaesque.broker.controller.founding import Decision, Founding
from kafkaesque.broker.controller.metadata_store import MetadataStore
from kafkaesque.broker.controller.planning import Planning
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.parts import BrokerParts
from kafkaesque.model.errors import DiskFailed, DiskFull
from kafkaesque.model.log_line import LogLine
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.recovery import RecoveryReport

SWEEP_MS = 250


def _nothing() -> None:
    """Nobody has asked to be told."""


class Broker(BrokerParts):
    """One broker of a cluster: for the server, the simulator and the kit for tests."""

    # -- life

    def start(self, on_ready: Callable[[], None]) -> None:
        """Recover, open the peer port and join the cluster; `on_ready` when clients may come.

        Raises:
            KafkaesqueError: the data directory is another's, is in use, or is damaged.
            OSError: the peer port cannot be bound.
        """
        follower = self.metadata_follower
        follower.on_ready = partial(self._know_access, on_ready)
        self._report_recovery(self.store.open())
        self.metadata_store = MetadataStore(
            self.env, self.store, self.reports.error, self.config.metadata_snapshot_records
        )
        self._load_controller()
        self.founding = Founding(
            node=self.node,
            incarnation=self.incarnation,
            founders=tuple(self.config.controllers),
            is_fresh=self.metadata_store.is_fresh,
            group_state=self.metadata_store.group_state,
            clock=self.env.clock,
            on_decided=self._open_controller,
            report=self.reports.error,
        )
        self.peers.listen(self.config.peer_listener or self.config.peer_address)
        if self.gossip is not None:
            self.gossip.bind()
        self.identity.begin(self._join)

    def _know_access(self, on_ready: Callable[[], None]) -> None:
        """Call back when this broker may let clients in."""
        if all(each.access is AccessMode.OPEN for each in self.config.listeners):
            on_ready()
        else:
            self.access_freshness.start(on_ready)

    def _load_controller(self) -> None:
        state, applied_offset, snapshot = self.metadata_store.load()
        follower = self.metadata_follower
        follower.on_state_loaded(state)
        planning = Planning(
            env=self.env,
            config=self.config,
            incarnation=self.incarnation,
            options=self.options,
            peers=self.peers,
            leaders=self.leaders,
            voters=self.controller_voters,
            new_topic_id=self._new_topic_id,
            applied_offset=lambda: self.metadata.applied_offset,
        )
        self.controller = Controller(
            state=state,
            applied_offset=applied_offset,
            planner=planning.plan,
            on_record=follower.on_record,
            on_snapshot_loaded=follower.on_snapshot_loaded,
            on_leading=self._on_controller_leading,
            save_snapshot=self.metadata_store.save,
            snapshot=snapshot,
            wall_ms=self.env.clock.wall_ms,
            on_caught_up=self.partitions.reconcile_soon,
        )
        self.metadata.follow(self.controller)
        self.controller_client.controller = self.controller

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
            self.metadata_follower.on_broker_registered(broker)
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
                f"{counted.recovery_records} records read again, "
                f"{counted.recovery_cut_bytes} bytes of incomplete writes cut off"
            )
            self.reports.info(LogLine("recovery.done", sentence, duration_ms=counted.recovery_ms))
        for directory in found.missing:
            self.reports.error(
                f"the directory {directory} of broker {self.node} is missing: it is copied from "
                "another broker"
            )

    def _open_controller(self, decision: Decision) -> None:
        """It is known whether this broker's controller may vote."""
        if self.life.failure is not None:
            return
        if decision.settled is not None:
            self.reports.error(
                f"broker {self.node} has an empty directory, and broker {decision.settled} says "
                "that the cluster is not new: it copies its replicas from the other brokers, and "
                "has no vote until it has them"
            )
        try:
            replica = self.metadata_store.open_group(
                self.driver, self.controller, self.config, decision
            )
            self.controller.replica = self.controller_voters.replica = replica
        except (DiskFailed, StorageCorrupt) as error:
            # Long after the start, so nobody else takes it: the decision has waited for others.
            self._on_disk_failed(error)

    def _on_controller_leading(self, leading: bool) -> None:
        if leading:
            self.reports.info(self.controller_voters.describe_leading())
            self.controller_voters.on_sweep(self.state)

    def stop(
        self,
        on_stopped: Callable[[], None],
        drain: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """Hand leadership over, then close everything; data is synced when `on_stopped` comes.

        `drain` is called between the two, to have clients answered that have asked, and calls what
        it is given when that is done.
        """
        self.life.is_stopping = True
        self.identity.close()
        self.founding.stop()
        self.access_freshness.stop()
        if self._sweep is not None:
            self._sweep.cancel()
        self._close_tables()

        def finish() -> None:
            counted = self.store.statistics
            self.reports.info(
                f"broker {self.node} stops: {counted.wal_records} records in "
                f"{counted.commit_syncs} synced group commits, {counted.checkpoints} checkpoints"
            )
            self.batch_checks.close()
            self.store.look_at_disk()
            self.driver.stop()
            self.peers.close()
            self.partitions.close()
            self.log_scrubber.stop()
            self.key_indexes.stop()
            self.log_cleaner.stop(lambda: self.store.close(on_stopped))

        gossip = self.gossip

        def leave() -> None:
            if gossip is None:
                finish()
            else:
                gossip.leave(finish)

        def hand_over() -> None:
            self.driver.hand_over_all(leave if drain is None else lambda: drain(leave))

        # While this broker may still lead the partition that it is written to.
        if self.audit_writer is None:
            hand_over()
        else:
            self.audit_writer.close(hand_over)

    def _close_tables(self) -> None:
        for kind in self.tables:
            kind.tables.close()

    def _on_sweep(self) -> None:
        now_ms = self.env.clock.now_ms()
        self.partitions.on_sweep(now_ms)
        self.queue_hosts.on_sweep(now_ms)
        self.live_hub.on_sweep(now_ms)
        self.leader_reports.on_sweep()
        self.replica_mover.on_sweep()
        self.log_starts.on_sweep(now_ms)
        self.log_cleaner.on_sweep(now_ms)
        self.log_scrubber.on_sweep(now_ms)
        self.session_messages_trimming.on_sweep(now_ms)
        self.space_watch.on_sweep()
        if self.audit_writer is not None:
            self.audit_writer.on_sweep(now_ms)
        self.group_recovery.on_sweep(now_ms)
        self.recovery_watch.on_sweep(now_ms)
        self.metadata_store.on_sweep(self.controller)
        self.controller_voters.on_sweep(self.state)
        self._sweep = self.env.clock.call_later(SWEEP_MS, self._on_sweep)

    def _on_disk_failed(self, error: Exception) -> None:
        if self.life.failure is not None:
            return
        self.life.failure = error
        sentence = (
            f"broker {self.node}: the disk failed: {error}. Its partitions are offline here "
            "until the broker is restarted on a disk with free space and without errors: it "
            "does not resume by itself; the other brokers carry on."
        )
        if isinstance(error, DiskFull):
            sentence += (
                " If it is restarted while the disk is full, it accepts no records, but deletes "
                "what topics no longer keep: so let topics keep less (retention.bytes, "
                "retention.ms) or delete some, and restart it; or remove other files first."
            )
        self.reports.error(LogLine("disk.failed", sentence, reason=str(error)))
        self._close_tables()
        # A node that is alive is taken to lead what it led: the others must see that it is not.
        self.peers.close()
        if self.gossip is not None:
            self.gossip.leave(_nothing)
        for node in (self.node, *self.peers.peers()):
            self.leaders.silence(node)
        self.env.clock.call_soon(self.on_failed)

    # -- what those who run it ask

    @property
    def state(self) -> ClusterState:
        """The cluster's metadata, as this broker has it."""
        return self.metadata.state
