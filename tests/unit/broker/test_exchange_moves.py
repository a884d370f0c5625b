"""Dead letters on their way through an exchange: what is asked of each queue and topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

import pytest

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata import exchange_planner
from kafkaesque.broker.metadata.features import LEVEL_WITH_EXCHANGES, METADATA
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.exchange_moves import (
    MOVED_BYTES_MAX,
    ExchangeMoves,
    ExchangeWay,
    Letter,
)
from kafkaesque.broker.queues.transforming import FAILED_HEADER
from kafkaesque.broker.requests.commands import CreateTopic, ProduceResult
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    DeclareExchange,
    ExchangeCommand,
    PutTransformation,
)
from kafkaesque.broker.requests.queue_commands import CreateQueue, DeleteQueue
from kafkaesque.broker.requests.queue_requests import MovedResult, MoveMessages
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import LeaderNotAvailable, MessageTooLarge, RequestRefused
from kafkaesque.model.ids import TopicId, TopicPartition
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.transformations.rules import read_rule
from tests.unit.broker.test_planner import Cluster

PLENTY = 64 * 1024 * 1024
CAST = {"do": "cast", "at": "headers.n", "to": "number"}


class Ground:
    """A queue `work` whose dead letters go to the exchange `dead`, and nobody who answers yet."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.state = self.cluster.state
        self.state.features[METADATA] = LEVEL_WITH_EXCHANGES
        for name in ("work", "q", "failed"):
            self.cluster.do(CreateQueue(vhost="/", name=name, options={}))
        self.do(DeclareExchange(vhost="/", name="dead", type="fanout"))
        #: By the name of the queue or topic, what it was asked and how it answers.
        self.asked: list[tuple[str, list[Record], Callable[[object], None]]] = []
        self.sent: list[bool] = []
        self.moves = ExchangeMoves(
            ExchangeWay("/", "dead", None),
            self.state.queues[QueueName("/", "work")],
            self.state.queues[QueueName("/", "work")].partitions[0],
            cast("MetadataView", self.cluster),
            cast("QueueCalls", self),
            cast("Forwarder", self),
            LiveOptions(self.cluster.alive[0], {}),
        )

    def do(self, command: ExchangeCommand) -> None:
        for record in exchange_planner.plan_exchanges(self.state, command, 0):
            self.state.apply(record)

    def bind(self, to: Destination, transformation: str = "", source: str = "dead") -> None:
        said: dict[str, object] = {"x-transformation": transformation} if transformation else {}
        self.do(BindDestination(vhost="/", source=source, destination=to, key="", arguments=said))

    def put(self, *steps: object, failures: str = "") -> None:
        rule = read_rule(json.dumps({"steps": steps, "failures": failures}).encode())
        self.do(PutTransformation(vhost="/", name="t", rule=rule))

    # -- what the moves ask

    def ask(
        self, request: MoveMessages, _: type, timeout_ms: int, on_done: Callable[[object], None]
    ) -> None:
        name = self.state.queues_by_log[TopicId(request.log_id)].queue.name
        records = [decode_batch(batch, PLENTY)[0] for batch in request.batches]
        numbers = [read_batch_header(batch).base_sequence for batch in request.batches]
        assert numbers == sorted(numbers)
        self.asked.append((name, records, on_done))

    def produce(self, where: TopicPartition, batch: bytes, *rest: object) -> None:
        on_done = cast("Callable[[object], None]", rest[2])
        self.asked.append((where.topic, decode_batch(batch, PLENTY), on_done))

    # -- one step

    def step(self, *letters: Letter) -> int:
        """Begin a step; return how many letters it has."""
        self.asked.clear()
        found = self.moves.first_step(letters)
        if found:
            self.moves.send(1_000, made, self.sent.append)
        return len(found)

    def answer(self, refusals: dict[str, RequestRefused] | None = None) -> bool:
        """Answer all; say whether the step is done."""
        for name, records, on_done in self.asked:
            refusal = (refusals or {}).get(name)
            if refusal is not None:
                on_done(refusal)
            elif name in self.state.topics:
                on_done(ProduceResult(base_offset=0, log_start_offset=0))
            else:
                on_done(MovedResult(len(records)))
        return self.sent.pop()

    def bodies(self) -> dict[str, list[bytes | None]]:
        found: dict[str, list[bytes | None]] = {}
        for name, records, _ in self.asked:
            found.setdefault(name, []).extend(record.value for record in records)
        return found


def made(letter: Letter, _: TopicId, partition: int, not_before_ms: int) -> bytes:
    options = BatchOptions(producer_id=1, producer_epoch=0, base_sequence=letter.offset)
    return bytes(encode_batch([letter.record._replace(offset=0)], options))


def letter(number: int, n: bytes = b"1", value: bytes | None = None) -> Letter:
    body = b"%d" % number if value is None else value
    return Letter(number, Record(number, 0, b"", body, (("n", n),)))


@pytest.fixture
def ground() -> Ground:
    return Ground()


def test_each_queue_is_asked_once_for_all_that_it_gets_in_order(ground: Ground) -> None:
    ground.put(CAST, failures="failed")
    ground.bind(Destination("q"), "t")
    ground.bind(Destination("failed"))
    assert ground.step(letter(1), letter(2, b"x"), letter(3)) == 3
    assert len(ground.asked) == 2
    assert ground.bodies() == {"q": [b"1", b"3"], "failed": [b"1", b"2", b"3"]}
    (told,) = (records for name, records, _ in ground.asked if name == "failed")
    assert [FAILED_HEADER in dict(record.headers) for record in told] == [False, True, False]
    assert ground.answer()


def test_a_second_try_goes_the_same_way_by_the_same_rule(ground: Ground) -> None:
    ground.put(CAST, failures="failed")
    ground.bind(Destination("q"), "t")
    assert ground.step(letter(1, b"x")) == 1
    assert not ground.answer({"failed": LeaderNotAvailable("nobody leads")})
    ground.put({"do": "drop", "at": "headers.n"})
    ground.bind(Destination("work"))
    assert ground.step(letter(1, b"x"), letter(2, b"x")) == 1
    assert ground.bodies() == {"failed": [b"1"]}
    assert ground.answer()
    ground.moves.forget(1)
    # The next one goes by what holds now.
    assert ground.step(letter(2, b"x")) == 1
    assert ground.bodies() == {"q": [b"2"], "work": [b"2"]}


def test_without_its_queue_for_failures_a_message_is_routed_again(ground: Ground) -> None:
    ground.put(CAST, failures="failed")
    ground.bind(Destination("q"), "t")
    assert ground.step(letter(1, b"x")) == 1
    assert not ground.answer({"failed": LeaderNotAvailable("nobody leads")})
    ground.cluster.do(DeleteQueue(vhost="/", name="failed"))
    assert ground.step(letter(1, b"x")) == 0
    ground.put({"do": "drop", "at": "headers.n"})
    assert ground.step(letter(1, b"x")) == 1
    assert ground.bodies() == {"q": [b"1"]}


def test_a_step_is_bounded_by_what_arrives(ground: Ground) -> None:
    steps = [
        {"do": "template", "at": f"$.{name}", "text": "{$.a}{$.a}{$.a}{$.a}"} for name in "bcdefgh"
    ]
    ground.put(*steps)
    ground.bind(Destination("q"), "t")
    body = json.dumps({"a": "x" * 15_000}).encode()
    letters = [letter(number, value=body) for number in range(30)]
    found = ground.step(*letters)
    ((_, records, _),) = ground.asked
    sizes = [len(record.value or b"") for record in records]
    assert sum(sizes) <= MOVED_BYTES_MAX < sum(sizes) + 2 * sizes[0]
    assert found < len(letters)


def test_what_is_refused_for_good_stays_and_the_others_go(ground: Ground) -> None:
    ground.cluster.do(CreateTopic(name="topic", partition_count=1))
    ground.bind(Destination("q"))
    ground.bind(Destination("topic", is_topic=True))
    letters = [letter(number) for number in (1, 2, 3)]
    assert ground.step(*letters) == 3
    assert not ground.answer({"q": MessageTooLarge("too large")})
    # One by one; the topic has them already.
    assert ground.step(*letters) == 1
    assert ground.bodies() == {"q": [b"1"]}
    assert ground.answer()
    ground.moves.forget(1)
    assert ground.step(*letters[1:]) == 1
    assert not ground.answer({"q": MessageTooLarge("too large")})
    assert ground.step(*letters[1:]) == 0
    assert ground.step(letters[2], letter(4)) == 1
    assert ground.answer()
    # Then many at once again.
    assert ground.step(letter(4), letter(5)) == 2
    # One that was parked and comes once more is tried once more.
    assert ground.step(letters[1]) == 1
