"""Subscription ids and places to begin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import SUBSCRIPTION_ID
from kafkaesque.protocols.text.positions import Place, Start, read_start, write_offsets
from kafkaesque.protocols.text.subscription import (
    PARTITIONS_MAX,
    Subscription,
    read_partitions,
    read_subscription,
    write_partitions,
)

words = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=12
)
partition_sets = st.none() | st.sets(st.integers(0, 99), min_size=1).map(
    lambda found: tuple(sorted(found))
)


@given(topic=words, group=words, partitions=partition_sets)
def test_an_id_says_all_that_there_is(
    topic: str, group: str, partitions: tuple[int, ...] | None
) -> None:
    subscription = Subscription(topic=topic, group=group, partitions=partitions)
    subscription_id = subscription.subscription_id
    assert len(subscription_id.split()) == 1
    assert read_subscription(topic, subscription_id) == subscription


@given(group=words, partitions=partition_sets)
def test_an_id_is_for_its_topic_alone(group: str, partitions: tuple[int, ...] | None) -> None:
    subscription = Subscription(topic="flights", group=group, partitions=partitions)
    with pytest.raises(BadCommand, match="another topic"):
        read_subscription("trains", subscription.subscription_id)


def test_the_example_is_a_good_one() -> None:
    subscription = Subscription(topic="flights", group="readers", partitions=None)
    assert subscription.subscription_id == SUBSCRIPTION_ID


@pytest.mark.parametrize("place", range(len(SUBSCRIPTION_ID)))
def test_a_misspelt_id_is_refused(place: int) -> None:
    misspelt = SUBSCRIPTION_ID[:place] + "x" + SUBSCRIPTION_ID[place + 1 :]
    with pytest.raises(BadCommand) as caught:
        read_subscription("flights", misspelt)
    assert "CONS flights" in caught.value.example


@pytest.mark.parametrize("text", ["", "/", "//", "7", "readers", "/all/d7e74a", "a/b"])
def test_what_is_no_id_at_all(text: str) -> None:
    with pytest.raises(BadCommand, match="subscription id"):
        read_subscription("flights", text)


@given(partitions=partition_sets)
def test_partitions_are_written_and_read(partitions: tuple[int, ...] | None) -> None:
    assert read_partitions(write_partitions(partitions)) == partitions


@pytest.mark.parametrize(
    ("text", "partitions"),
    [("0", (0,)), ("3,1,2,1-2", (1, 2, 3)), ("ALL", None), ("007", (7,)), ("5-5", (5,))],
)
def test_partitions_that_people_write(text: str, partitions: tuple[int, ...] | None) -> None:
    assert read_partitions(text) == partitions


def test_partitions_are_written_shortly() -> None:
    assert write_partitions((0, 1, 2, 3, 7, 9, 10)) == "0-3,7,9-10"


@pytest.mark.parametrize(
    "text", ["", ",", "1,", "-1", "1-", "3-1", "a", "1;2", "1-2-3", "²", "9" * 400, "0-9999999"]
)
def test_what_is_no_list_of_partitions(text: str) -> None:
    with pytest.raises(BadCommand) as caught:
        read_partitions(text)
    assert caught.value.example.startswith("SUBS ")


def test_a_subscription_names_only_so_many_partitions() -> None:
    assert len(read_partitions(f"0-{PARTITIONS_MAX - 1}") or ()) == PARTITIONS_MAX
    with pytest.raises(BadCommand, match="more than"):
        read_partitions(f"0-{PARTITIONS_MAX}")
    with pytest.raises(BadCommand, match="more than"):
        read_partitions(",".join(f"{n * 9000}-{n * 9000 + 8999}" for n in range(50)))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("next", Start(place=Place.NEXT)),
        ("EARLIEST", Start(place=Place.EARLIEST)),
        ("Latest", Start(place=Place.LATEST)),
        ("0", Start(offset=0)),
        (str(2**63 - 1), Start(offset=2**63 - 1)),
        ("1:17,0:42", Start(offsets={1: 17, 0: 42})),
    ],
)
def test_places_to_begin(text: str, start: Start) -> None:
    assert read_start(text) == start


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-1", "1.5", str(2**63), "9" * 5000, ":", "0:", ":1", "0:1,0:2", "0:1,", "0:-1"],
)
def test_where_one_cannot_begin(text: str) -> None:
    with pytest.raises(BadCommand) as caught:
        read_start(text)
    assert caught.value.example.startswith("CONS ")


@given(offsets=st.dictionaries(st.integers(0, 99), st.integers(0, 2**63 - 1), min_size=1))
def test_offsets_are_written_and_read(offsets: dict[int, int]) -> None:
    start = read_start(write_offsets(offsets))
    if start.offset is not None:
        assert set(offsets.values()) == {start.offset}
    else:
        assert start.offsets == offsets
