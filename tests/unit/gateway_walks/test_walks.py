"""Random conversations of every protocol: the brokers live, and nothing is left of the clients."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.property.gateway_targets import EVERY_TARGET
from tests.unit.gateway_walks.ground import Ground
from tests.unit.gateway_walks.kinds import KINDS
from tests.unit.gateway_walks.walk import Walk, rest

WALKS, STEPS = 20, 8
#: Of the longer ones.
FURTHER_SEEDS, FURTHER_WALKS, FURTHER_STEPS = range(20), 25, (10, 30, 80)


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    made = Ground()
    yield made
    rest(made)


@pytest.mark.parametrize("kind", KINDS)
def test_what_clients_say_ends_no_broker(ground: Ground, kind: str) -> None:
    for seed in range(WALKS):
        Walk(ground, random.Random(f"{kind} {seed}"), [KINDS[kind]]).run(STEPS)


@pytest.mark.extended
@pytest.mark.parametrize("seed", FURTHER_SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_clients_say_ends_no_broker_in_long_walks(kind: str, seed: int) -> None:
    """Others meet them at the same queues and topics, and brokers are stopped and killed."""
    ground = Ground(seed, brokers=3 if seed % 3 == 2 else 1)
    others = [each for name, each in KINDS.items() if name != kind]
    for number in range(FURTHER_WALKS):
        dice = random.Random(f"{kind} {seed} {number}")
        kinds = [KINDS[kind], KINDS[kind], *others]
        Walk(ground, dice, kinds, with_stops=number % 5 == 4).run(dice.choice(FURTHER_STEPS))
    rest(ground)


def test_a_fuzzer_chooses_what_is_said() -> None:
    """What `scripts/fuzz` runs, on bytes of its own kind."""
    for kind in KINDS:
        target = EVERY_TARGET[f"{kind}-gateway"]
        for data in (b"", *target.seeds()[:1]):
            target.run(data)
