"""The admin port: accepts clients and brings each request to its handler."""

from functools import partial
from typing import Final

from kafkaesque import __version__
from kafkaesque.admin.connection import AdminConnection
from kafkaesque.admin.controllers import answer_controllers
from kafkaesque.admin.health import answer_live, answer_ready
from kafkaesque.admin.http import Handler, Request, Respond, text_answer
from kafkaesque.admin.loop_watch import LoopWatch
from kafkaesque.admin.members import answer_members
from kafkaesque.admin.metrics import MetricsPage
from kafkaesque.admin.offline_replicas import answer_offline_replicas
from kafkaesque.admin.recoveries import answer_recoveries
from kafkaesque.admin.registered import answer_brokers
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import ADMIN, Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.env.network import Address, Framing
from kafkaesque.env.report_limit import ReportLimit

CONNECTIONS_MAX: Final = 100


class AdminGateway(Gateway):
    """One broker's admin ports."""

    def __init__(self, doors: Doors, chassis: Chassis, version: str = __version__) -> None:
        super().__init__(chassis)
        self.doors = doors
        self._failures = ReportLimit(chassis.report, chassis.clock.call_later)
        self._loop_watch = LoopWatch(chassis.clock)
        metrics = MetricsPage(doors, chassis, version, self._loop_watch.lag)
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
            framing=Framing.STREAM,
            connections_max=CONNECTIONS_MAX,
            is_protected=True,
        )
        if not self.ports:
            self._loop_watch.start()
        return self.listen(listener.address, options, partial(AdminConnection, self.handle))

    def stop(self) -> None:
        """Accept no more and close what is open."""
        self._loop_watch.stop()
        super().stop()

    def handle(self, request: Request, respond: Respond) -> None:
        """Have a request answered, once."""
        handler = self._handlers.get(request.path)
        if handler is None:
            there = ", ".join(self._handlers)
            respond(text_answer(404, f"there is no {request.path}; there are {there}"))
            return
        try:
            handler(request, respond)
        except Exception as error:
            # A defect of ours, and the broker goes on: nothing here changes anything.
            self._failures.say(f"{request.path} could not be answered: {error!r}")
            respond(text_answer(500, f"{request.path} could not be answered: see the log"))
