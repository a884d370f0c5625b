"""No client has more that it has not acknowledged than its credit, whatever happens.

STOMP's credit is a subscription's `prefetch-count`; JetStream's a consumer's `max_ack_pending`,
over all its clients. Clients hold messages back, refuse some, vanish, and lose brokers; in the end
all has come. Each scenario is a function of a seed that raises AssertionError.
"""

from __future__ import annotations

import json
import random
from itertools import takewhile

from kafkaesque.protocols.stomp.frames import Frame
from tests.sim.light_scenario import boot_all
from tests.unit.gateway_nats.kit import Ground as NatsGround
from tests.unit.gateway_nats.kit import NatsClient
from tests.unit.gateway_stomp.kit import Ground as StompGround
from tests.unit.gateway_stomp.kit import StompClient

MESSAGES = 25
QUEUE = "/queue/jobs"
SECOND_NS = 1_000_000_000
ACK_WAIT_S = 6
#: So many turns without anything that is done mean that nothing more comes.
TURNS_MAX = 250


class _Reader:
    """A client of STOMP with its own credit."""

    def __init__(self, ground: StompGround, chance: random.Random) -> None:
        self.credit = chance.randint(1, 4)
        self.mode = chance.choice(("client", "client-individual"))
        self.client: StompClient = ground.stomp(chance.randint(1, 3))
        said = {"prefetch_count": str(self.credit), "ack": self.mode}
        self.client.subscribe(QUEUE, **said)
        #: By the name for their acknowledgement.
        self.held: dict[str, Frame] = {}

    def take(self) -> None:
        """Take what has come."""
        self.client._take()
        waiting, self.client._waiting[:] = list(self.client._waiting), []
        for each in waiting:
            if each.command == "MESSAGE":
                self.held[each.get("ack") or ""] = each
        count = len(self.held)
        assert count <= self.credit, f"{count} are held with a credit of {self.credit}"

    def settle(self, chance: random.Random) -> list[bytes]:
        """Acknowledge or refuse one; return what is done with."""
        name = chance.choice(list(self.held))
        is_done = chance.random() < 0.8
        self.client.send("ACK" if is_done else "NACK", {"id": name})
        names = [name]
        if self.mode == "client":
            names = [*takewhile(lambda each: each != name, self.held), name]
        found = [self.held.pop(each) for each in names]
        return [each.body for each in found] if is_done else []


def readers_of_stomp(seed: int) -> None:
    """Readers come and go, and two at a time read one queue."""
    ground, chance = StompGround(seed, brokers=3), random.Random(seed)
    sender = ground.stomp(1)
    for number in range(MESSAGES):
        sender.publish(QUEUE, b"%d" % number)
    readers = [_Reader(ground, chance) for _ in range(2)]
    done: set[bytes] = set()
    before, idle = 0, 0
    while idle < TURNS_MAX:
        before, idle = len(done), idle + 1 if len(done) == before else 0
        ground.wait(chance.randint(0, 400))
        for at, reader in enumerate(readers):
            reader.take()
            while reader.held and chance.random() < 0.7:
                done.update(reader.settle(chance))
            if reader.client.client.is_closed or chance.random() < 0.1:
                reader.client.close()
                readers[at] = _Reader(ground, chance)
        if len(done) == MESSAGES:
            return
        if chance.random() < 0.05:
            ground.kill(chance.randint(1, 3))
            ground.wait(chance.randint(500, 2_000))
            boot_all(ground)
    raise AssertionError(f"only {len(done)} of {MESSAGES} have come")


class _Worker:
    """A client of JetStream that pulls, or is pushed to as a member of a group."""

    def __init__(self, ground: NatsGround, chance: random.Random, *, is_pushed: bool) -> None:
        self._is_pushed = is_pushed
        self.client: NatsClient = ground.client(chance.randint(1, 3))
        self.client.subscribe("in", "1")
        if is_pushed:
            self.client.subscribe("pushed", "2", "workers")

    def ask(self) -> None:
        """Ask for more than anybody may have."""
        if not self._is_pushed:
            wanted = json.dumps({"batch": MESSAGES, "expires": 2 * SECOND_NS}).encode()
            self.client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", wanted, "in")

    def take(self) -> list[tuple[int, str]]:
        """Return the messages that have come: sequence, and subject to acknowledge them."""
        found = []
        while b"MSG " in self.client.waiting:
            subject, _, reply, _, _ = self.client.message()
            if subject == "s":
                found.append((int(reply.split(".")[5]), reply))
        return found


class _Out:
    """What is out, as those know who have it."""

    def __init__(self, ground: NatsGround, credit: int) -> None:
        self._ground = ground
        self._credit = credit
        #: By sequence: when it came, and to whom.
        self.held: dict[int, tuple[int, str, _Worker]] = {}
        self.done: set[int] = set()

    def take(self, workers: list[_Worker]) -> None:
        """Take what has come; those that are late may be given to others already."""
        now_ms = self._ground.env.clock.now_ms()
        for worker in workers:
            for sequence, token in worker.take():
                self.held[sequence] = (now_ms, token, worker)
        since_ms = now_ms - ACK_WAIT_S * 1_000 // 2
        count = sum(at_ms >= since_ms for at_ms, _, _ in self.held.values())
        assert count <= self._credit, f"{count} are out, and {self._credit} may be"

    def settle(self, sequence: int, *, is_done: bool) -> None:
        """Acknowledge or refuse one."""
        _, token, worker = self.held.pop(sequence)
        worker.client.publish(token, b"+ACK" if is_done else b"-NAK")
        if is_done:
            self.done.add(sequence)


def workers_of_jetstream(seed: int, *, is_pushed: bool) -> None:
    """Three clients at three brokers, or wherever, share one consumer."""
    ground, chance = NatsGround(seed, brokers=3), random.Random(seed)
    credit = chance.randint(1, 5)
    maker = ground.client(1)
    maker.subscribe("made", "1")
    _ask(maker, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    config = {
        "durable_name": "C",
        "ack_policy": "explicit",
        "ack_wait": ACK_WAIT_S * SECOND_NS,
        "max_ack_pending": credit,
        **({"deliver_subject": "pushed", "deliver_group": "workers"} if is_pushed else {}),
    }
    _ask(maker, "CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    for number in range(MESSAGES):
        maker.publish("s", b"%d" % number, "made")
        maker.message()
    workers = [_Worker(ground, chance, is_pushed=is_pushed) for _ in range(3)]
    out = _Out(ground, credit)
    before, idle = 0, 0
    while idle < TURNS_MAX:
        before, idle = len(out.done), idle + 1 if len(out.done) == before else 0
        for worker in workers:
            if chance.random() < 0.2:
                worker.ask()
        ground.wait(chance.randint(0, 400))
        out.take(workers)
        for sequence in list(out.held):
            if chance.random() < 0.5:
                out.settle(sequence, is_done=chance.random() < 0.85)
        if len(out.done) == MESSAGES:
            return
        _trouble(ground, chance, workers, is_pushed=is_pushed)
    raise AssertionError(f"only {len(out.done)} of {MESSAGES} have come")


def _trouble(
    ground: NatsGround, chance: random.Random, workers: list[_Worker], *, is_pushed: bool
) -> None:
    if chance.random() < 0.02:
        ground.kill(chance.randint(1, 3))
        ground.wait(chance.randint(500, 2_000))
        boot_all(ground)
    for at, worker in enumerate(workers):
        if worker.client.is_closed or chance.random() < 0.01:
            worker.client.client.link.abort()
            workers[at] = _Worker(ground, chance, is_pushed=is_pushed)


def _ask(client: NatsClient, operation: str, body: object) -> None:
    client.publish(f"$JS.API.{operation}", json.dumps(body).encode(), "made")
    answer = json.loads(client.message()[4])
    assert "error" not in answer, answer
