"""Logs under appends, truncations, checkpoints, power cuts and kills, against a list.

A log's state changes with each operation; what is reported durable is a lower bound for what a
crash leaves, and the newest state an upper one. Nothing between those two is wrong, everything else
is.
"""

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkaesque.model.ids import NodeId, Term
from kafkaesque.storage.config import SegmentOptions, StorageConfig
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.group_log import GroupLog
from tests.unit.storage.helpers import World, batch, read_all
from tests.unit.storage.memory_disk import PowerGone


def some_config(rng: random.Random) -> StorageConfig:
    """Return limits so small that everything happens soon."""
    return StorageConfig(
        segment_bytes_max=rng.choice([1024, 4096, 65536]),
        index_interval_bytes=rng.choice([1, 200, 1000]),
        wal_bytes=rng.choice([4096, 16384]),
        wal_files_max=3,
        open_files_max=rng.choice([8, 64]),
        sync_files_max=rng.choice([1, 4]),
        cache_bytes_max=rng.choice([0, 2000, 100_000]),
        index_cache_bytes_max=rng.choice([0, 500]),
        free_bytes_min=0,
    )


GROUPS = (1, 2, 3)
#: Without a write-ahead log for its data, so that more may be lost.
CACHING_GROUP = 3
CRASHES = ("power cut", "kill", "power cut during recovery")


class Item(NamedTuple):
    """An entry, by value."""

    kind: int
    first_index: int
    last_index: int
    term: int
    data: bytes


class State(NamedTuple):
    """What a log should hold."""

    items: tuple[Item, ...] = ()
    start_offset: int = 0
    hard_state: tuple[int, int | None] = (0, None)
    #: (index, term, record positions up to it) that a reset has put before the first entry.
    base: tuple[int, int, int] = (0, 0, 0)

    @property
    def last_index(self) -> int:
        return self.items[-1].last_index if self.items else self.base[0]

    @property
    def last_term(self) -> int:
        return self.items[-1].term if self.items else self.base[1]


@dataclass
class Model:
    """All states of a log, and which of them was the last to be reported durable."""

    states: list[State] = field(default_factory=lambda: [State()])
    durable: int = 0

    @property
    def now(self) -> State:
        return self.states[-1]

    def change(self, **changes: Any) -> None:
        self.states.append(self.now._replace(**changes))


def items_of(log: GroupLog) -> tuple[Item, ...]:
    """Read all entries of a log."""
    found: list[Item] = []
    index = log.start_index + 1
    while index <= log.last_index:
        pieces: list[object] = []
        log.entries_async(index, 500, pieces.append)
        (piece,) = pieces
        assert isinstance(piece, list), piece
        assert piece, f"no entry at {index} of {log.last_index}"
        found.extend(
            Item(int(e.kind), e.first_index, e.last_index, e.term, bytes(e.data)) for e in piece
        )
        index = found[-1].last_index + 1
    return tuple(found)


class StorageMachine(RuleBasedStateMachine):
    """One broker's storage."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World(some_config(self.rng), seed)
        #: What recovery does not know.
        self.options = SegmentOptions(segment_bytes_max=self.rng.choice([None, 1024]))
        self.models = {group: Model() for group in GROUPS}
        self.open_logs()

    def open_logs(self) -> None:
        assert self.world.store.damaged == {}
        self.logs = {
            group: self.world.log(group, write_caching=group == CACHING_GROUP, options=self.options)
            for group in GROUPS
        }

    # -- what happens to a log

    @rule(group=st.sampled_from(GROUPS), kinds=st.lists(st.sampled_from("ddddnc"), max_size=6))
    def append(self, group: int, kinds: list[str]) -> None:
        log, model = self.logs[group], self.models[group]
        term = max(model.now.last_term, 1) + (self.rng.random() < 0.2)
        entries = []
        index, offset = int(log.last_index), int(log.end_offset)
        for kind in kinds:
            if kind == "d":
                count = self.rng.randint(1, 3)
                value = self.rng.randbytes(self.rng.choice([1, 1, 50, 200, 1500]))
                data = batch(offset, term, count, value=value)
                entries.append(LogEntry(EntryKind.DATA, index + 1, index + count, Term(term), data))
                index += count
                offset += count
            else:
                index += 1
                entry_kind = EntryKind.NOOP if kind == "n" else EntryKind.CONFIG
                payload = b"" if kind == "n" else self.rng.randbytes(5)
                entries.append(LogEntry(entry_kind, index, index, Term(term), payload))
        if not entries:
            return
        log.append(entries)
        items = tuple(
            Item(int(e.kind), e.first_index, e.last_index, e.term, bytes(e.data)) for e in entries
        )
        model.change(items=model.now.items + items)

    @rule(group=st.sampled_from(GROUPS), back=st.integers(1, 8), term_up=st.integers(0, 1))
    def truncate(self, group: int, back: int, term_up: int) -> None:
        log, model = self.logs[group], self.models[group]
        keep = max(len(model.now.items) - back, 0)
        items = model.now.items[:keep]
        index = items[-1].last_index if items else model.now.base[0]
        if not log.start_index <= index < log.last_index:
            return
        start_offset = min(log.offset_after(index), model.now.start_offset)
        log.truncate_to(index)
        model.change(items=items, start_offset=start_offset)

    @rule(group=st.sampled_from(GROUPS), part=st.floats(0, 1))
    def advance_start(self, group: int, part: float) -> None:
        log, model = self.logs[group], self.models[group]
        offset = log.start_offset + int(part * (log.end_offset - log.start_offset))
        log.advance_start(offset)
        model.change(start_offset=max(offset, model.now.start_offset))

    @rule(group=st.sampled_from(GROUPS), ahead=st.integers(0, 20), marks=st.integers(0, 3))
    def reset(self, group: int, ahead: int, marks: int) -> None:
        log, model = self.logs[group], self.models[group]
        base_offset = log.end_offset + ahead
        index = max(base_offset + marks, log.last_index)
        start_offset = base_offset
        term = max(model.now.last_term, 1)
        log.reset_to(
            start_offset=start_offset, index=index, term=Term(term), configuration=(1, b"c")
        )
        model.change(items=(), start_offset=start_offset, base=(index, term, base_offset))

    @rule(group=st.sampled_from(GROUPS), vote=st.sampled_from([None, 1, 2]))
    def save_hard_state(self, group: int, vote: int | None) -> None:
        log, model = self.logs[group], self.models[group]
        term = model.now.hard_state[0] + 1
        log.save_hard_state(Term(term), None if vote is None else NodeId(vote))
        model.change(hard_state=(term, vote))

    # -- what happens to the store

    @rule()
    def submit(self) -> None:
        reached = {group: len(model.states) - 1 for group, model in self.models.items()}

        def on_durable() -> None:
            for group, state in reached.items():
                self.models[group].durable = max(self.models[group].durable, state)

        self.world.store.submit(on_durable)

    @rule(count=st.integers(1, 4))
    def go_on(self, count: int) -> None:
        self.world.clock.turn()
        self.world.disk.complete(count)

    @rule()
    def settle(self) -> None:
        self.submit()
        self.world.disk.settle()
        for model in self.models.values():
            assert model.durable == len(model.states) - 1

    @rule()
    def checkpoint(self) -> None:
        self.world.store.request_checkpoint()

    @rule(how=st.sampled_from(CRASHES))
    def crash(self, how: str) -> None:
        store = self.world.store
        # Segments may change as long as something is not durable.
        is_settled = not store._bench.wal.has_queued and not store._is_syncing
        before = self.layouts() if is_settled else {}
        if how == "kill":
            self.world.kill()
        elif how == "power cut":
            self.world.power_cut()
        else:
            self._crash_in_recovery()
        self.after_crash()
        found = self.layouts()
        assert before == {group: found.get(group) for group in before}

    def layouts(self) -> dict[int, list[tuple[int, int, int]]]:
        """Return where segments begin and how long they are, if the page cache is not all."""
        return {
            group: [(s.base_offset, s.size, s.max_timestamp) for s in log.segments.segments]
            for group, log in self.logs.items()
            if group != CACHING_GROUP and not log.is_held
        }

    def _crash_in_recovery(self) -> None:
        """Begin a recovery that is not finished, then another."""
        self.world.clock.soon.clear()
        halfway = self.world.disk = self.world.disk.power_cut(self.world.rng)
        halfway.writes_max = self.rng.randint(0, 20)
        try:
            self.world.open()
        except PowerGone:
            pass
        halfway.writes_max = None
        self.world.power_cut()

    @rule()
    def restart(self) -> None:
        self.submit()
        self.world.restart()
        assert self.world.report.was_clean
        self.after_crash()
        for group, model in self.models.items():
            assert len(model.states) == 1, group

    def after_crash(self) -> None:
        self.open_logs()
        for group, model in self.models.items():
            log = self.logs[group]
            items = items_of(log)
            possible = model.states[model.durable :]
            if group == CACHING_GROUP:
                found = self._find_caching(log, items, possible, model)
            else:
                found = self._find(log, items, possible)
            assert found is not None, (
                f"group {group} holds {items} from {log.start_offset}, {log.hard_state}: that is"
                f" none of {possible}"
            )
            model.states = [found]
            model.durable = 0

    @staticmethod
    def _visible(log: GroupLog, state: State) -> tuple[Item, ...]:
        return tuple(item for item in state.items if item.last_index > log.start_index)

    def _find(self, log: GroupLog, items: tuple[Item, ...], possible: list[State]) -> State | None:
        for state in reversed(possible):
            if (
                self._visible(log, state) == items
                and state.start_offset == log.start_offset
                and state.hard_state == tuple(log.hard_state)
                and state.last_index == log.last_index
            ):
                return state
        return None

    def _find_caching(
        self, log: GroupLog, items: tuple[Item, ...], possible: list[State], model: Model
    ) -> State | None:
        """Find what is there among all states: batches may be gone, but what is left is right."""
        assert tuple(log.hard_state) in [state.hard_state for state in possible]
        for state in reversed(model.states):
            visible = self._visible(log, state)
            if visible[: len(items)] == items:
                return State(
                    items=items,
                    start_offset=log.start_offset,
                    hard_state=(log.term, log.vote),
                    base=(log.start_index, log.start_term, log.base_offset),
                )
        return None

    # -- always

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "models"):
            return
        assert self.world.failures == []
        for group, model in self.models.items():
            log = self.logs[group]
            state = model.now
            assert log.last_index == state.last_index
            assert log.start_offset == state.start_offset
            assert (log.term, log.vote) == state.hard_state
            marks = [item for item in state.items if item.kind]
            base_marks = state.base[0] - state.base[2]
            assert log.end_offset == state.last_index - base_marks - len(marks)

    @precondition(lambda self: hasattr(self, "models"))
    @rule(group=st.sampled_from(GROUPS), is_cold=st.booleans())
    def read(self, group: int, is_cold: bool) -> None:
        log, state = self.logs[group], self.models[group].now
        self.world.disk.settle() if is_cold else None
        if log.is_held:
            return
        visible = self._visible(log, state)
        assert items_of(log) == visible
        wanted = b"".join(
            item.data
            for item in visible
            if not item.kind and log.offset_after(item.last_index) > log.start_offset
        )
        assert read_all(log) == wanted
        for item in state.items:
            if item.last_index <= log.start_index:
                continue
            assert log.positions.term_at(item.last_index) == item.term
            if not item.kind:
                offset = int.from_bytes(item.data[:8], "big")
                assert log.offset_of_index(item.first_index) == offset
                assert log.index_of_offset(offset) == item.first_index


TestStorageMachine = StorageMachine.TestCase
