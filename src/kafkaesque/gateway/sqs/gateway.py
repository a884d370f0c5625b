"""The port for Amazon SQS: finds out who asks for what, and has it done."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kafkaesque.access.principals import user_name
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import SQS, Listener, names_of
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.chassis.logins import LOGIN_BYTES_MAX
from kafkaesque.chassis.request_login import RequestLogins
from kafkaesque.chassis.rights import Rights, check_rows
from kafkaesque.env.network import Address
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.gateway.sqs.authorization import ROWS, check_rights
from kafkaesque.gateway.sqs.call import Call, error_of
from kafkaesque.gateway.sqs.changing import Changing
from kafkaesque.gateway.sqs.connection import BODY_BYTES_MAX, REQUEST_ID_BYTES, SqsConnection
from kafkaesque.gateway.sqs.finding import QueueFinder
from kafkaesque.gateway.sqs.managing import Managing
from kafkaesque.gateway.sqs.move_tasks import MoveTasks
from kafkaesque.gateway.sqs.permissions import Permissions
from kafkaesque.gateway.sqs.receiving import Receiving
from kafkaesque.gateway.sqs.sending import Sending
from kafkaesque.gateway.sqs.settling import Settling
from kafkaesque.gateway.sqs.signing import Signing
from kafkaesque.gateway.sqs.tags import Tags
from kafkaesque.model.errors import ConfigError, InvariantBroken, RequestRefused
from kafkaesque.protocols.sqs.calls import (
    HttpRequest,
    is_json,
    read_call,
    write_answer,
    write_error,
)
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.service import OPERATIONS
from kafkaesque.protocols.sqs.shapes import Operation, Shape

#: Long polls hold a connection each.
CONNECTIONS_MAX: Final = 20_000

#: Does what a call asks for; ends it once, now or later.
Handler = Callable[[Call[Any]], None]


class SqsGateway(Gateway):
    """One broker's ports for SQS."""

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        check_rows(ROWS, OPERATIONS)
        self._dice = doors.dice
        self._configuration = doors.configuration
        finder = QueueFinder(doors)
        self._handlers = _handlers(doors, finder)
        without = OPERATIONS.keys() - self._handlers.keys()
        if without:
            raise InvariantBroken(f"nobody does {sorted(without)}")
        if chassis.logins is None:
            raise InvariantBroken("nobody checks who asks for queues")
        self._signing: Final = Signing(
            doors.access, RequestLogins(chassis.logins, doors.clock), doors.clock, self._names
        )
        self._failures = ReportLimit(chassis.report, doors.clock.call_later)

    def start(self, listener: Listener) -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = replace(PortOptions.of(listener), connections_max=CONNECTIONS_MAX)
        return self.listen(listener.address, options, partial(SqsConnection, self))

    def new_request_id(self) -> str:
        """See `Desk`."""
        text = self._dice.unique_bytes(REQUEST_ID_BYTES).hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def body_bytes_max(self, caller: SqsConnection, head: HttpRequest) -> int:
        """See `Desk`; strangers may not send much."""
        return BODY_BYTES_MAX if self._signing.is_known(caller, head) else LOGIN_BYTES_MAX

    def handle(self, caller: SqsConnection, request: HttpRequest) -> None:
        """See `Desk`."""
        answers = _Answers(self, caller, is_as_json=is_json(request.headers))
        self._signing.identify(
            caller,
            request,
            lambda rights: self._do(caller, request, answers, rights),
            answers.answer,
        )

    def _names(self) -> set[str]:
        return names_of(self._configuration.file.listeners, SQS)

    def _do(
        self,
        caller: SqsConnection,
        request: HttpRequest,
        answers: "_Answers",
        rights: Rights | None,
    ) -> None:
        try:
            answers.operation, asked = read_call(request)
            check_rights(rights, answers.operation.name, asked)
            call: Call[Any] = Call(
                operation=answers.operation,
                request=asked,
                rights=rights,
                user="" if rights is None else user_name(rights.principal) or "",
                base_url=caller.base_url,
                answers=answers,
            )
            self._handlers[answers.operation.name](call)
        except SqsError as error:
            answers.answer(error)
        except (RequestRefused, ConfigError) as refusal:
            answers.answer(error_of(refusal))
        except Exception as error:
            # A defect of ours, and the broker goes on.
            answers.fail(error)

    def report(self, error: Exception) -> None:
        """Tell of a defect of ours."""
        self._failures.say(f"a request for SQS could not be answered: {error!r}")


class _Answers:
    """Where the answer to one request goes."""

    __slots__ = ("_caller", "_desk", "_is_as_json", "_is_done", "operation")

    def __init__(self, desk: SqsGateway, caller: SqsConnection, *, is_as_json: bool) -> None:
        self._desk = desk
        self._caller = caller
        self._is_as_json = is_as_json
        self._is_done = False
        self.operation: Operation | None = None

    @property
    def is_wanted(self) -> bool:
        """See `Answers`."""
        return self._caller.is_open and not self._is_done

    def fail(self, error: Exception) -> None:
        """See `Answers`."""
        self._desk.report(error)
        self.answer(SqsError("InternalFailure", "It could not be done: see the log."))

    def answer(self, outcome: Shape | SqsError | None) -> None:
        """See `Answers`."""
        if self._is_done:
            return
        self._is_done = True
        request_id = self._desk.new_request_id()
        if isinstance(outcome, SqsError):
            said = write_error(outcome, request_id, as_json=self._is_as_json)
        elif self.operation is None:
            raise InvariantBroken("a result of no operation")
        else:
            said = write_answer(self.operation, outcome, request_id, as_json=self._is_as_json)
        self._caller.answer(said)


def _handlers(doors: Doors, finder: QueueFinder) -> Mapping[str, Handler]:
    sending, receiving = Sending(doors, finder), Receiving(doors, finder)
    settling, changing = Settling(doors, finder), Changing(doors)
    managing = Managing(doors, finder, changing)
    tags, permissions = Tags(changing, finder), Permissions(changing, finder)
    tasks = MoveTasks(doors, finder)
    return {
        "AddPermission": permissions.add,
        "CancelMessageMoveTask": tasks.cancel,
        "ChangeMessageVisibility": settling.change,
        "ChangeMessageVisibilityBatch": settling.change_batch,
        "CreateQueue": managing.create,
        "DeleteMessage": settling.delete,
        "DeleteMessageBatch": settling.delete_batch,
        "DeleteQueue": managing.delete,
        "GetQueueAttributes": managing.get_attributes,
        "GetQueueUrl": managing.get_url,
        "ListDeadLetterSourceQueues": managing.list_sources,
        "ListMessageMoveTasks": tasks.list_tasks,
        "ListQueueTags": tags.list_tags,
        "ListQueues": managing.list_queues,
        "PurgeQueue": managing.purge,
        "ReceiveMessage": receiving.receive,
        "RemovePermission": permissions.remove,
        "SendMessage": sending.send,
        "SendMessageBatch": sending.send_batch,
        "SetQueueAttributes": managing.set_attributes,
        "StartMessageMoveTask": tasks.start,
        "TagQueue": tags.tag,
        "UntagQueue": tags.untag,
    }
