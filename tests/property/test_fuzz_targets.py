"""What reads bytes of strangers, given beginnings that are cut and changed, and old findings."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.property.fuzz_targets import TARGETS
from tests.property.gateway_targets import EVERY_TARGET

#: target, hexadecimal bytes, and what they did.
FINDINGS = Path(__file__).with_name("fuzz_findings.txt")
CHANGES = 150
CUTS_MAX = 60


def findings() -> list[tuple[str, bytes]]:
    lines = [
        line.split("|")
        for line in FINDINGS.read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return [(name.strip(), bytes.fromhex(raw)) for name, raw, _ in lines]


@pytest.mark.parametrize("name", TARGETS)
def test_what_begins_well_and_is_cut_or_changed(name: str) -> None:
    target, dice = TARGETS[name], random.Random(name)
    seeds = [*target.seeds(), b""]
    for seed in seeds:
        target.run(seed)
    for seed in dice.sample(seeds, min(5, len(seeds))):
        for cut in range(0, len(seed), 1 + len(seed) // CUTS_MAX):
            target.run(seed[:cut])
    for _ in range(CHANGES):
        data = bytearray(dice.choice(seeds))
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(data) + 1)
            data[at : at + dice.randint(0, 3)] = dice.randbytes(dice.randint(0, 4))
        target.run(bytes(data))


@pytest.mark.parametrize(("name", "data"), findings())
def test_what_was_found_is_refused(name: str, data: bytes) -> None:
    EVERY_TARGET[name].run(data)


def test_whoever_nests_without_end_is_refused() -> None:
    nested = (b"[" * 100_000, b'{"a":' * 50_000, b"(" * 50_000, b"NOT " * 50_000)
    for target in TARGETS.values():
        for data in nested:
            target.run(data)
            target.run(b"Policy=" + data)
            target.run(b'\x01/\n{"QueueUrl":"u","x":' + data)
            target.run(b'PUBS t {"Body":' + data)
