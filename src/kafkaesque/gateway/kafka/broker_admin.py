"""UnregisterBroker and UpdateFeatures: which brokers there are, and what they may use."""

from typing import TYPE_CHECKING

from kafkaesque.broker.commands import ControllerResult, RaiseFeature, RemoveBroker
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.topic_admin import TIMEOUT_MS_MAX, Piece, command_piece
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.kafka.messages.unregister_broker_request import UnregisterBrokerRequest
from kafkaesque.protocols.kafka.messages.unregister_broker_response import UnregisterBrokerResponse
from kafkaesque.protocols.kafka.messages.update_features_request import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from kafkaesque.protocols.kafka.messages.update_features_response import (
    UpdatableFeatureResult,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from kafkaesque.gateway.kafka.gateway import KafkaGateway

#: The request names no time limit.
TIMEOUT_MS = 30_000


def on_unregister_broker(gateway: "KafkaGateway", call: Call) -> None:
    """Take a broker out that holds nothing and is stopped."""
    request: UnregisterBrokerRequest = call.read()

    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        answer = UnregisterBrokerResponse(error_message=None)
        if isinstance(outcome, RequestRefused):
            answer.error_code, answer.error_message = code_of(outcome), message_of(outcome)
        call.answer(answer)

    gateway.broker.submit(RemoveBroker(node=request.broker_id), TIMEOUT_MS, on_outcome)


_VERSION_WITH_ONE_RESULT = 2


def on_update_features(gateway: "KafkaGateway", call: Call) -> None:
    """Raise levels, each by itself; none goes back."""
    request: UpdateFeaturesRequest = call.read()
    results: list[UpdatableFeatureResult] = []
    pieces: list[Piece] = []
    for update in request.feature_updates:
        result = UpdatableFeatureResult(update.feature, 0, None)
        results.append(result)
        pieces.append(_update(gateway, request, update, result))

    def answer() -> None:
        message = UpdateFeaturesResponse(error_message=None, results=results)
        if call.version >= _VERSION_WITH_ONE_RESULT:
            failed = next((each for each in results if each.error_code), None)
            message.results = []
            if failed is not None:
                message.error_code = failed.error_code
                message.error_message = failed.error_message
        call.answer(message)

    Queue(gateway.clock, pieces, answer).start()


def _update(
    gateway: "KafkaGateway",
    request: UpdateFeaturesRequest,
    update: FeatureUpdateKey,
    result: UpdatableFeatureResult,
) -> Piece:
    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            result.error_code, result.error_message = code_of(outcome), message_of(outcome)

    command = RaiseFeature(
        name=update.feature,
        level=update.max_version_level,
        validate_only=request.validate_only,
    )
    timeout_ms = max(0, min(request.timeout_ms, TIMEOUT_MS_MAX))
    return command_piece(gateway.broker, command, timeout_ms, on_outcome)
