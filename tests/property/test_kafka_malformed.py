"""Whatever a peer sends, a reader returns a message or raises MalformedRequest, nothing else."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.kafka import messages
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.wire import Message
from tests.property.kafka_oracle import MODULES, kio_bytes, samples

#: Messages of more bytes than this are cut at every second, third ... byte.
CUTS_MAX = 4000

#: A tag section with one field that nobody knows: tag 99, three bytes.
UNKNOWN_TAG = b"\x01\x63\x03abc"

#: What stands where a length or a count stood: the largest and smallest of every width, varints
#: that are null, too long, and endless.
HOSTILE = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xfe",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x00",
    b"\x00",
    b"\xc3",
)


def load(module: str) -> Any:
    return importlib.import_module(f"{messages.__name__}.{module}")


def layouts(module: str) -> dict[int, Any]:
    """Returns one version and reader for each layout: aliases of a reader are left out."""
    readers = load(module).READ
    return {v: read for v, read in readers.items() if readers.get(v - 1) is not read}


def outcome(reader: Any, data: bytes) -> Any:
    """Returns the message, or None if it was refused as it must be."""
    try:
        return reader(memoryview(data))
    except MalformedRequest:
        return None


def count_structs(message: Any) -> int:
    """Returns how many structs a message is made of, itself included."""
    if isinstance(message, Message):
        return 1 + sum(count_structs(getattr(message, name)) for name in message.__slots__)
    return sum(map(count_structs, message)) if isinstance(message, list) else 0


@pytest.mark.parametrize("module", MODULES)
def test_cut_at_every_byte_is_refused_and_so_is_more_than_a_response(module: str) -> None:
    # Clients leave bytes behind their requests, and members of a group may speak a newer version.
    longer_is_fine = not module.endswith("_response")
    for version, reader in layouts(module).items():
        for entity in samples(module, version, 2):
            data = kio_bytes(entity)
            assert (outcome(reader, data + b"\0") is not None) is longer_is_fine
            step = 1 + len(data) // CUTS_MAX
            for cut in range(0, len(data), step):
                assert outcome(reader, data[:cut]) is None, (version, cut)


@pytest.mark.parametrize("module", MODULES)
def test_hostile_lengths_everywhere_raise_nothing_else(module: str) -> None:
    for version, reader in layouts(module).items():
        (entity,) = samples(module, version, 1)
        data = kio_bytes(entity)[:400]
        for at in range(len(data)):
            for hostile in HOSTILE:
                outcome(reader, data[:at] + hostile + data[at + len(hostile) :])


@pytest.mark.parametrize("module", MODULES)
def test_random_mutations_raise_nothing_else(module: str) -> None:
    for version, reader in layouts(module).items():
        dice = random.Random(f"mutations {module} {version}")
        for entity in samples(module, version, 3):
            data = kio_bytes(entity)
            for _ in range(40):
                mutated = bytearray(data)
                for _ in range(dice.randint(1, 4)):
                    at = dice.randrange(len(mutated) + 1)
                    mutated[at : at + dice.randint(0, 3)] = dice.randbytes(dice.randint(0, 5))
                outcome(reader, bytes(mutated))


@given(st.sampled_from(MODULES), st.binary(max_size=200), st.data())
def test_random_bytes_raise_nothing_else(module: str, noise: bytes, data: st.DataObject) -> None:
    reader = data.draw(st.sampled_from(list(load(module).READ.values())))
    outcome(reader, noise)


@pytest.mark.parametrize("module", MODULES)
def test_unknown_tagged_fields_are_skipped_in_every_struct(module: str) -> None:
    """Puts a tag section in place of each zero byte: in place of each empty section, it is skipped.

    Every struct ends with such a section, so at least as many places as there are structs must
    give the same message as before.
    """
    for version, reader in layouts(module).items():
        (entity,) = samples(module, version, 1, tagged=False)
        if not entity.__flexible__:
            continue
        data = kio_bytes(entity)
        message = reader(memoryview(data))
        same = sum(
            outcome(reader, data[:at] + UNKNOWN_TAG + data[at + 1 :]) == message
            for at in range(len(data))
            if data[at] == 0
        )
        assert same == count_structs(message)


@pytest.mark.parametrize("module", MODULES)
def test_only_minus_one_is_null(module: str) -> None:
    """A length of -2 where -1 stood gives another message or none, never the same one."""
    for version, reader in layouts(module).items():
        for entity in samples(module, version, 4):
            data = kio_bytes(entity)
            message = reader(memoryview(data))
            for null in (b"\xff\xff\xff\xff", b"\xff\xff"):
                at = data.find(null)
                while at >= 0:
                    end = at + len(null)
                    assert outcome(reader, data[: end - 1] + b"\xfe" + data[end:]) != message
                    at = data.find(null, at + 1)
