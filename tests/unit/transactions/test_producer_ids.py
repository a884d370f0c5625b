"""Producer ids: unique, asked for in time, bounded."""

import pytest

from kafkaesque.model.errors import ConfigError, InvariantBroken
from kafkaesque.transactions.producer_ids import (
    PRODUCER_ID_MAX,
    AskBlock,
    GiveId,
    IdToken,
    ProducerIdBlock,
    ProducerIdConfig,
    ProducerIdPool,
    RefuseId,
)

SMALL = ProducerIdConfig(block_ids=10, refill_ids=2, waiting_max=3)


def ask(pool: ProducerIdPool, *tokens: int) -> list[object]:
    for token in tokens:
        pool.request(IdToken(token))
    return list(pool.take_ready())


def test_the_first_request_asks_for_a_block_and_waits() -> None:
    pool = ProducerIdPool(SMALL)
    assert ask(pool, 1) == [AskBlock(10)]
    assert ask(pool, 2) == []
    pool.on_block(ProducerIdBlock(500, 10))
    assert pool.take_ready() == [GiveId(IdToken(1), 500), GiveId(IdToken(2), 501)]
    assert pool.ids_left == 8


def test_the_next_block_is_asked_for_before_this_one_runs_out() -> None:
    pool = ProducerIdPool(SMALL)
    ask(pool, 1)
    pool.on_block(ProducerIdBlock(0, 10))
    pool.take_ready()
    assert AskBlock(10) not in ask(pool, *range(2, 8))
    assert ask(pool, 8) == [GiveId(IdToken(8), 7), AskBlock(10)]
    assert ask(pool, 9) == [GiveId(IdToken(9), 8)]
    pool.on_block(ProducerIdBlock(70, 10))
    assert ask(pool, 10, 11) == [GiveId(IdToken(10), 9), GiveId(IdToken(11), 70)]


def test_who_waits_in_vain_is_refused_and_the_next_one_asks_again() -> None:
    pool = ProducerIdPool(SMALL)
    ask(pool, 1, 2)
    pool.on_block_failed()
    assert pool.take_ready() == [RefuseId(IdToken(1)), RefuseId(IdToken(2))]
    assert ask(pool, 3) == [AskBlock(10)]


def test_waiting_is_bounded() -> None:
    pool = ProducerIdPool(SMALL)
    assert ask(pool, 1, 2, 3, 4) == [AskBlock(10), RefuseId(IdToken(4))]


def test_a_block_that_is_smaller_than_the_queue_asks_again() -> None:
    pool = ProducerIdPool(SMALL)
    ask(pool, 1, 2, 3)
    pool.on_block(ProducerIdBlock(0, 2))
    assert pool.take_ready() == [
        GiveId(IdToken(1), 0),
        GiveId(IdToken(2), 1),
        AskBlock(10),
    ]


@pytest.mark.parametrize(
    "block",
    [ProducerIdBlock(9, 10), ProducerIdBlock(20, 0), ProducerIdBlock(PRODUCER_ID_MAX, 2)],
)
def test_a_block_that_was_given_before_or_cannot_be_is_our_own_mistake(
    block: ProducerIdBlock,
) -> None:
    pool = ProducerIdPool(SMALL)
    ask(pool, 1)
    pool.on_block(ProducerIdBlock(0, 10))
    ask(pool, *range(2, 12))
    with pytest.raises(InvariantBroken):
        pool.on_block(block)


def test_a_block_that_was_not_asked_for_is_our_own_mistake() -> None:
    with pytest.raises(InvariantBroken):
        ProducerIdPool(SMALL).on_block(ProducerIdBlock(0, 10))


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError):
        ProducerIdConfig(block_ids=10, refill_ids=10)
