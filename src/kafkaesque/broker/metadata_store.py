"""The controller group's log and snapshots on this broker's disk.

A snapshot is one file, `snapshot`, beside the log: a checksum, the offset after the last record in
it, and the state. It is written under another name, synced and renamed, so that there always is a
whole one; only then is the log before it given up.
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkaesque.broker.cluster_state import METADATA_TOPIC, ClusterState
from kafkaesque.broker.controller import Controller
from kafkaesque.broker.controller_planner import wanted_controllers
from kafkaesque.broker.founding import Decision, GroupState
from kafkaesque.broker.replica import AppendedBatch
from kafkaesque.broker.stored_batches import replay
from kafkaesque.env import Env
from kafkaesque.env.disk import Disk
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import DiskFailed, InvariantBroken
from kafkaesque.model.ids import CONTROLLER_GROUP, ZERO_TOPIC_ID, Offset, Term
from kafkaesque.raft.configuration import Configuration, write_configuration
from kafkaesque.storage.config import SegmentOptions
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_store import LogStore

if TYPE_CHECKING:
    from kafkaesque.broker.config import BrokerConfig
    from kafkaesque.broker.raft_driver import RaftDriver, Replica

_DIRECTORY = f"{METADATA_TOPIC}-0"
_SNAPSHOT = f"{_DIRECTORY}/snapshot"
_HEADER = struct.Struct(">Iq")


def load_snapshot(disk: Disk) -> tuple[bytes, Offset] | None:
    """Return the newest snapshot's bytes and the offset after it; None if there is none; waits.

    Raises:
        InvariantBroken: the snapshot is damaged.
    """
    if not disk.exists(_SNAPSHOT):
        return None
    file = disk.open(_SNAPSHOT)
    data = file.read_blocking(0, file.size())
    file.close()
    if len(data) < _HEADER.size:
        raise InvariantBroken("the controller's snapshot is cut short")
    checksum, offset = _HEADER.unpack_from(data)
    if crc32c(data[4:]) != checksum:
        raise InvariantBroken("the controller's snapshot has a wrong checksum")
    return data[_HEADER.size :], Offset(offset)


class MetadataStore:
    """Where the controller's state is kept."""

    def __init__(
        self, env: Env, store: LogStore, report: Callable[[str], None], snapshot_records: int
    ) -> None:
        """A snapshot is made when so many records came after the last one."""
        self._snapshot_records = snapshot_records
        self._disk = env.disk
        self._store = store
        self._report = report
        self._replica: Replica | None = None
        self._snapshot_offset = Offset(0)
        self._payload = ClusterState().write_snapshot()
        self._is_saving = False
        #: What is to be saved after the one that is being saved: the leader's, while there is an
        #: own one on its way.
        self._next: list[Callable[[], None]] = []

    # -- start

    def load(self) -> tuple[ClusterState, Offset, bytes]:
        """Return the state of the newest snapshot, the offset after it, and its bytes; waits.

        Raises:
            InvariantBroken: the snapshot is damaged.
        """
        stored = load_snapshot(self._disk)
        if stored is None:
            return ClusterState(), Offset(0), self._payload
        self._payload, self._snapshot_offset = stored
        return ClusterState.read_snapshot(self._payload), self._snapshot_offset, self._payload

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is here of the controller group."""
        return self.group_state() == GroupState(is_empty=True, term=0)

    def group_state(self) -> GroupState:
        """Return what is here of the controller group.

        A member that knows that it has lost its log counts as one that has a log.
        """
        log = self._store.get(CONTROLLER_GROUP)
        if log is None:
            is_there = CONTROLLER_GROUP in self._store.damaged or self._snapshot_offset > 0
            return GroupState(not is_there, 0, is_there)
        has_log = log.last_index > 0 or self._snapshot_offset > 0
        return GroupState(not has_log and not log.amnesia, log.term, has_log)

    def open_group(
        self,
        driver: "RaftDriver",
        controller: Controller,
        config: "BrokerConfig",
        decision: Decision,
    ) -> "Replica":
        """Take part in the controller group, as what the log says.

        If it was decided that this broker is amnesiac, without a vote until the others have taken
        it in. Otherwise an empty log is a new cluster's, and the file's controllers are its first
        voters; that is kept, whatever the file says later.
        """
        log = self._store.open_log(
            group=CONTROLLER_GROUP,
            topic=METADATA_TOPIC,
            partition=0,
            topic_id=ZERO_TOPIC_ID,
            options=SegmentOptions(),
            write_caching=False,
        )
        voters = tuple(sorted(config.controllers))
        if decision.is_amnesiac and not log.amnesia:
            self._store.note_loss(log)
        elif log.last_index == 0 and not log.amnesia:
            if log.term < decision.term:
                log.save_hard_state(Term(decision.term), config.node)
            if not log.configurations:
                founders = write_configuration(Configuration(voters=voters))
                log.reset_to(start_offset=0, index=0, term=Term(0), configuration=(0, founders))
        controller.restore(_stored_batches(log))
        self._replica = driver.open(
            group=CONTROLLER_GROUP,
            log=log,
            configuration=Configuration(voters=voters),
            wanted_voters=wanted_controllers(controller.state, voters),
            min_insync=1,
            write_caching=False,
            listener=controller,
            campaign=log.last_index == 0 and config.node == voters[0],
        )
        return self._replica

    # -- snapshots

    def maybe_snapshot(self, controller: Controller) -> None:
        """Make a snapshot if the log has grown enough since the last one."""
        replica = self._replica
        if replica is None or self._is_saving or replica.is_closed:
            return
        offset = controller.applied_offset
        if offset > replica.durable_offset:
            return  # committed by others: only what is durable here may be given up
        if offset - self._snapshot_offset < self._snapshot_records:
            return
        payload = controller.state.write_snapshot()

        def on_saved() -> None:
            controller.snapshot = payload
            if not replica.is_closed:
                replica.advance_start(offset)

        self.save(payload, offset, on_saved)

    def save(self, payload: bytes, offset: Offset, on_saved: Callable[[], None]) -> None:
        """Write a snapshot, one after the other; `on_saved` when it is durable and in its place."""
        if self._is_saving:
            self._next.append(lambda: self.save(payload, offset, on_saved))
            return
        self._is_saving = True
        temporary = f"{_SNAPSHOT}.new"
        body = _HEADER.pack(0, offset)[4:] + payload
        try:
            file = self._disk.open(temporary, create=True)
            file.truncate(0)
            file.write_at(0, [crc32c(body).to_bytes(4, "big"), body])
        except DiskFailed as error:
            self._on_failed(error)
            return

        def on_written(error: DiskFailed | None) -> None:
            file.close()
            if error is not None:
                self._on_failed(error)
                return
            try:
                self._disk.rename(temporary, _SNAPSHOT)
            except DiskFailed as failure:
                self._on_failed(failure)
                return
            self._disk.sync([], on_renamed, [_DIRECTORY])

        def on_renamed(error: DiskFailed | None) -> None:
            if error is not None:
                self._on_failed(error)
                return
            self._payload = payload
            self._snapshot_offset = offset
            on_saved()
            self._go_on()

        self._disk.sync([file], on_written)

    def _on_failed(self, error: DiskFailed) -> None:
        self._report(f"the controller's snapshot could not be written: {error}")
        self._go_on()

    def _go_on(self) -> None:
        self._is_saving = False
        if self._next:
            self._next.pop(0)()


def _stored_batches(log: GroupLog) -> list[AppendedBatch]:
    """Return what the log holds, for applying when it is known to be committed; waits."""
    return [
        AppendedBatch(Offset(header.base_offset), Offset(header.next_offset), data)
        for header, data in replay(log, log.start_offset)
    ]
