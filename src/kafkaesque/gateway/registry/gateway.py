"""The registry's port: finds out who asks for what, and has it answered."""

from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import REGISTRY, AccessMode, Listener, names_of
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.chassis.logins import LOGIN_BYTES_MAX
from kafkaesque.chassis.request_login import RequestLogins
from kafkaesque.chassis.rights import Rights
from kafkaesque.env.network import Address
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.gateway.registry.calls import Call, PlainText
from kafkaesque.gateway.registry.changing import Changing
from kafkaesque.gateway.registry.connection import (
    BODY_BYTES_MAX,
    CONTENT_TYPE,
    HttpRequest,
    RegistryConnection,
    headers_of,
)
from kafkaesque.gateway.registry.errors import body_of, code_of
from kafkaesque.gateway.registry.reading import Reading
from kafkaesque.gateway.registry.routes import Reader, check_rights, find_route, make_routes
from kafkaesque.gateway.registry.visitors import Visitors
from kafkaesque.model.errors import InvariantBroken, RequestRefused

CONNECTIONS_MAX: Final = 5_000
_PLAIN: Final = "text/plain; charset=utf-8"


class RegistryGateway(Gateway):
    """One broker's ports for schemas."""

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        if chassis.logins is None:
            raise InvariantBroken("nobody checks who asks for schemas")
        self._configuration = doors.configuration
        self._schemas: Final = doors.schemas
        reading = Reading(doors.schemas, doors.cluster.cluster_id)
        self._routes: Final = make_routes(reading, Changing(doors.schemas, self._report))
        logins = RequestLogins(chassis.logins, doors.clock)
        self._visitors: Final = Visitors(doors.access, logins, self._names)
        self._failures = ReportLimit(chassis.report, doors.clock.call_later)

    def start(self, listener: Listener) -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = replace(PortOptions.of(listener), connections_max=CONNECTIONS_MAX)
        return self.listen(listener.address, options, partial(RegistryConnection, self))

    def _names(self) -> set[str]:
        return names_of(self._configuration.file.listeners, REGISTRY)

    def body_bytes_max(self, caller: RegistryConnection, head: HttpRequest) -> int:
        """See `Desk`; strangers may not send much."""
        is_stranger = (
            caller.shared.options.access is AccessMode.REQUIRED
            and caller.login is None
            and "authorization" not in head.headers
        )
        return LOGIN_BYTES_MAX if is_stranger else BODY_BYTES_MAX

    def handle(self, caller: RegistryConnection, request: HttpRequest, body: bytes) -> None:
        """See `Desk`."""
        answers = _Answers(caller)
        self._visitors.identify(
            caller,
            request,
            lambda rights: self._do(request, body, answers, rights),
            answers.answer,
        )

    def _do(
        self, request: HttpRequest, body: bytes, answers: "_Answers", rights: Rights | None
    ) -> None:
        try:
            route, params = find_route(self._routes, request.method, request.path)
            call = Call(
                params=params, query=request.query, body=body, rights=rights, answers=answers
            )
            check_rights(route, call)
            if route.change is not None:
                route.change(call)
                return
            read = route.read
            if read is None:
                raise InvariantBroken(f"nobody answers {route.path}")
            # With a leader that is out of reach the answer is as old as this broker's copy.
            self._schemas.catch_up(lambda _: self._read(answers, read, call))
        except RequestRefused as refusal:
            answers.answer(refusal)
        except Exception as error:
            self._fail(answers, error)

    def _read(self, answers: "_Answers", read: Reader, call: Call) -> None:
        try:
            answers.answer(read(call))
        except RequestRefused as refusal:
            answers.answer(refusal)
        except Exception as error:
            self._fail(answers, error)

    def _fail(self, answers: "_Answers", error: Exception) -> None:
        """A defect of ours, and the broker goes on."""
        self._report(error)
        answers.answer(RequestRefused("It could not be done: see the log."))

    def _report(self, error: Exception) -> None:
        self._failures.say(f"a request for schemas could not be answered: {error!r}")


class _Answers:
    """Where the answer to one request goes."""

    __slots__ = ("_caller", "_is_done")

    def __init__(self, caller: RegistryConnection) -> None:
        self._caller = caller
        self._is_done = False

    def answer(self, outcome: object) -> None:
        """See `Answers`."""
        if self._is_done:
            return
        self._is_done = True
        status, headers = 200, headers_of(CONTENT_TYPE)
        if isinstance(outcome, PlainText):
            headers, body = headers_of(_PLAIN), outcome.text.encode()
        elif isinstance(outcome, RequestRefused):
            status = code_of(outcome).status
            if status == 401:
                headers["WWW-Authenticate"] = 'Basic realm="kafkaesque"'
            body = msgspec.json.encode(body_of(outcome))
        else:
            body = msgspec.json.encode(outcome)
        self._caller.send_answer(status, headers, body)
