"""UpdateFeatures: all levels are raised or none, and one error says why, as in Apache Kafka 4."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.features import KNOWN, METADATA
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.update_features_request import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from kafkaesque.protocols.kafka.messages.update_features_response import UpdateFeaturesResponse
from tests.unit.gateway_kafka.live import LiveCluster, versions_of

VERSIONS = versions_of(ApiKey.UPDATE_FEATURES)
HIGHEST = KNOWN[METADATA][1]


def update(
    live: LiveCluster, version: int, *levels: tuple[str, int], validate_only: bool = False
) -> UpdateFeaturesResponse:
    updates = [FeatureUpdateKey(feature=name, max_version_level=level) for name, level in levels]
    request = UpdateFeaturesRequest(feature_updates=updates, timeout_ms=5000)
    if version >= 1:
        request.validate_only = validate_only
    answer = live.ask(request, version)
    assert isinstance(answer, UpdateFeaturesResponse)
    return answer


@pytest.fixture
def lowered(live: LiveCluster) -> LiveCluster:
    """A cluster at the lowest level, as one of an earlier release is."""
    live.broker.state.features[METADATA] = 1
    return live


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([("quantum.version", 1)], "there is no feature 'quantum.version'"),
        ([("quantum.version", 0)], "there is no feature 'quantum.version'"),
        ([(METADATA, HIGHEST + 1)], "supports levels"),
        ([(METADATA, 0)], "does not go back to 0"),
        ([(METADATA, HIGHEST), ("quantum.version", 1)], "there is no feature 'quantum.version'"),
    ],
    ids=["unknown", "unknown, taken away", "too high", "too low", "one of two"],
)
def test_what_cannot_be_raised_is_the_error_of_the_whole_request(
    lowered: LiveCluster, version: int, levels: list[tuple[str, int]], words: str
) -> None:
    answer = update(lowered, version, *levels)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert words in (answer.error_message or "")
    assert list(answer.results) == []
    assert lowered.broker.state.level(METADATA) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_level_is_raised(lowered: LiveCluster, version: int) -> None:
    if version >= 1:
        assert update(lowered, version, (METADATA, 2), validate_only=True).error_code == 0
        assert lowered.broker.state.level(METADATA) == 1
    answer = update(lowered, version, (METADATA, 2))
    assert (answer.error_code, answer.error_message) == (0, None)
    told = [(each.feature, each.error_code) for each in answer.results]
    assert told == ([(METADATA, 0)] if version < 2 else [])
    assert lowered.broker.state.level(METADATA) == 2
