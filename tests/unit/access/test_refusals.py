"""The newest refusals that a broker remembers."""

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal
from kafkaesque.access.refusals import NAME_LENGTH_MAX, REFUSALS_MAX, Refusal, Refusals


def refusal(name: str, at_ms: int = 1) -> Refusal:
    who = Principal("User:app")
    return Refusal(who, "10.0.0.9", Operation.READ, ResourceType.TOPIC, name, at_ms)


def test_of_the_same_refusal_the_newest_is_kept() -> None:
    refusals = Refusals()
    for each in (refusal("a", 1), refusal("b", 2), refusal("a", 3)):
        refusals.note(each)
    assert [(each.name, each.at_ms) for each in refusals.newest()] == [("a", 3), ("b", 2)]


def test_the_oldest_go_when_there_are_too_many() -> None:
    refusals = Refusals()
    for number in range(REFUSALS_MAX + 5):
        refusals.note(refusal(f"t{number}"))
    names = [each.name for each in refusals.newest()]
    assert len(names) == REFUSALS_MAX
    assert (names[0], names[-1]) == (f"t{REFUSALS_MAX + 4}", "t5")


def test_a_name_that_is_too_long_is_not_kept() -> None:
    refusals = Refusals()
    refusals.note(refusal("x" * (NAME_LENGTH_MAX + 1)))
    assert list(refusals.newest()) == []
