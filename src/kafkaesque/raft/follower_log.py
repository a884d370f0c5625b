"""What a member does to its log while another leads.

Theory of operation. An append names the place after which its entries follow. If the logs agree
there (same term at that index, §5.3), they agree up to there, and what follows is compared by term
spans; the first difference, if any, is where this log is cut. If they do not agree, the answer is
the last place where they still can (at most the leader's term there), so that the leader skips a
whole term at once. Whatever is committed here is in every leader's log (§5.4.3), so nothing up to
the commit index is compared or cut.

With `is_volatile` that does not hold: a power cut may have taken from a majority what was committed
(`write.caching`). Then only the log's start is sure, the commit index follows the log back, and the
loss is what the user has chosen. It never ends: a commit index, here or on the disk, may be of the
time before.

A member that has lost its log and its votes (its disk was replaced, say) may break what it has
promised. Its *amnesia* is the number of that loss. It copies the log, tells the number with every
answer, and neither votes nor asks for votes; no leader counts it. It ends when a leader says that
the promises made before this very loss count no more (see `readmission`), and how far this log must
agree for that.

Agreement is answered at once only if there is nothing to be synced first; otherwise `on_synced`
brings the answer, one for all that has been synced together.

A member whose disk is full can be told that there is no room. Then it takes marks and commit
indexes, but no new records, and says `NotHere` for as long as the leader has more than it: so it is
not in sync, nobody waits for it, and it is asked again.
"""

from collections.abc import Sequence
from dataclasses import replace

from kafkaesque.env.disk import FileRange
from kafkaesque.model.ids import GroupId, NodeId, Term
from kafkaesque.raft.configuration import (
    Configuration,
    ConfigurationTable,
    PlacedConfiguration,
    read_configuration,
)
from kafkaesque.raft.entries import EntryKind, EntryMeta, TermStart
from kafkaesque.raft.errors import MalformedRaftMessage, RaftInvariantBroken
from kafkaesque.raft.log_outline import LogOutline
from kafkaesque.raft.messages import (
    AppendRequest,
    AppendResponse,
    NotHere,
    Readmit,
    SnapshotRequest,
)
from kafkaesque.raft.ready import Outbox


class FollowerLog:
    """Takes over the leader's log."""

    __slots__ = (
        "_acknowledged_index",
        "_agreed_index",
        "_configurations",
        "_group",
        "_installing",
        "_is_volatile",
        "_log",
        "_node",
        "_outbox",
        "_refused_index",
        "amnesia",
        "everywhere_index",
        "owes_answer",
    )

    def __init__(
        self,
        *,
        group: GroupId,
        node: NodeId,
        log: LogOutline,
        outbox: Outbox,
        configurations: ConfigurationTable,
        is_volatile: bool,
        amnesia: int,
    ) -> None:
        self._is_volatile = is_volatile
        self._group = group
        self._node = node
        self._log = log
        self._outbox = outbox
        self._configurations = configurations
        #: The number of the loss of which this member is not over; 0: none. To be read only.
        self.amnesia = amnesia
        #: Up to here this log is known to agree with the current leader's.
        self._agreed_index = self._sure_index()
        #: The current leader was told that we are durable up to here.
        self._acknowledged_index = 0
        #: The leader is to be told how far we are; `answer` does, once per Ready.
        self.owes_answer = False
        #: What the current leader has up to here is not taken, for want of room; 0: all is.
        self._refused_index = 0
        #: Up to here all replicas have the log, as the current leader says. To be read only.
        self.everywhere_index = 0
        #: A snapshot that the driver is putting in place: its end and its configuration.
        self._installing: tuple[int, Term, PlacedConfiguration] | None = None

    @property
    def is_volatile(self) -> bool:
        """Whether what is committed here may have been lost by a majority."""
        return self._is_volatile

    def set_volatile(self) -> None:
        """From now on what is committed here may be lost by a majority."""
        if not self._is_volatile:
            self._is_volatile = True
            # Only what has been compared counts: the leader's next append says it again.
            self._agreed_index = self._sure_index()

    def on_new_leader(self) -> None:
        """Another leader, or none: agreement has to be found anew."""
        self._agreed_index = self._sure_index()
        self._acknowledged_index = 0
        self._refused_index = 0
        self.everywhere_index = 0
        self.owes_answer = False

    def _sure_index(self) -> int:
        """Return up to where every leader has what stands here."""
        return self._log.start_index if self._is_volatile else self._log.commit_index

    @property
    def is_refusing(self) -> bool:
        """Whether the leader has more than this log, and there is no room for that."""
        return self._refused_index > self._agreed_index

    # --- appends ----------------------------------------------------------------------------

    def on_append_request(self, message: AppendRequest, *, has_room: bool) -> bool:
        """Take an append from this term's leader; tell whether the commit index has advanced.

        Without room for records those that are new are left out, and the leader is told that this
        member cannot take part.

        Raises:
            MalformedRaftMessage: its entries contradict one another.
            RaftInvariantBroken: it contradicts what is committed here.
        """
        if self._installing is not None:
            return False  # the leader asks again
        log = self._log
        self.everywhere_index = message.everywhere_index
        if has_room:
            self._refused_index = 0
        else:
            message = self._without_room(message)
        prev_index = message.prev_index
        entries = message.entries
        sure_index = self._sure_index()
        if prev_index < sure_index:
            agreed_index = self._append_over_sure(message, sure_index)
        elif prev_index > log.last_index or log.term_at(prev_index) != message.prev_term:
            self._reject_append(message, sure_index)
            return False
        elif not entries:
            agreed_index = prev_index
        else:
            agreed_index = entries[-1].last_index
            after = TermStart(message.prev_term, prev_index)
            self._append_after(after, message.term_starts, entries, message.term)
        if agreed_index > self._agreed_index:
            self._agreed_index = agreed_index
        has_committed = self._commit(min(message.commit_index, agreed_index))
        if agreed_index <= log.synced_index or not entries:
            self.owes_answer = True
        return has_committed

    def _without_room(self, message: AppendRequest) -> AppendRequest:
        """Return what of an append needs no room for records; remember up to where there is more.

        Marks need little, and what this log has already is only compared.
        """
        entries, last_index = message.entries, self._log.last_index
        # An append before this one may have had more.
        self._refused_index = max(self._refused_index, message.commit_index)
        if all(entry.kind is not EntryKind.DATA for entry in entries):
            return message
        self._refused_index = max(self._refused_index, entries[-1].last_index)
        kept = [entry for entry in entries if entry.last_index <= last_index]
        end = kept[-1].last_index if kept else 0
        starts = [start for start in message.term_starts if start.first_index <= end]
        return replace(message, entries=kept, term_starts=starts)

    def _append_over_sure(self, message: AppendRequest, sure_index: int) -> int:
        """Take an append that begins where all logs are the same; return up to where they agree."""
        entries = [entry for entry in message.entries if entry.last_index > sure_index]
        if not entries:
            return sure_index
        theirs = message.prev_term
        for start in message.term_starts:
            if start.first_index <= sure_index:
                theirs = start.term
        if theirs != self._log.term_at(sure_index):
            raise self._contradiction(message.sender, theirs, sure_index)
        starts = [start for start in message.term_starts if start.first_index > sure_index]
        self._append_after(TermStart(theirs, sure_index), starts, entries, message.term)
        return entries[-1].last_index

    def _contradiction(self, leader: NodeId, theirs: Term, index: int) -> RaftInvariantBroken:
        return RaftInvariantBroken(
            f"group {self._group}: leader {leader} has term {theirs} at {index}, which is committed"
            f" here with term {self._log.term_at(index)}"
        )

    def _append_after(
        self,
        after: TermStart,
        starts: Sequence[TermStart],
        entries: Sequence[EntryMeta],
        leader_term: Term,
    ) -> None:
        """Take entries that follow a place where both logs agree."""
        check_entries(after, starts, entries, leader_term)
        log = self._log
        last_index = entries[-1].last_index
        keep_index = log.last_index
        if after.first_index < keep_index:
            difference = log.first_difference(after, starts, last_index)
            if difference is not None:
                keep_index = difference - 1
            elif last_index <= keep_index:
                return
            entries = [entry for entry in entries if entry.last_index > keep_index]
            starts = [start for start in starts if start.first_index > keep_index]
        if entries[0].first_index <= keep_index:
            raise MalformedRaftMessage(
                f"an entry from {entries[0].first_index} over what ends at {keep_index}"
            )
        configurations = read_configurations(entries)
        if keep_index < log.last_index:
            self._truncate(keep_index)
        for term, first_index in starts:
            log.begin_term(term, first_index)
        log.last_index = last_index
        self._outbox.append(entries)
        for index, configuration in configurations:
            self._configurations.add(index, configuration)
            self._outbox.configuration = self._configurations.effective

    def _truncate(self, last_index: int) -> None:
        if self._is_volatile and last_index < self._log.commit_index:
            self._log.commit_index = last_index
            self._outbox.commit(last_index)
        self._log.truncate(last_index)
        self._outbox.truncate(last_index)
        if self._configurations.truncate(last_index):
            self._outbox.configuration = self._configurations.effective

    def _commit(self, index: int) -> bool:
        if index <= self._log.commit_index:
            return False
        self._log.commit_index = index
        self._outbox.commit(index)
        return True

    # --- answers ----------------------------------------------------------------------------

    def on_synced(self) -> None:
        """More of the log is durable: tell the leader, if that is news to it."""
        if min(self._log.synced_index, self._agreed_index) > self._acknowledged_index:
            self.owes_answer = True

    def answer(self, leader: NodeId, term: Term) -> None:
        """Tell the leader how far this log agrees with its own, and how far that is durable.

        Or that more of it cannot be taken here.
        """
        self.owes_answer = False
        log = self._log
        if self.is_refusing:
            self._outbox.send(NotHere(self._group, self._node, leader, term))
            return
        synced_index = min(log.synced_index, self._agreed_index)
        self._acknowledged_index = synced_index
        self._outbox.send(
            AppendResponse(
                self._group,
                self._node,
                leader,
                term,
                False,
                0,
                self._agreed_index,
                synced_index,
                log.commit_index,
                0,
                Term(0),
                self.amnesia,
            )
        )

    def _reject_append(self, message: AppendRequest, sure_index: int) -> None:
        log = self._log
        if message.prev_index == sure_index:
            raise self._contradiction(message.sender, message.prev_term, sure_index)
        found = log.newest_not_above(message.prev_index, message.prev_term)
        if found is None or found.first_index < sure_index:
            found = TermStart(log.term_at(sure_index), sure_index)
        self.reject(message.sender, message.term, message.prev_index, found.first_index, found.term)

    def reject(
        self,
        to: NodeId,
        term: Term,
        prev_index: int,
        hint_index: int,
        hint_term: Term = Term(0),  # noqa: B008
    ) -> None:
        """Answer that the logs do not agree at `prev_index`, or that `term` has come."""
        self._outbox.send(
            AppendResponse(
                self._group,
                self._node,
                to,
                term,
                True,
                prev_index,
                0,
                0,
                self._log.commit_index,
                hint_index,
                hint_term,
                self.amnesia,
            )
        )

    def on_readmit(self, message: Readmit) -> None:
        """Be over this loss, if the log is there; otherwise the leader says it again."""
        is_there = min(self._log.synced_index, self._agreed_index) >= message.index
        if self.amnesia and message.amnesia == self.amnesia and is_there:
            self.amnesia = 0
            self.owes_answer = True
            self._outbox.is_readmitted = True
            self._outbox.touch()

    # --- snapshots --------------------------------------------------------------------------

    @property
    def is_installing(self) -> bool:
        """Whether a snapshot is about to take the log's place."""
        return self._installing is not None

    @property
    def end_to_be(self) -> tuple[int, Term]:
        """Index and term of the log's end; of the snapshot's that is about to take its place."""
        if self._installing is not None:
            return self._installing[:2]
        return self._log.last_index, self._log.last_term

    def on_snapshot_request(self, message: SnapshotRequest) -> None:
        """Have a snapshot installed, unless this log already has what it holds."""
        if self._installing is not None:
            return
        self._refused_index = 0  # a snapshot needs no room for records; these come after it
        log = self._log
        index = message.last_index
        if index > self._sure_index():
            has_it = index <= log.last_index and log.term_at(index) == message.last_term
            if not has_it:
                self._installing = (index, message.last_term, message.configuration)
                self._outbox.install_snapshot = message
                self._outbox.touch()
                return
            self._commit(index)
        self._agreed_index = max(self._agreed_index, index, self._sure_index())
        self.owes_answer = True

    def on_snapshot_installed(self, last_index: int, last_term: Term) -> None:
        """The snapshot has durably taken the log's place."""
        installing, self._installing = self._installing, None
        if installing is None or installing[:2] != (last_index, last_term):
            raise RaftInvariantBroken(
                f"group {self._group}: a snapshot at {last_index} was installed, not {installing}"
            )
        if self._is_volatile:
            self._log.commit_index = min(self._log.commit_index, last_index)
        self._log.reset(last_index, last_term)
        placed = installing[2]
        self._configurations.replace(placed.index, placed.configuration)
        self._outbox.configuration = placed.configuration
        self._outbox.commit(last_index)
        self.on_new_leader()
        self.owes_answer = True


def read_configurations(entries: Sequence[EntryMeta]) -> list[tuple[int, Configuration]]:
    """Return the configurations among entries, with their indexes.

    Raises:
        MalformedRaftMessage: one cannot be read.
    """
    found = []
    for entry in entries:
        if entry.kind is EntryKind.CONFIG:
            if isinstance(entry.data, FileRange):
                raise MalformedRaftMessage("a configuration that is not in memory")
            found.append((entry.last_index, read_configuration(entry.data)))
    return found


def check_entries(
    after: TermStart, starts: Sequence[TermStart], entries: Sequence[EntryMeta], leader_term: Term
) -> None:
    """Check that entries are in order and have the terms that the term starts say.

    Raises:
        MalformedRaftMessage: they are not.
    """
    term, end = after.term, after.first_index
    previous = after
    for start in starts:
        if start.term <= previous.term or start.first_index <= previous.first_index:
            raise MalformedRaftMessage(f"term starts out of order: {list(starts)}")
        previous = start
    if previous.term > leader_term or previous.first_index > max(end, entries[-1].last_index):
        raise MalformedRaftMessage(f"term starts beyond the leader's: {list(starts)}")
    position = 0
    is_first = True
    for entry in entries:
        while position < len(starts) and starts[position].first_index <= entry.first_index:
            term = starts[position].term
            position += 1
        if entry.term != term or entry.last_index <= end or entry.first_index > entry.last_index:
            raise MalformedRaftMessage(
                f"an entry {entry.first_index}..{entry.last_index} of term {entry.term} after"
                f" {end}, where the term is {term}"
            )
        if entry.first_index <= end and not is_first:
            raise MalformedRaftMessage(f"entries overlap at {end}")
        is_first = False
        end = entry.last_index
    if position < len(starts):
        raise MalformedRaftMessage(f"a term starts inside an entry: {list(starts)}")
