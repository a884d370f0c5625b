"""The admin port: accepts clients and brings each request to its handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from kafkaesque import __version__
from kafkaesque.access.authentication import Success
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.admin.api.api import Api
from kafkaesque.admin.api.calls import problem
from kafkaesque.admin.api.router import ROOT
from kafkaesque.admin.connection import BODY_BYTES_MAX, AdminConnection
from kafkaesque.admin.controllers import answer_controllers
from kafkaesque.admin.health import answer_live, answer_ready
from kafkaesque.admin.hosts import why_refused
from kafkaesque.admin.http import Answer, Handler, Pages, Request, Respond, text_answer
from kafkaesque.admin.loop_watch import LoopWatch
from kafkaesque.admin.members import answer_members
from kafkaesque.admin.metrics import MetricsPage
from kafkaesque.admin.offline_replicas import answer_offline_replicas
from kafkaesque.admin.process_facts import ProcessFacts, read_process_facts
from kafkaesque.admin.rabbitmq.api import RabbitMqApi
from kafkaesque.admin.recoveries import answer_recoveries
from kafkaesque.admin.registered import answer_brokers
from kafkaesque.admin.series import Sampler
from kafkaesque.admin.visitor import Visitor
from kafkaesque.admin.visitors import Caller, Refused, Visitors
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import ADMIN, AccessMode, Listener, names_of
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.chassis.logins import LOGIN_BYTES_MAX
from kafkaesque.env.network import Address, Framing
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.model.errors import InvariantBroken

CONNECTIONS_MAX: Final = 100
#: What monitoring and orchestration ask for, under whatever name they know a broker by.
ANY_HOST: Final = frozenset({"/metrics", "/health/live", "/health/ready"})
#: Answered without a log-in, but without reasons.
FOR_STRANGERS: Final = frozenset({"/health/live", "/health/ready"})
#: What each page beside the API needs on the cluster; a page without a row stops the start.
NEEDS: Final[Mapping[str, Operation]] = {
    "/metrics": Operation.DESCRIBE,
    "/health/live": Operation.DESCRIBE,
    "/health/ready": Operation.DESCRIBE,
    "/brokers": Operation.DESCRIBE,
    "/controllers": Operation.DESCRIBE,
    "/members": Operation.DESCRIBE,
    "/offline-replicas": Operation.DESCRIBE,
    "/recoveries": Operation.DESCRIBE,
}


class AdminGateway(Gateway):
    """One broker's admin ports."""

    def __init__(
        self,
        doors: Doors,
        chassis: Chassis,
        version: str = __version__,
        pages: Pages | None = None,
        process_facts: Callable[[], ProcessFacts] = read_process_facts,
    ) -> None:
        """`pages` are files for browsers, at whatever paths nothing else is."""
        super().__init__(chassis)
        self.doors = doors
        self._failures = ReportLimit(chassis.report, chassis.clock.call_later)
        self._loop_watch = LoopWatch(chassis.clock)
        metrics = MetricsPage(doors, chassis, version, self._loop_watch.lag, process_facts)
        self._pages = pages
        self.visitors: Final = Visitors(doors.access, chassis.logins, chassis.clock)
        self.sampler: Final = Sampler(doors, chassis, self._loop_watch.lag)
        self.api: Final = Api(
            doors=doors,
            chassis=chassis,
            version=version,
            sampler=self.sampler,
            visitors=self.visitors,
            report=self._failures.say,
        )
        self.rabbitmq: Final = RabbitMqApi(self.api.context, self._failures.say)
        self._handlers: dict[str, Handler] = {
            "/metrics": metrics.answer,
            "/health/live": lambda _, respond: respond(answer_live(doors)),
            "/health/ready": lambda _, respond: respond(answer_ready(doors)),
            "/brokers": lambda _, respond: respond(answer_brokers(doors)),
            "/controllers": lambda _, respond: respond(answer_controllers(doors)),
            "/members": lambda _, respond: respond(answer_members(doors)),
            "/offline-replicas": lambda _, respond: respond(answer_offline_replicas(doors)),
            "/recoveries": lambda request, respond: respond(answer_recoveries(doors, request)),
        }
        without = self._handlers.keys() - NEEDS.keys()
        if without:
            raise InvariantBroken(f"no row says what {sorted(without)} need")

    def start(self, listener: Listener) -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = PortOptions(
            protocol=ADMIN,
            listener=listener.name,
            tls=listener.tls,
            framing=Framing.STREAM,
            connections_max=CONNECTIONS_MAX,
            is_protected=True,
            access=listener.access,
            mechanisms=listener.mechanisms,
            is_local=listener.is_local,
        )
        if not self.ports:
            self._loop_watch.start()
            self.sampler.start()
        return self.listen(listener.address, options, partial(AdminConnection, self))

    def stop(self) -> None:
        """Accept no more and close what is open."""
        self._loop_watch.stop()
        self.sampler.stop()
        self.api.stop()
        super().stop()

    def body_bytes_max(self, caller: Caller, head: Request) -> int:
        """Return how long a request's body may be; 0: it may have none."""
        if self.rabbitmq.has(head.path):
            return self._rabbitmq_body_bytes_max(caller, head)
        if not self.api.router.takes_body(head.method, head.path):
            return 0
        if caller.access is AccessMode.REQUIRED:
            found = self.visitors.check_token(caller, head.headers)
            return BODY_BYTES_MAX if isinstance(found, Success) else LOGIN_BYTES_MAX
        return BODY_BYTES_MAX

    def _rabbitmq_body_bytes_max(self, caller: Caller, head: Request) -> int:
        is_stranger = caller.access is AccessMode.REQUIRED and "authorization" not in head.headers
        most = self.rabbitmq.body_bytes_max(head.method, head.path)
        return min(most, LOGIN_BYTES_MAX) if is_stranger else most

    def handle(self, caller: AdminConnection, request: Request, respond: Respond) -> None:
        """Have a request answered, once."""
        self._guarded(request, respond, lambda: self._admit(caller, request, respond))

    def _guarded(self, request: Request, respond: Respond, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            # A defect of ours, and the broker goes on: a change is the controllers' to make.
            self._failures.say(f"{request.path} could not be answered: {error!r}")
            respond(text_answer(500, f"{request.path} could not be answered: see the log"))

    def _admit(self, caller: AdminConnection, request: Request, respond: Respond) -> None:
        """Keep out what pages of others send; then find out who asks."""
        if request.path not in ANY_HOST:
            reason = why_refused(
                request.headers,
                self._names(),
                is_change=self._is_change(request),
                is_page=self._page(request) is not None,
            )
            if reason is not None:
                respond(problem(403, "Forbidden", reason))
                return

        def on_known(visitor: Visitor | Refused) -> None:
            refusal = _refusal_of(caller, visitor)
            if isinstance(visitor, Visitor) and refusal is None:
                known = replace(request, visitor=visitor)
                self._guarded(known, respond, lambda: self._handle(known, respond))
            elif refusal is not None:
                respond(refusal)

        self.visitors.identify(caller, request.headers, on_known)

    def _handle(self, request: Request, respond: Respond) -> None:
        page = self._page(request)
        if _is_api(request):
            self.api.router.handle(request, respond)
        elif self.rabbitmq.has(request.path):
            self.rabbitmq.handle(request, respond)
        elif request.method not in ("GET", "HEAD"):
            answer = text_answer(405, "only GET and HEAD are understood here")
            respond(replace(answer, headers={"Allow": "GET, HEAD"}))
        elif (handler := self._handlers.get(request.path)) is not None:
            self._handle_page(handler, request, respond)
        elif page is not None:
            respond(page)
        elif request.visitor.is_stranger:
            respond(problem(401, "NotLoggedIn", "log in first"))
        else:
            there = ", ".join([*self._handlers, f"{ROOT}/openapi.json"])
            respond(text_answer(404, f"there is no {request.path}; there are {there}"))

    def _handle_page(self, handler: Handler, request: Request, respond: Respond) -> None:
        """Answer those who may see the cluster; others are told of health in one word."""
        visitor, needed = request.visitor, NEEDS[request.path]
        rights, has_short_answer = visitor.rights, request.path in FOR_STRANGERS
        if not visitor.is_stranger and (
            rights is None
            or (rights.could_cluster if has_short_answer else rights.may_cluster)(needed)
        ):
            handler(request, respond)
        elif has_short_answer:
            handler(request, lambda answer: respond(_in_short(answer, request)))
        elif visitor.is_stranger or rights is None:
            respond(problem(401, "NotLoggedIn", "log in first"))
        else:
            words = rights.refusal(needed, ResourceType.CLUSTER, CLUSTER_NAME)
            respond(problem(403, "Forbidden", words))

    def _page(self, request: Request) -> Answer | None:
        """Return the file for browsers that is asked for, if nothing else is at its path."""
        if self._pages is None or request.path in self._handlers:
            return None
        return self._pages.find(request)

    def _is_change(self, request: Request) -> bool:
        if self.rabbitmq.has(request.path):
            return self.rabbitmq.is_change(request)
        return _is_api(request) and self.api.router.is_change(request)

    def _names(self) -> set[str]:
        return names_of(self.doors.configuration.file.listeners, ADMIN)


def _is_api(request: Request) -> bool:
    return request.path == ROOT or request.path.startswith(f"{ROOT}/")


def _refusal_of(caller: AdminConnection, visitor: Visitor | Refused) -> Answer | None:
    """Return why a request is not looked at, and have its connection be its user's otherwise."""
    if isinstance(visitor, Refused):
        caller.shared.meter.login_failures += 1
        if visitor.is_late:
            return problem(429, "TooManyLogIns", "too many log-ins have failed: try again later")
        return problem(401, "NotLoggedIn", "the log-in is refused: it may be over")
    if visitor.is_open:
        return None
    if visitor.login is None:
        if not visitor.must_log_in:
            caller.note_no_login()
    elif visitor.login != caller.login and not caller.let_in(visitor.login, visitor.login_by):
        return problem(429, "TooManyConnections", "your user has all connections that it may have")
    return None


def _in_short(answer: Answer, request: Request) -> Answer:
    """Return an answer about health without its reasons."""
    word = request.path.rpartition("/")[2]
    return text_answer(answer.status, word if answer.status == 200 else f"not {word}")
