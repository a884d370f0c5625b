"""The admin port: accepts clients and brings each request to its handler."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from kafkaesque import __version__
from kafkaesque.admin.api.api import Api
from kafkaesque.admin.api.calls import problem
from kafkaesque.admin.api.router import ROOT
from kafkaesque.admin.connection import AdminConnection
from kafkaesque.admin.controllers import answer_controllers
from kafkaesque.admin.health import answer_live, answer_ready
from kafkaesque.admin.hosts import why_refused
from kafkaesque.admin.http import Answer, Handler, Pages, Request, Respond, text_answer
from kafkaesque.admin.loop_watch import LoopWatch
from kafkaesque.admin.members import answer_members
from kafkaesque.admin.metrics import MetricsPage
from kafkaesque.admin.offline_replicas import answer_offline_replicas
from kafkaesque.admin.process_facts import ProcessFacts, read_process_facts
from kafkaesque.admin.recoveries import answer_recoveries
from kafkaesque.admin.registered import answer_brokers
from kafkaesque.admin.series import Sampler
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import ADMIN, Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.env.network import Address, Framing
from kafkaesque.env.report_limit import ReportLimit

CONNECTIONS_MAX: Final = 100
#: What monitoring and orchestration ask for, under whatever name they know a broker by.
ANY_HOST: Final = frozenset({"/metrics", "/health/live", "/health/ready"})


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
        self.sampler: Final = Sampler(doors, chassis, self._loop_watch.lag)
        self.api: Final = Api(
            doors=doors,
            chassis=chassis,
            version=version,
            sampler=self.sampler,
            report=self._failures.say,
        )
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

    def takes_body(self, method: bytes, target: bytes) -> bool:
        """Tell whether a request may have a body."""
        path = urlsplit(target.decode("ascii")).path
        return self.api.router.takes_body(method.decode("ascii"), path)

    def handle(self, request: Request, respond: Respond) -> None:
        """Have a request answered, once."""
        try:
            self._handle(request, respond)
        except Exception as error:
            # A defect of ours, and the broker goes on: a change is the controllers' to make.
            self._failures.say(f"{request.path} could not be answered: {error!r}")
            respond(text_answer(500, f"{request.path} could not be answered: see the log"))

    def _handle(self, request: Request, respond: Respond) -> None:
        is_api = request.path == ROOT or request.path.startswith(f"{ROOT}/")
        page = self._page(request)
        if request.path not in ANY_HOST:
            reason = why_refused(
                request.headers,
                self._names(),
                is_change=is_api and self.api.router.is_change(request),
                is_page=page is not None,
            )
            if reason is not None:
                respond(problem(403, "Forbidden", reason))
                return
        if is_api:
            self.api.router.handle(request, respond)
        elif request.method not in ("GET", "HEAD"):
            answer = text_answer(405, "only GET and HEAD are understood here")
            respond(replace(answer, headers={"Allow": "GET, HEAD"}))
        elif (handler := self._handlers.get(request.path)) is not None:
            handler(request, respond)
        elif page is not None:
            respond(page)
        else:
            there = ", ".join([*self._handlers, f"{ROOT}/openapi.json"])
            respond(text_answer(404, f"there is no {request.path}; there are {there}"))

    def _page(self, request: Request) -> Answer | None:
        """Return the file for browsers that is asked for, if nothing else is at its path."""
        if self._pages is None or request.path in self._handlers:
            return None
        return self._pages.find(request)

    def _names(self) -> set[str]:
        """Return the names that this broker's admin listeners have."""
        listeners = self.doors.configuration.file.listeners
        admin = [each for each in listeners if each.protocol == ADMIN]
        return {
            host.lower() for each in admin for host in (each.advertised.host, each.address.host)
        }
