"""A queue on three replicas, under everything that Hypothesis can think of; see `queue_machine`."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.property.queue_machine import POLICIES, Cluster
from tests.unit.queues.queue_host import Message

MESSAGES = st.builds(
    Message,
    value=st.sampled_from((b"v", b"v" * 40, b"v" * 200)),
    priority=st.sampled_from((0, 1, 3, 9)),
    group=st.sampled_from((b"", b"a", b"b")),
    not_before_ms=st.sampled_from((0, 8, 60)),
    not_after_ms=st.sampled_from((0, 30)),
    identity=st.sampled_from((b"", b"1" * 16, b"2" * 16)),
)
WHICH = st.integers(0, 2)
OLD = st.integers(0, 5)
COUNT = st.integers(1, 4)


class Machine(RuleBasedStateMachine):
    @initialize(policy=st.integers(0, len(POLICIES) - 1))
    def begin(self, policy: int) -> None:
        self.cluster = Cluster()
        self.cluster.configure(policy)

    @rule(messages=st.lists(MESSAGES, min_size=1, max_size=4))
    def put(self, messages: list[Message]) -> None:
        self.cluster.put(messages)

    @rule(count=COUNT, lock_ms=st.sampled_from((None, 0, 5, 50)), wait_ms=st.sampled_from((0, 30)))
    def take(self, count: int, lock_ms: int | None, wait_ms: int) -> None:
        self.cluster.take(count, lock_ms, wait_ms, count)

    @rule(which=WHICH)
    def attach(self, which: int) -> None:
        self.cluster.attach(which)

    @rule(which=WHICH, is_failed=st.booleans())
    def detach(self, which: int, is_failed: bool) -> None:
        self.cluster.detach(which, is_failed)

    @rule(which=WHICH, count=COUNT, size=st.sampled_from((1, 300, 2**62)))
    def grant(self, which: int, count: int, size: int) -> None:
        self.cluster.grant(which, count, size)

    @rule(old=OLD, may_be_late=st.booleans())
    def settle(self, old: int, may_be_late: bool) -> None:
        self.cluster.settle(old, may_be_late)

    @rule(
        old=OLD,
        is_failed=st.booleans(),
        to_tail=st.booleans(),
        delay_ms=st.sampled_from((None, 0, 12)),
    )
    def give_back(self, old: int, is_failed: bool, to_tail: bool, delay_ms: int | None) -> None:
        self.cluster.give_back(old, is_failed, to_tail, delay_ms)

    @rule(old=OLD)
    def reject(self, old: int) -> None:
        self.cluster.reject(old)

    @rule(old=OLD, lock_ms=st.sampled_from((0, 3, 40)))
    def extend(self, old: int, lock_ms: int) -> None:
        self.cluster.extend(old, lock_ms)

    @rule(old=OLD, transaction=COUNT)
    def stage(self, old: int, transaction: int) -> None:
        self.cluster.stage(old, transaction)

    @rule(transaction=COUNT, is_committed=st.booleans())
    def finish(self, transaction: int, is_committed: bool) -> None:
        self.cluster.finish(transaction, is_committed)

    @rule(policy=st.integers(0, len(POLICIES) - 1))
    def configure(self, policy: int) -> None:
        self.cluster.configure(policy)

    @rule(to=st.sampled_from(("", "other")))
    def redrive(self, to: str) -> None:
        self.cluster.redrive(to)

    @rule()
    def unpark(self) -> None:
        self.cluster.unpark()

    @rule(takes_in_flight=st.booleans())
    def purge(self, takes_in_flight: bool) -> None:
        self.cluster.purge(takes_in_flight=takes_in_flight)

    @rule(count=COUNT, reports=st.booleans())
    def move(self, count: int, reports: bool) -> None:
        self.cluster.move(count, reports)

    @rule()
    def not_moved(self) -> None:
        self.cluster.not_moved()

    @rule(unused_ms=st.sampled_from((60_000, 700_000)))
    def note_disuse(self, unused_ms: int) -> None:
        self.cluster.note_disuse(unused_ms)

    @rule()
    def note_use(self) -> None:
        self.cluster.note_use()

    @rule(ms=st.integers(1, 60))
    def pass_time(self, ms: int) -> None:
        self.cluster.pass_time(ms)

    @rule(which=WHICH, ms=st.sampled_from((-600_000, 0, 600_000)))
    def skew(self, which: int, ms: int) -> None:
        self.cluster.skew(which, ms)

    @rule(which=WHICH, count=st.integers(1, 100))
    def replicate(self, which: int, count: int) -> None:
        self.cluster.replicate(which, count)

    @rule(others=st.booleans())
    def commit(self, others: bool) -> None:
        for which in range(3):
            if others:
                self.cluster.replicate(which, 100)
        self.cluster.commit()

    @rule(which=WHICH)
    def elect(self, which: int) -> None:
        self.cluster.elect(which)

    @rule(which=WHICH)
    def restart(self, which: int) -> None:
        self.cluster.restart(which)

    @rule(count=COUNT)
    def abandon(self, count: int) -> None:
        self.cluster.abandon(count)

    @rule(which=WHICH, bytes_max=st.sampled_from((1, 200, 1 << 20)))
    def trim(self, which: int, bytes_max: int) -> None:
        self.cluster.trim(which, bytes_max)

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.check_replicas()
            self.cluster.end()


TestMachine = Machine.TestCase
