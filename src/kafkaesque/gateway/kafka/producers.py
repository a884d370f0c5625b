"""InitProducerId: an identity for producers whose repeated batches are told apart."""

from __future__ import annotations

from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of_transaction_error
from kafkaesque.gateway.kafka.transactions import error_of
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_response import InitProducerIdResponse
from kafkaesque.transactions import events
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.results import InitResult

_FIRST_EPOCH = 0
_NO_EPOCH = -1
#: From this version on, a fenced producer is told so by that name (KIP-588).
_INIT_WITH_FENCED = 4


def on_init_producer_id(context: Context, call: Call) -> None:
    """Give the producer an id that no other has.

    An idempotent one gets a new id each time; one with a transactional id gets what belongs to
    that, with an epoch that shuts out whoever had it before.
    """
    request: InitProducerIdRequest = call.read()
    if _is_wrong(request):
        call.answer(_failed(ErrorCode.INVALID_REQUEST))
    elif request.transactional_id is None:
        _allocate(context, call)
    else:
        _begin(context, call, request, request.transactional_id)


def _is_wrong(request: InitProducerIdRequest) -> bool:
    is_half_known = (request.producer_id < 0) != (request.producer_epoch < 0)
    return is_half_known or request.transactional_id == ""


def _failed(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=_NO_EPOCH)


def _allocate(context: Context, call: Call) -> None:
    def on_done(outcome: int | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            # What clients repeat; any other error ends an idempotent producer.
            response = _failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            call.is_in_vain = context.doors.cluster.is_cut_off()
        else:
            response = InitProducerIdResponse(producer_id=outcome, producer_epoch=_FIRST_EPOCH)
        call.answer(response)

    context.doors.transactions.new_producer_id(on_done)


def _begin(
    context: Context, call: Call, request: InitProducerIdRequest, transactional_id: str
) -> None:
    coordinators = context.doors.transactions
    event = events.InitProducerId(
        token=coordinators.next_token(),
        connection=call.connection.number,
        transactional_id=transactional_id,
        timeout_ms=request.transaction_timeout_ms,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )

    def on_result(result: object) -> None:
        if not isinstance(result, InitResult):
            result = InitResult(error=error_of(result))
        if result.error is not TransactionError.NONE:
            is_fenced_known = call.version >= _INIT_WITH_FENCED
            code = code_of_transaction_error(result.error, is_fenced_known=is_fenced_known)
            call.answer(_failed(code))
            return
        call.answer(
            InitProducerIdResponse(
                producer_id=result.producer_id, producer_epoch=result.producer_epoch
            )
        )

    coordinators.step(transactional_id, event, on_result)
