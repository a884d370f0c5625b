"""UnregisterBroker and UpdateFeatures: which brokers there are, and what they may use."""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.broker.requests.commands import ControllerResult, RaiseFeature, RemoveBroker
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
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

#: The request names no time limit.
TIMEOUT_MS = 30_000


def on_unregister_broker(context: Context, call: Call) -> None:
    """Take a broker out that holds nothing and is stopped."""
    request: UnregisterBrokerRequest = call.read()

    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        answer = UnregisterBrokerResponse(error_message=None)
        if isinstance(outcome, RequestRefused):
            answer.error_code, answer.error_message = code_of(outcome), message_of(outcome)
        call.answer(answer)

    command = call.on_behalf(RemoveBroker(node=request.broker_id))
    context.doors.cluster.submit(command, TIMEOUT_MS, on_outcome)


#: From this version on, a success is told once and not for each feature.
_VERSION_WITH_ONE_RESULT = 2


def on_update_features(context: Context, call: Call) -> None:
    """Raise levels: all that are named, or none.

    As in Kafka 4, the first one that cannot be raised is the error of the whole request.
    """
    request: UpdateFeaturesRequest = call.read()
    updates = request.feature_updates
    refusals: list[RequestRefused] = []
    pieces: list[Piece] = []
    if not request.validate_only and len(updates) > 1:
        pieces += [
            _update(context, call, request, each, refusals, is_trial=True) for each in updates
        ]
    pieces += [
        _update(context, call, request, each, refusals, is_trial=request.validate_only)
        for each in updates
    ]

    def answer() -> None:
        message = UpdateFeaturesResponse(error_message=None, results=[])
        if refusals:
            message.error_code = code_of(refusals[0])
            message.error_message = message_of(refusals[0])
        elif call.version < _VERSION_WITH_ONE_RESULT:
            message.results = [UpdatableFeatureResult(each.feature, 0, None) for each in updates]
        call.answer(message)

    # One after the other: nothing is raised before all were tried.
    Queue(context.clock, pieces, answer, under_way_max=1).start()


def _update(
    context: Context,
    call: Call,
    request: UpdateFeaturesRequest,
    update: FeatureUpdateKey,
    refusals: list[RequestRefused],
    *,
    is_trial: bool,
) -> Piece:
    """Return the piece that raises one level, or tries to; it does nothing after a refusal."""

    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            refusals.append(outcome)

    command = RaiseFeature(
        name=update.feature, level=update.max_version_level, validate_only=is_trial
    )
    timeout_ms = max(0, min(request.timeout_ms, TIMEOUT_MS_MAX))
    piece = command_piece(context.doors, call.on_behalf(command), timeout_ms, on_outcome)

    def run(on_done: Callable[[], None]) -> None:
        if refusals:
            on_done()
        else:
            piece(on_done)

    return run
