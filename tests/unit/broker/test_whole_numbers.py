"""Messages of a queue of several partitions: their numbers, and where they go."""

from kafkaesque.broker.options.queues import PARTITIONS_MAX
from kafkaesque.broker.queues.whole_numbers import (
    claims_by_partition,
    part_of,
    partition_for,
    shares_of,
    whole_claim,
    whole_number,
)
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.records import Record
from kafkaesque.queues.arrival import headers_of
from kafkaesque.queues.requests import Claim


def test_a_number_says_the_partition_and_the_offset() -> None:
    assert whole_number(0, 17) == 17
    for partition in (0, 1, PARTITIONS_MAX - 1):
        assert part_of(whole_number(partition, 123_456)) == (partition, 123_456)
    assert whole_number(PARTITIONS_MAX - 1, 2**47 - 1) < 2**53


def test_claims_go_to_their_partitions_and_back() -> None:
    parts = {0: [Claim(3, 5, 1), Claim(9, 10, 2)], 2: [Claim(3, 8, 1)]}
    whole = [whole_claim(number, each) for number, some in parts.items() for each in some]
    assert claims_by_partition(whole) == parts


def test_a_group_and_an_id_are_always_in_the_same_partition() -> None:
    for number in range(50):
        group = headers_of(group=b"g%d" % number)
        identity = headers_of(identity=b"%016d" % number)
        assert partition_for(group, 3, 0) == partition_for(group, 3, 1)
        assert partition_for(identity, 3, 0) == partition_for(identity, 3, 1)
        both = headers_of(group=b"g%d" % number, identity=b"%016d" % (number + 7))
        assert partition_for(both, 3, 0) == partition_for(group, 3, 0)
    assert [partition_for((), 3, each) for each in range(3)] == [0, 1, 2]
    said = [headers_of(group=b"g%d" % number) for number in range(50)]
    assert {partition_for(each, 3, 0) for each in said} == {0, 1, 2}
    said = [headers_of(identity=b"%016d" % number) for number in range(50)]
    assert {partition_for(each, 3, 0) for each in said} == {0, 1, 2}


def batch(*headers: Headers) -> bytes:
    records = [Record(at, 0, None, b"%d" % at, each) for at, each in enumerate(headers)]
    return bytes(encode_batch(records))


def test_a_plain_batch_stays_whole() -> None:
    assert shares_of(batch((), ((("a"), b"b"),)), 3, 1) == {}


def test_what_the_leader_refuses_comes_to_it_as_it_is() -> None:
    groups = [headers_of(group=b"g%d" % number) for number in range(5)]
    records = [Record(at, 0, None, b"v", each) for at, each in enumerate(groups)]
    numbered = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=0)
    assert shares_of(bytes(encode_batch(records, numbered)), 3, 1) == {}


def test_groups_of_a_batch_are_spread_in_their_order() -> None:
    groups = [headers_of(group=b"g%d" % (number % 5)) for number in range(20)]
    shares = shares_of(batch(*groups, ()), 3, 1)
    places = [place for share in shares.values() for place in share.places]
    assert sorted(places) == list(range(21))
    for number, share in shares.items():
        assert list(share.places) == sorted(share.places)
        assert [each.value for each in share.records] == [b"%d" % at for at in share.places]
        assert [each.offset for each in share.records] == list(range(len(share.places)))
        for place in share.places:
            headers = groups[place] if place < 20 else ()
            assert partition_for(headers, 3, 1) == number
