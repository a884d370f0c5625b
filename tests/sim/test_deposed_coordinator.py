"""A coordinator that was deposed and does not know it yet gives out no offsets of the past.

Whoever was given them would consume anew what was consumed, also in transactions: its own offsets
go to the new coordinator, which has no reason to refuse them.
"""

from typing import Any

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.partition import Partition
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import CommitOffsets, FetchOffsets, OffsetToCommit
from kafkaesque.groups.results import CommitResult, FetchResult
from kafkaesque.model.ids import TopicPartition
from tests.sim.scenario import TOPIC, Scenario

GROUP = "readers"
PLACE = TopicPartition(TOPIC, 0)


def coordinator(broker: Broker) -> Partition | None:
    """Return the partition of the group's offsets, if this broker leads it."""
    if "__consumer_offsets" not in broker.state.topics:
        return None
    where = broker.group_coordinators.find(GROUP)
    partition = broker.partitions.get(broker.state.partition(where).group)
    return partition if partition is not None and partition.is_leader else None


def coordinators(scenario: Scenario) -> list[str]:
    return [name for name in scenario.running() if coordinator(scenario.broker(name)) is not None]


def ask(scenario: Scenario, name: str, event: Any) -> list[Any]:
    """Bring a request to a broker's coordinator; the answer comes into the list."""
    answers: list[Any] = []
    scenario.broker(name).group_coordinators.step(GROUP, event, answers.append)
    return answers


def answer_in(scenario: Scenario, answers: list[Any]) -> Any:
    """Wait for the answer that is to come into a list."""
    scenario.loop.run_until(lambda: answers != [], 30_000)
    (answer,) = answers
    return answer


def commit(scenario: Scenario, name: str, offset: int) -> list[Any]:
    event = CommitOffsets(
        token=scenario.broker(name).group_coordinators.next_token(),
        group_id=GROUP,
        generation=-1,
        member_id="",
        instance_id=None,
        offsets=(OffsetToCommit(PLACE, offset, -1, ""),),
    )
    return ask(scenario, name, event)


def fetch(scenario: Scenario, name: str) -> list[Any]:
    token = scenario.broker(name).group_coordinators.next_token()
    return ask(scenario, name, FetchOffsets(token=token, group_id=GROUP, partitions=(PLACE,)))


def committed(scenario: Scenario, name: str, offset: int) -> None:
    """Commit an offset, and wait for it."""
    for _ in range(100):
        answers = commit(scenario, name, offset)
        if isinstance(answer_in(scenario, answers), CommitResult):
            return
        scenario.loop.run_for(100)
    raise AssertionError(answers)


def test_offsets_of_the_past_are_not_given_out_by_whoever_was_cut_off() -> None:
    scenario = Scenario(2)  # of the others one leads before the old one steps down
    scenario.write(10)
    commit(scenario, scenario.running()[0], 1)  # makes the topic
    scenario.loop.run_until(lambda: len(coordinators(scenario)) == 1, 30_000)
    (old,) = coordinators(scenario)
    committed(scenario, old, 5)
    before = answer_in(scenario, fetch(scenario, old))
    assert isinstance(before, FetchResult)
    assert [found.committed and found.committed.offset for found in before.offsets] == [5]

    for other in scenario.running():
        scenario.world.wire.block(old, other)
        scenario.world.wire.block(other, old)
    scenario.loop.run_until(lambda: len(coordinators(scenario)) == 2, 30_000)
    (new,) = set(coordinators(scenario)) - {old}
    committed(scenario, new, 9)
    assert old in coordinators(scenario), "it does not know that it was deposed"
    assert answer_in(scenario, fetch(scenario, old)) is GroupError.NOT_COORDINATOR
