"""Between a group's log and its core: entries and what was restored, each as the other knows it."""

from kafkaesque.env.disk import Buffer
from kafkaesque.model.batch import scan_batches
from kafkaesque.raft.configuration import Configuration, PlacedConfiguration, read_configuration
from kafkaesque.raft.entries import EntryKind, EntryMeta, HardState, TermStart
from kafkaesque.raft.restored_state import RestoredState
from kafkaesque.storage.entries import EntryLike
from kafkaesque.storage.group_log import GroupLog


def is_damaged(entry: EntryLike) -> bool:
    """Tell whether a batch was read from the disk and is not what was written there."""
    if isinstance(entry, EntryMeta) or entry.kind != EntryKind.DATA:
        return False
    data: Buffer = entry.data  # type: ignore[assignment]
    return scan_batches(data, count_max=1).end != len(data)


def meta_of(entry: EntryLike) -> EntryMeta:
    """Return an entry of the log as the core knows it; what is fresh still is that very one."""
    if isinstance(entry, EntryMeta):
        return entry
    data: Buffer = entry.data  # type: ignore[assignment]
    return EntryMeta(
        entry.first_index, entry.last_index, entry.term, EntryKind(entry.kind), len(data), data
    )


def restored_state(log: GroupLog, configuration: Configuration) -> RestoredState:
    """Return what a core begins with: what its log has kept."""
    placed = [
        PlacedConfiguration(index, read_configuration(payload))
        for index, payload in log.configurations
    ]
    return RestoredState(
        hard_state=HardState(log.term, log.vote),
        log_start=(log.start_index, log.start_term),
        term_starts=[TermStart(term, first_index) for term, first_index in log.term_spans],
        last_index=log.last_index,
        commit_index=min(log.commit_hint, log.last_index),
        configurations=placed or [PlacedConfiguration(0, configuration)],
        amnesia=log.amnesia,
    )
