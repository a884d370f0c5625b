"""The controller group's log and snapshots on this broker's disk.

A snapshot is one file, `snapshot`, beside the log: a checksum, the offset after the last record in
it, and the state. It is written under another name, synced and renamed, so that there always is a
whole one; only then is the log before it given up.
"""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.controller import Controller
from kafkaesque.broker.controller.founding import Decision, GroupState
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.controller_planner import wanted_controllers
from kafkaesque.broker.metadata.topic_names import METADATA_TOPIC
from kafkaesque.broker.replication.raft_driver import RaftDriver, Replica
from kafkaesque.broker.replication.replica import AppendedBatch
from kafkaesque.broker.replication.stored_batches import replay
from kafkaesque.env import Env
from kafkaesque.env.disk import Disk, File
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import DiskFailed, InvariantBroken
from kafkaesque.model.ids import CONTROLLER_GROUP, ZERO_TOPIC_ID, Offset, Term
from kafkaesque.raft.configuration import Configuration, write_configuration
from kafkaesque.storage.config import SegmentOptions
from kafkaesque.storage.errors import ADVICE
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_store import LogStore

_DIRECTORY = f"{METADATA_TOPIC}-0"
_SNAPSHOT = f"{_DIRECTORY}/snapshot"
_TEMPORARY = f"{_SNAPSHOT}.new"
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
        raise InvariantBroken(f"the snapshot of the metadata is cut short; {ADVICE}")
    checksum, offset = _HEADER.unpack_from(data)
    if crc32c(data[4:]) != checksum:
        raise InvariantBroken(f"the snapshot of the metadata has a wrong checksum; {ADVICE}")
    return data[_HEADER.size :], Offset(offset)


class _Snapshot(NamedTuple):
    """One that is to be saved."""

    payload: bytes
    offset: Offset
    on_saved: Callable[[], None]


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
        #: What is to be saved; the first one is being saved. The second, if there is one, is the
        #: leader's, which came while an own one was on its way.
        self._unsaved: deque[_Snapshot] = deque()
        #: The first one could not be written, and waits for the next sweep.
        self._has_failed = False
        #: That was told.
        self._is_told = False

    # -- start

    def load(self) -> tuple[ClusterState, Offset, bytes]:
        """Return the state of the newest snapshot, the offset after it, and its bytes; waits.

        Raises:
            InvariantBroken: the snapshot is damaged, or is not there and the log begins after it.
        """
        stored = load_snapshot(self._disk)
        if stored is not None:
            self._payload, self._snapshot_offset = stored
        log = self._store.get(CONTROLLER_GROUP)
        if log is not None and log.start_offset > self._snapshot_offset:
            raise InvariantBroken(
                f"the log of the metadata begins at {log.start_offset}, and there is"
                f" {'an older' if stored is not None else 'no'} snapshot of what was before that;"
                f" {ADVICE}"
            )
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
        driver: RaftDriver,
        controller: Controller,
        config: BrokerConfig,
        decision: Decision,
    ) -> Replica:
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

    def on_sweep(self, controller: Controller) -> None:
        """Make a snapshot if the log has grown enough; try again what could not be written."""
        replica = self._replica
        if replica is None or replica.is_closed:
            return
        if self._has_failed:
            self._has_failed = False
            self._write()
        elif not self._unsaved:
            self._maybe_snapshot(controller, replica)

    def _maybe_snapshot(self, controller: Controller, replica: Replica) -> None:
        offset = controller.applied_offset
        if offset > replica.durable_offset:
            return  # committed by others: only what is durable here may be given up
        if offset - self._snapshot_offset < self._snapshot_records:
            return
        payload = controller.state.write_snapshot()

        def on_saved() -> None:
            controller.snapshot, controller.snapshot_offset = payload, offset
            if not replica.is_closed:
                replica.advance_start(offset)

        self.save(payload, offset, on_saved)

    def save(self, payload: bytes, offset: Offset, on_saved: Callable[[], None]) -> None:
        """Write a snapshot, one after the other; `on_saved` when it is durable and in its place.

        What cannot be written is tried again on every sweep: where the leader's snapshot is to take
        the place of the log, nothing else is taken until it has.
        """
        self._unsaved.append(_Snapshot(payload, offset, on_saved))
        if len(self._unsaved) == 1:
            self._write()

    def _write(self) -> None:
        snapshot = self._unsaved[0]
        body = _HEADER.pack(0, snapshot.offset)[4:] + snapshot.payload
        file: File | None = None
        try:
            file = self._disk.open(_TEMPORARY, create=True)
            file.truncate(0)
            file.write_at(0, [crc32c(body).to_bytes(4, "big"), body])
        except DiskFailed as error:
            self._on_failed(error, file)
            return

        def on_written(error: DiskFailed | None) -> None:
            try:
                if error is not None:
                    raise error
                self._disk.rename(_TEMPORARY, _SNAPSHOT)
            except DiskFailed as failure:
                self._on_failed(failure, file)
                return
            file.close()
            self._disk.sync([], on_renamed, [_DIRECTORY])

        def on_renamed(error: DiskFailed | None) -> None:
            if error is not None:
                self._on_failed(error)
            else:
                self._on_saved()

        self._disk.sync([file], on_written)

    def _on_saved(self) -> None:
        self._is_told = False
        snapshot = self._unsaved.popleft()
        self._payload = snapshot.payload
        self._snapshot_offset = snapshot.offset
        # The store tells by itself that it has failed.
        with contextlib.suppress(DiskFailed):
            snapshot.on_saved()
        if self._unsaved:
            self._write()

    def _on_failed(self, error: DiskFailed, file: File | None = None) -> None:
        if file is not None:
            file.close()
        # What has been written of it takes space that may be all that is missing.
        with contextlib.suppress(DiskFailed):
            self._disk.remove(_TEMPORARY)
        if not self._is_told:
            self._report(
                f"the snapshot of the metadata cannot be written, and is tried again: {error}"
            )
        self._has_failed = self._is_told = True


def _stored_batches(log: GroupLog) -> list[AppendedBatch]:
    """Return what the log holds, for applying when it is known to be committed; waits."""
    return [
        AppendedBatch(Offset(header.base_offset), Offset(header.next_offset), data)
        for header, data in replay(log, log.start_offset)
    ]
