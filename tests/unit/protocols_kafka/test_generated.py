"""What is generated is what the schema says, and its classes behave."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from kafkaesque.protocols.kafka.api import OWN_FIRST
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.fetch_response import LeaderIdAndEpoch, PartitionData
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)

GENERATOR = Path(__file__).resolve().parents[3] / "codegen" / "generate.py"


def test_generated_files_are_what_the_schema_says() -> None:
    command = [sys.executable, str(GENERATOR), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_error_codes_are_those_of_kafka() -> None:
    ours = {code.name: (int(code), code.retriable) for code in ErrorCode if code < OWN_FIRST}
    assert ours == {code.name.upper(): (int(code), code.retriable) for code in KioErrorCode}


def test_messages_are_compared_by_value() -> None:
    one = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert one == MetadataRequest(topics=(MetadataRequestTopic(name="t"),))
    assert one != MetadataRequest(topics=[MetadataRequestTopic(name="u")])
    assert one != MetadataRequestTopic(name="t")
    assert PartitionData(records=memoryview(b"abc")) == PartitionData(records=b"abc")


def test_messages_are_not_hashed() -> None:
    with pytest.raises(TypeError):
        hash(MetadataRequest())


def test_messages_say_what_they_hold() -> None:
    assert repr(LeaderIdAndEpoch(1, 2)) == "LeaderIdAndEpoch(leader_id=1, leader_epoch=2)"
    assert "records=b'abc'" in repr(PartitionData(records=memoryview(b"abc")))


def test_messages_have_no_dictionary() -> None:
    assert not hasattr(MetadataRequest(), "__dict__")
