"""InitProducerId: an identity for producers whose repeated batches are told apart."""

from typing import TYPE_CHECKING

from kafkaesque.gateway.kafka.call import Call
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from kafkaesque.gateway.kafka.gateway import KafkaGateway

_FIRST_EPOCH = 0
_NO_EPOCH = -1


def on_init_producer_id(gateway: "KafkaGateway", call: Call) -> None:
    """Give the producer an id that no other has; an idempotent one gets a new id each time."""
    request: InitProducerIdRequest = call.read()
    refusal = _refusal(request)
    if refusal is not None:
        call.answer(_failed(refusal))
        return

    def on_done(outcome: int | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            # What clients repeat; any other error ends an idempotent producer.
            response = _failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            response = InitProducerIdResponse(producer_id=outcome, producer_epoch=_FIRST_EPOCH)
        call.answer(response)

    gateway.broker.producer_ids.allocate(on_done)


def _failed(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=_NO_EPOCH)


def _refusal(request: InitProducerIdRequest) -> ErrorCode | None:
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    # Transactions are not available: an error that clients report at once and do not repeat.
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
