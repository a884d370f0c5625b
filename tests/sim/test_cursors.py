"""Cursors over topics: the messages stay where they are, and each goes to one worker of a group."""

from kafkaesque.broker.metadata.queue_names import share_queue
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import ChangeGroupConfig, ConfigChange, Done
from kafkaesque.broker.requests.queue_commands import CreateShareQueue, DeleteShareGroup
from kafkaesque.model.ids import TopicId
from kafkaesque.queues.requests import Claim
from tests.sim.queue_scenario import PLENTY, TIMEOUT_MS, QueueScenario
from tests.sim.scenario import TOPIC

GROUP = "workers"


class CursorScenario(QueueScenario):
    """Three brokers, a topic, and a share group's cursor over it."""

    def __init__(self, seed: int, reset: str = "earliest", **options: str) -> None:
        super().__init__(seed)
        wanted = {"share.auto.offset.reset": reset}
        wanted |= {name.replace("_", "."): value for name, value in options.items()}
        self.submit(
            ChangeGroupConfig(
                group=GROUP,
                changes=[ConfigChange(name=name, value=value) for name, value in wanted.items()],
            )
        )
        topic = self.any().state.topic(TOPIC)
        self.submit(CreateShareQueue(group=GROUP, topic_id=topic.topic_id))
        name = share_queue(GROUP, topic.topic_id)
        self.loop.run_until(
            lambda: all(name in self.broker(each).state.queues for each in self.running()),
            TIMEOUT_MS,
        )
        self.log_id: TopicId = self.any().state.queues[name].topic_id

    def acquire(
        self, count: int = 500, *, wait_ms: int = 3_000, broker: str = ""
    ) -> list[q.QueueMessage]:
        request = q.TakeMessages(
            log_id=self.log_id, messages_max=count, bytes_max=PLENTY, wait_ms=wait_ms
        )
        return self.ask(request, q.TakenMessages, broker, TIMEOUT_MS + wait_ms).messages

    def accept(self, messages: list[q.QueueMessage]) -> list[Claim]:
        claims = [each.claim for each in messages]
        request = q.SettleMessages(log_id=self.log_id, claims=claims)
        return self.ask(request, q.ClaimsResult).stale

    def acquire_all(self) -> dict[int, bytes | None]:
        """Take and settle until nothing comes any more."""
        found: dict[int, bytes | None] = {}
        while taken := self.acquire():
            assert not {each.offset for each in taken} & set(found), "given out twice"
            found.update((each.offset, each.value) for each in taken)
            assert self.accept(taken) == []
        return found

    @property
    def stable_end(self) -> int:
        return self.partition(self.leader).last_stable_offset


def test_all_of_a_topic_comes_once() -> None:
    cursor = CursorScenario(21)
    cursor.write(300)
    found = cursor.acquire_all()
    assert len(found) == cursor.stable_end
    cursor.write(50)
    more = cursor.acquire_all()
    assert sorted({*found, *more}) == list(range(cursor.stable_end))
    assert not set(found) & set(more)


def test_a_group_that_begins_at_the_end_gets_what_comes_then() -> None:
    cursor = CursorScenario(22, reset="latest")
    cursor.write(100)
    before = cursor.stable_end
    assert cursor.acquire(wait_ms=500) == []
    cursor.write(20)
    assert min(cursor.acquire_all()) >= before


def test_nothing_is_given_out_twice_when_the_cursors_leader_dies() -> None:
    cursor = CursorScenario(23)
    cursor.write(200)
    first = cursor.acquire(50)
    assert cursor.accept(first[:20]) == []
    name = next(
        each
        for each in cursor.running()
        if (host := cursor.broker(each).queue_hosts._hosts.get((cursor.log_id, 0)))
        and host.queue.is_leading
    )
    cursor.kill(name)
    cursor.loop.run_for(5_000)
    found = cursor.acquire_all()
    held = {each.offset for each in first}
    assert not held & set(found), "locks are kept, and so is what was settled"
    cursor.loop.run_for(40_000)
    late = cursor.acquire_all()
    assert set(late) == {each.offset for each in first[20:]}


def test_a_group_that_is_deleted_has_no_cursor() -> None:
    cursor = CursorScenario(24)
    cursor.submit(DeleteShareGroup(group=GROUP))
    cursor.loop.run_until(lambda: cursor.log_id not in cursor.any().state.queues_by_log, TIMEOUT_MS)


def test_what_a_share_group_gives_up_goes_to_its_topic_with_kafkas_headers() -> None:
    cursor = CursorScenario(25, errors_deadletterqueue_topic_name="dlq.workers")
    cursor.make_topic("dlq.workers", errors_deadletterqueue_group_enable="true")
    cursor.write(3)
    taken = cursor.acquire(1)
    request = q.RejectMessages(log_id=cursor.log_id, claims=[taken[0].claim])
    cursor.ask(request, q.ClaimsResult)
    cursor.loop.run_until(lambda: cursor.records_of("dlq.workers") != [], 20_000)
    (record,) = cursor.records_of("dlq.workers")
    assert (record.key, record.value) == (None, None)
    assert dict(record.headers) == {
        "__dlq.errors.topic": TOPIC.encode(),
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"%d" % taken[0].offset,
        "__dlq.errors.group": GROUP.encode(),
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
    }


def test_a_topic_that_does_not_allow_it_gets_no_dead_letters() -> None:
    cursor = CursorScenario(26, errors_deadletterqueue_topic_name="business")
    cursor.make_topic("business")
    cursor.write(3)
    taken = cursor.acquire(1)
    request = q.RejectMessages(log_id=cursor.log_id, claims=[taken[0].claim])
    cursor.ask(request, q.ClaimsResult)
    cursor.loop.run_for(5_000)
    assert cursor.records_of("business") == []
    assert cursor.acquire_all().keys().isdisjoint({taken[0].offset})


def test_a_cursor_behind_the_end_goes_on_at_the_end() -> None:
    """As after an unclean election, when its topic has lost what it had read last."""
    cursor = CursorScenario(27)
    cursor.write(20)
    end = cursor.stable_end
    cursor.ask(q.SeekCursor(log_id=cursor.log_id, offset=end + 30), Done)
    assert cursor.acquire(wait_ms=2_000) == []
    cursor.write(5)
    assert sorted(cursor.acquire_all()) == list(range(end, cursor.stable_end))
