"""Names of headers that are not the publisher's."""

from __future__ import annotations

from pathlib import Path

from kafkaesque.model import message_headers
from kafkaesque.model.message_headers import OF_GATEWAYS

SOURCES = Path(message_headers.__file__).parents[1]


def test_headers_of_gateways_are_named_in_one_place() -> None:
    assert "amqp.message" in OF_GATEWAYS
    own = Path(message_headers.__file__)
    for path in SOURCES.rglob("*.py"):
        if path != own:
            text = path.read_text()
            assert not [each for each in OF_GATEWAYS if f'"{each}"' in text], path
