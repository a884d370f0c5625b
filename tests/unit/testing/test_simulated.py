"""Clusters for users' own tests, in virtual time."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.testing import ConfigError, LiveCluster, Refused, SimulatedCluster, TimedOut

#: What is promised; the best of some starts counts, for the machine is busy with other tests.
READY_S_MAX = 0.5
ATTEMPTS = 5


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster(5)


def test_it_is_ready_in_less_than_half_a_second() -> None:
    taken = []
    for seed in range(ATTEMPTS):
        begun = time.process_time()
        SimulatedCluster(seed).create_topic("t")
        taken.append(time.process_time() - begun)
    assert min(taken) < READY_S_MAX


def test_what_is_produced_is_read(cluster: SimulatedCluster) -> None:
    cluster.create_topic("t", partitions=2)
    assert cluster.produce("t", b"a", b"b", key=b"k", partition=1) == 0
    assert cluster.produce("t", b"c", partition=1) == 2
    found = cluster.read("t", partition=1)
    assert [(each.offset, each.key, each.value) for each in found] == [
        (0, b"k", b"a"),
        (1, b"k", b"b"),
        (2, None, b"c"),
    ]
    assert cluster.read("t", partition=0) == []
    assert [each.offset for each in cluster.read("t", partition=1, offset=2)] == [2]


def story(seed: int) -> tuple[str, list[bytes | None]]:
    """Do the same with a cluster of this seed; return its digest, and what was read."""
    cluster = SimulatedCluster(seed)
    cluster.create_topic("t")
    for number in range(10):
        if number == 5:
            cluster.kill(cluster.leader("t") or 1)
        cluster.produce("t", b"%d" % number)
    return cluster.digest(), [each.value for each in cluster.read("t")]


def test_the_same_seed_is_the_same_history_and_another_is_another() -> None:
    wanted = [b"%d" % number for number in range(10)]
    assert story(1) == story(1)
    assert story(1)[1] == wanted
    assert story(1)[0] != story(2)[0]


def test_options_of_topics_are_numbers_and_bools_as_well(cluster: SimulatedCluster) -> None:
    given = {"min.insync.replicas": 2, "write.caching": True, "min.cleanable.dirty.ratio": 0.25}
    cluster.create_topic("t", configs={**given, "cleanup.policy": "compact"})
    found = cluster._cluster.running()[0].state.topics["t"].configs
    assert {name: found[name] for name in [*given, "cleanup.policy"]} == {
        "min.insync.replicas": "2",
        "write.caching": "true",
        "min.cleanable.dirty.ratio": "0.25",
        "cleanup.policy": "compact",
    }


@pytest.mark.parametrize(
    ("configs", "sentence"),
    [
        ({"min.insync.replicas": None}, "the value of min.insync.replicas is text, a number"),
        ({"cleanup.policy": ["compact"]}, "not \\['compact'\\]"),
        ({1: "2"}, "an option is named by text, not by 1"),
    ],
)
def test_options_of_topics_that_make_no_sense_are_named(
    cluster: SimulatedCluster, configs: Any, sentence: str
) -> None:
    with pytest.raises(TypeError, match=sentence):
        cluster.create_topic("t", configs=configs)


@pytest.mark.parametrize("fault", ["kill", "pause", "cut_power", "isolate", "lose_disk"])
def test_a_leader_that_is_gone_is_replaced_and_comes_back(
    cluster: SimulatedCluster, fault: str
) -> None:
    cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    cluster.produce("t", b"before")
    leader = cluster.leader("t")
    assert leader is not None
    getattr(cluster, fault)(leader)
    cluster.produce("t", b"meanwhile")
    assert [each.value for each in cluster.read("t")] == [b"before", b"meanwhile"]
    cluster.heal()
    cluster.wait_until_whole()
    cluster.produce("t", b"after")
    assert len(cluster.read("t", count=3)) == 3


def kill_beside_new_disks(cluster: SimulatedCluster) -> Iterator[int]:
    """Give one broker a new disk, wait until all is whole, kill another; yield it, three times."""
    for lost, killed in ((1, 2), (2, 3), (3, 1)):
        cluster.lose_disk(lost)
        cluster.run_for(2_000)
        cluster.start(lost)
        cluster.wait_until_whole()
        cluster.kill(killed)
        yield killed


@pytest.mark.parametrize("seed", range(4))
def test_when_it_is_whole_the_next_broker_may_go(seed: int) -> None:
    cluster = SimulatedCluster(seed)
    cluster.create_topic("t", partitions=2, configs={"min.insync.replicas": "2"})
    for number in range(20):
        cluster.produce("t", b"%d" % number)
    for killed in kill_beside_new_disks(cluster):
        cluster.produce("t", b"meanwhile")
        cluster.produce("t", b"meanwhile", partition=1)
        cluster.start(killed)
        cluster.wait_until_whole()
    assert len(cluster.read("t")) == 23


def test_it_is_whole_when_the_controllers_are(cluster: SimulatedCluster) -> None:
    for killed in kill_beside_new_disks(cluster):
        cluster.create_topic(f"t{killed}", replicas=2)
        cluster.start(killed)
        cluster.wait_until_whole()


def test_when_it_is_whole_everybody_has_what_was_written_meanwhile(
    cluster: SimulatedCluster,
) -> None:
    cluster.create_topic("t")
    follower = 1 if cluster.leader("t") != 1 else 2
    cluster.kill(follower)
    for _ in range(50):
        cluster.produce("t", b"v" * 100_000)
    cluster.start(follower)
    cluster.wait_until_whole()
    brokers = cluster._cluster.running()
    group = brokers[0].state.topics["t"].partitions[0].group
    ends = [each.log.end_offset for broker in brokers if (each := broker.partitions.get(group))]
    assert ends == [50, 50, 50]


def test_a_broker_that_stays_away_keeps_it_from_being_whole(cluster: SimulatedCluster) -> None:
    cluster.create_topic("t")
    cluster.kill(3)
    why = "not whole within 20000 ms: brokers that do not run: 3"
    with pytest.raises(TimedOut, match=why):
        cluster.wait_until_whole(20_000)


@pytest.mark.parametrize("is_paused", [False, True], ids=["runs", "paused"])
@pytest.mark.parametrize("fault", ["fail_syncs", "fill_disk"])
def test_a_broker_that_has_given_up_its_disk_comes_back_when_all_is_healed(
    cluster: SimulatedCluster, fault: str, is_paused: bool
) -> None:
    cluster.create_topic("t")
    cluster.slow_disk(3, 200)
    getattr(cluster, fault)(3)
    cluster.produce("t", b"before")
    if is_paused:
        cluster.pause(3)
    cluster.run_for(5_000)
    cluster.heal()
    cluster.wait_until_whole()
    cluster.produce("t", b"after")
    assert len(cluster.read("t", count=2)) == 2


def test_brokers_that_are_not_ready_are_named_with_the_reason(cluster: SimulatedCluster) -> None:
    cluster.create_topic("t")
    cluster.fail_syncs(3)
    cluster.produce("t", b"v")
    with pytest.raises(TimedOut, match="ms: the disk of broker 3 failed: cannot sync on b3"):
        cluster.wait_until_whole(20_000)
    cluster.heal()
    cluster.isolate(2)
    with pytest.raises(TimedOut, match="; broker 2 does not hear of broker 1, 3"):
        cluster.wait_until_whole(20_000)
    cluster.heal()
    cluster.fill_disk(3)
    cluster.restart(3)
    with pytest.raises(TimedOut, match=r"not run: 3, which cannot start: .*: No space left"):
        cluster.wait_until_whole(20_000)


def test_what_is_lost_with_its_only_copy_is_named(cluster: SimulatedCluster) -> None:
    cluster.create_topic("t", replicas=1)
    cluster.produce("t", b"v")
    leader = cluster.leader("t") or 1
    cluster.lose_disk(leader)
    cluster.start(leader)
    with pytest.raises(TimedOut, match="t-0 has no leader, or not all copies vote"):
        cluster.wait_until_whole(20_000)


def test_without_a_majority_nothing_is_acknowledged(cluster: SimulatedCluster) -> None:
    cluster.create_topic("t")
    cluster.partition([1], [2], [3])
    with pytest.raises(TimedOut, match="seed 5"):
        cluster.produce("t", b"lost or not", timeout_ms=10_000)
    cluster.heal()
    cluster.produce("t", b"after")
    assert cluster.read("t")[-1].value == b"after"


def test_disks_and_clocks_can_be_wrong(cluster: SimulatedCluster) -> None:
    cluster.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    leader = cluster.leader("t") or 1
    cluster.produce("t", b"a")
    cluster.jump_clock(leader, 3_600_000)
    cluster.produce("t", b"b")
    first, second = cluster.read("t")
    assert second.timestamp_ms - first.timestamp_ms >= 3_600_000
    begun_ms = cluster.now_ms
    cluster.produce("t", b"c")
    usual_ms = cluster.now_ms - begun_ms
    for broker in (1, 2, 3):
        cluster.slow_disk(broker, 50)
    begun_ms = cluster.now_ms
    cluster.produce("t", b"d")
    assert cluster.now_ms - begun_ms > 2 * usual_ms
    cluster.heal()
    cluster.fill_disk(leader)
    cluster.produce("t", b"e")
    assert [each.value for each in cluster.read("t")] == [b"a", b"b", b"c", b"d", b"e"]


def test_refusals_have_kafkas_names(cluster: SimulatedCluster) -> None:
    cluster.create_topic("t")
    with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS"):
        cluster.create_topic("t")
    with pytest.raises(Refused) as raised:
        cluster.read("t", offset=7)
    assert raised.value.code == "OFFSET_OUT_OF_RANGE"


def test_wrong_brokers_and_options_are_refused_by_name(cluster: SimulatedCluster) -> None:
    with pytest.raises(ValueError, match="brokers 1 to 3, and no broker 4"):
        cluster.kill(4)
    with pytest.raises(ConfigError, match=r"num\.partitons"):
        SimulatedCluster(options={"num.partitons": "3"})


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: SimulatedCluster(brokers=0), ValueError, "brokers is from 1 to 9, not 0"),
        (lambda: SimulatedCluster(brokers="3"), TypeError, "brokers is a whole number, not '3'"),  # type: ignore[arg-type]
        (lambda: LiveCluster(brokers=10), ValueError, "brokers is from 1 to 9, not 10"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(
    make: Callable[[], object], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        make()


WRONG_CALLS: Mapping[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "id": (lambda c: c.kill("1"), TypeError, "named by its number, from 1 on, not by '1'"),
    "no id": (lambda c: c.kill(None), TypeError, "not by None"),
    "two sides": (lambda c: c.partition([1], [1, 2]), ValueError, "broker 1 cannot be on two"),
    "one side": (lambda c: c.partition([1, 2]), ValueError, "two sides or more"),
    "empty side": (lambda c: c.partition([], [1]), ValueError, "a side has one broker or more"),
    "no side": (lambda c: c.partition(1, 2), TypeError, "a side is a list of brokers"),
    "itself": (lambda c: c.cut_one_way(1, 1), ValueError, "cut off from itself"),
    "delay": (lambda c: c.delay(-1), ValueError, "is not negative"),
    "factor": (lambda c: c.slow_disk(1, 0), ValueError, "is above 0, not 0"),
    "room": (lambda c: c.fill_disk(1, -1), ValueError, "is at least 0, not -1"),
    "syncs": (lambda c: c.fail_syncs(1, 1.5), TypeError, "is a whole number, not 1.5"),
    "no syncs": (lambda c: c.fail_syncs(1, 0), ValueError, "is at least 1, not 0"),
    "clock": (lambda c: c.jump_clock(1, "1"), TypeError, "by whole milliseconds, not by '1'"),
    "rate": (lambda c: c.set_clock_rate(1, -2), ValueError, "is not negative"),
    "time": (lambda c: c.run_for(-1), ValueError, "is not negative"),
    "partitions": (lambda c: c.create_topic("u", partitions=0), ValueError, "at least 1, not 0"),
    "replicas": (lambda c: c.create_topic("u", replicas=0), ValueError, "at least 1, not 0"),
    "nothing": (lambda c: c.produce("t"), ValueError, "nothing to produce"),
    "text": (lambda c: c.produce("t", "a"), TypeError, "a value is bytes, not 'a'"),
    "key": (lambda c: c.produce("t", b"a", key="k"), TypeError, "a key is bytes or None, not 'k'"),
    "offset": (lambda c: c.read("t", offset=-1), ValueError, "an offset is at least 0, not -1"),
    "timeout": (lambda c: c.read("t", timeout_ms=-1), ValueError, "is not negative"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_what_makes_no_sense_is_refused_in_a_sentence_and_nothing_happens(
    cluster: SimulatedCluster, name: str
) -> None:
    call, error, sentence = WRONG_CALLS[name]
    cluster.create_topic("t")
    before = cluster.digest()
    with pytest.raises(error, match=sentence):
        call(cluster)
    assert cluster.digest() == before


def test_the_only_broker_cannot_be_cut_off_and_a_cluster_may_be_a_block() -> None:
    with SimulatedCluster(brokers=1) as cluster:
        cluster.create_topic("t")
        assert cluster.produce("t", b"a") == 0
    with pytest.raises(ValueError, match="broker 1 is the only one"):
        cluster.isolate(1)


def test_an_unknown_topic_is_refused_at_once_and_may_come_to_be(cluster: SimulatedCluster) -> None:
    cluster.create_topic("other")
    begun_ms = cluster.now_ms
    for call in (lambda: cluster.read("t"), lambda: cluster.produce("t", b"a")):
        with pytest.raises(Refused, match="there is no topic 't'; there are: ") as raised:
            call()
        assert raised.value.code == "UNKNOWN_TOPIC_OR_PARTITION"
    with pytest.raises(Refused, match="the partitions of topic other are 0 to 0"):
        cluster.read("other", partition=1)
    assert cluster.now_ms - begun_ms < 1_000
    cluster.create_topic("t")
    assert cluster.produce("t", b"a") == 0


def test_what_is_unknown_is_said_by_brokers_that_can_know(cluster: SimulatedCluster) -> None:
    cluster.create_topic("unread")
    cluster.create_topic("t")
    cluster.produce("t", b"a")
    for broker in (1, 2, 3):
        cluster.kill(broker)
    for broker in (1, 2, 3):
        cluster.start(broker)
    # Nobody is ready when this is asked for.
    with pytest.raises(Refused, match="there is no topic 'new'"):
        cluster.produce("new", b"lost")
    cluster.create_topic("new")
    assert cluster.produce("new", b"b") == 0
    assert [each.value for each in cluster.read("t", count=1)] == [b"a"]
    cluster.kill(2)
    cluster.kill(3)
    cluster.lose_disk(1)
    cluster.start(1)
    cluster.run_for(100)
    with pytest.raises(TimedOut, match="brokers that do not run: 2, 3"):
        cluster.read("unread", timeout_ms=1_000)


def test_what_takes_too_long_says_why(cluster: SimulatedCluster) -> None:
    cluster.create_topic("t", configs={"min.insync.replicas": "3"})
    cluster.produce("t", b"a")
    with pytest.raises(TimedOut, match="within 500 ms: 1 of 2 messages are there"):
        cluster.read("t", count=2, timeout_ms=500)
    leader = cluster.leader("t") or 1
    follower = leader % 3 + 1
    cluster.kill(follower)
    with pytest.raises(TimedOut, match=f"NOT_ENOUGH_REPLICAS.*do not run: {follower}$"):
        cluster.produce("t", b"b")
    for broker in (1, 2, 3):
        cluster.kill(broker)
    with pytest.raises(TimedOut, match="does not answer; brokers that do not run: 1, 2, 3"):
        cluster.read("t", timeout_ms=500)


def test_a_message_as_large_as_a_topic_takes_goes_through(cluster: SimulatedCluster) -> None:
    cluster.create_topic("t")
    large = bytes(1_000_000)
    for _ in range(6):  # more than the write-ahead log has in one file
        cluster.produce("t", large)
    assert [len(each.value or b"") for each in cluster.read("t")] == [len(large)] * 6


def test_the_plugin_is_found_under_the_name_that_is_registered() -> None:
    import tomllib

    root = Path(__file__).resolve().parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"kafkaesque": "kafkaesque.testing.plugin"}
