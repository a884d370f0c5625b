"""Queues at the text port of a simulated cluster: what a connection holds while brokers die."""

from kafkaesque.env.network import Address
from kafkaesque.queues.policy import Policy
from kafkaesque.sim.cluster import TEXT_PORT
from kafkaesque.sim.text.link import Answer, TextLink
from tests.sim.queue_scenario import QUEUE, TIMEOUT_MS, QueueScenario

#: So long a new leader waits for those that hold messages to show themselves.
GRACE_MS = Policy().grace_ms


class TextQueueScenario(QueueScenario):
    """Three brokers and a queue, and people who are connected with them."""

    def __init__(self, seed: int, options: dict[str, str] | None = None) -> None:
        super().__init__(seed, options)
        self._count = 0

    def person(self, broker: str) -> "Person":
        self._count += 1
        return Person(self, broker, f"person{self._count}")


class Person:
    """One connection to a broker's text port."""

    def __init__(self, scenario: TextQueueScenario, broker: str, name: str) -> None:
        self._loop = scenario.loop
        env = scenario.world.add_machine(name).boot()
        self.link = TextLink(env, Address(broker, TEXT_PORT), self._note)

    def _note(self, anomaly: str) -> None:
        raise AssertionError(anomaly)

    def say(self, line: str) -> Answer | None:
        """Return the answer to a line; None if the connection was lost."""
        answers: list[Answer | None] = []
        self.link.ask(line, 6 * TIMEOUT_MS, answers.append)
        self._loop.run_until(lambda: answers != [], 7 * TIMEOUT_MS)
        return answers[0]

    def ok(self, line: str) -> Answer:
        answer = self.say(line)
        assert answer is not None, "the connection was lost"
        assert answer.is_ok, answer.last
        return answer

    def get(self, wait_s: int = 0) -> tuple[int, int] | None:
        """Return the number and the attempt of a message that is given; None if there is none."""
        lines = self.ok(f"GET {QUEUE} {wait_s}").lines
        if not lines:
            return None
        _, offset, attempt, *_ = lines[0].split(" ")
        return int(offset), int(attempt)


def test_what_a_connection_holds_stays_its_own_when_the_leader_dies() -> None:
    scenario = TextQueueScenario(61)
    leader = scenario.queue_leader()
    reader, other = (name for name in scenario.running() if name != leader)
    alice, bob = scenario.person(reader), scenario.person(other)
    alice.ok(f"PUT {QUEUE} hello")
    held = alice.get()
    assert held is not None
    scenario.kill(leader)
    scenario.queue_leader()
    # A consumer that a new leader does not hear of is taken for gone after this.
    scenario.loop.run_for(2 * GRACE_MS)
    assert bob.get(wait_s=1) is None, "it is still alice's"
    alice.ok(f"ACK {QUEUE} {held[0]}")
    assert bob.get(wait_s=1) is None, "and now nobody's"
    assert scenario.counts().removed["settled"] == 1


def test_what_a_connection_holds_is_ready_again_when_its_broker_dies() -> None:
    scenario = TextQueueScenario(62)
    leader = scenario.queue_leader()
    first, second = (name for name in scenario.running() if name != leader)
    alice, bob = scenario.person(first), scenario.person(second)
    alice.ok(f"PUT {QUEUE} hello")
    held = alice.get()
    assert held is not None
    scenario.kill(first)
    scenario.loop.run_for(2 * GRACE_MS)
    again = bob.get(wait_s=5)
    assert again is not None
    assert again == (held[0], held[1] + 1), "an attempt that failed is counted"
    bob.ok(f"ACK {QUEUE} {again[0]}")


def test_every_message_that_was_confirmed_is_given_once_though_leaders_die() -> None:
    scenario = TextQueueScenario(63)
    confirmed: set[int] = set()
    for number in range(30):
        if number == 15:
            scenario.kill(scenario.queue_leader())
        answer = scenario.person(scenario.follower()).say(f"PUT {QUEUE} m{number}")
        if answer is not None and answer.is_ok:
            confirmed.add(int(answer.last.split(" ")[2]))
    assert len(confirmed) >= 29, "at most the one at that moment is unsure"
    reader = scenario.person(scenario.follower())
    given: list[int] = []
    while (found := reader.get(wait_s=1)) is not None:
        given.append(found[0])
        reader.ok(f"ACK {QUEUE} {found[0]}")
    assert len(given) == len(set(given))
    assert confirmed <= set(given)
