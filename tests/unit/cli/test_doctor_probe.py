"""The doctor ends in time, whatever it looks at."""

import threading
from collections.abc import Iterator

import pytest

from kafkaesque.cli.doctor import probe
from kafkaesque.cli.doctor.facts import GroupFacts

LATE = GroupFacts(name="late", messages=7, seconds=1.0, members=1)


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_coordinator_that_does_not_answer_hides_no_other_group(
    released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(bootstrap: str, found: list[GroupFacts], unseen: list[str]) -> None:
        found.append(LATE)
        unseen.append("group other: not authorized")
        released.wait()

    monkeypatch.setattr(probe, "_read_groups", read)
    unseen: list[str] = []
    assert probe._groups_in_time("127.0.0.1:1", unseen, 2.0) == [LATE]
    assert unseen == [
        "some groups: their coordinators did not answer within 2 s",
        "group other: not authorized",
    ]
