"""Every message in every version, byte for byte against kio, the independent implementation."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from kafkaesque.protocols.kafka import messages
from tests.property.kafka_oracle import MODULES, kio_bytes, samples, to_ours

SAMPLES = 6


def load(module: str) -> Any:
    return importlib.import_module(f"{messages.__name__}.{module}")


@pytest.mark.parametrize("module", MODULES)
def test_reads_and_writes_what_kio_writes(module: str) -> None:
    ours = load(module)
    assert list(ours.READ) == list(ours.WRITE)
    for version in ours.READ:
        for entity in samples(module, version, SAMPLES):
            encoded = kio_bytes(entity)
            message = ours.READ[version](memoryview(encoded))
            assert message == to_ours(entity, ours)
            parts: list[Any] = []
            ours.WRITE[version](message, parts)
            assert b"".join(parts) == encoded
