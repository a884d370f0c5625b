"""The API of one broker, put together: finds the operation for a request, and has it answered."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from kafkaesque.admin.api.context import Context as AdminContext
from kafkaesque.admin.connection import BODY_BYTES_MAX
from kafkaesque.admin.http import JSON, Answer, Request, Respond
from kafkaesque.admin.rabbitmq.bindings import BindingPages
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.channels import ChannelPages
from kafkaesque.admin.rabbitmq.cluster import ClusterPages
from kafkaesque.admin.rabbitmq.context import Context
from kafkaesque.admin.rabbitmq.definitions import DefinitionPages
from kafkaesque.admin.rabbitmq.errors import body_of
from kafkaesque.admin.rabbitmq.exchanges import ExchangePages
from kafkaesque.admin.rabbitmq.health import HealthPages
from kafkaesque.admin.rabbitmq.messages import MessagePages
from kafkaesque.admin.rabbitmq.permissions import PermissionPages
from kafkaesque.admin.rabbitmq.policies import PolicyPages
from kafkaesque.admin.rabbitmq.queues import QueuePages
from kafkaesque.admin.rabbitmq.topic_permissions import TopicPermissionPages
from kafkaesque.admin.rabbitmq.users import UserPages
from kafkaesque.admin.rabbitmq.vhosts import VhostPages

ROOT: Final = "/rabbitmq/api"
DEFINITIONS_BYTES_MAX: Final = 8 * 1024 * 1024
_METHODS_WITH_BODY: Final = ("PUT", "POST", "DELETE")
_WANTED: Final = {"WWW-Authenticate": 'Basic realm="Kafkaesque"'}

_Found = tuple[Route, dict[str, str]]


class RabbitMqApi:
    """See the module."""

    def __init__(self, admin: AdminContext, report: Callable[[str], None]) -> None:
        """`report` is told of our own defects."""
        self._report: Final = report
        context = Context(admin)
        exchanges, queues = ExchangePages(context), QueuePages(context)
        users = UserPages(context)
        permissions = PermissionPages(context, users)
        cluster = ClusterPages(context, queues)
        topic_permissions = TopicPermissionPages(context, users)
        routes = [
            *cluster.routes(),
            *ChannelPages(context, cluster.ask_connections).routes(),
            *HealthPages(context).routes(),
            *VhostPages(context).routes(),
            *exchanges.routes(),
            *queues.routes(),
            *BindingPages(context).routes(),
            *MessagePages(context, exchanges, queues).routes(),
            *users.routes(),
            *permissions.routes(),
            *topic_permissions.routes(),
            *DefinitionPages(context, queues, users, permissions, topic_permissions).routes(),
            *PolicyPages(context).routes(),
        ]
        self._routes: Final = [(route.path.split("/")[1:], route) for route in routes]

    def has(self, path: str) -> bool:
        """Tell whether a path is the API's."""
        return path.startswith(f"{ROOT}/")

    def body_bytes_max(self, method: str, path: str) -> int:
        """Return how long a request's body may be: clients send one with DELETE, too."""
        if method not in _METHODS_WITH_BODY:
            return 0
        is_import = path.startswith(f"{ROOT}/definitions")
        return DEFINITIONS_BYTES_MAX if is_import else BODY_BYTES_MAX

    def is_change(self, request: Request) -> bool:
        """Tell whether a request has to prove that no web page of another origin has sent it.

        One with `Authorization` does: a page can only send it by asking first, and is refused.
        """
        return request.method not in ("GET", "HEAD") and "authorization" not in request.headers

    def handle(self, request: Request, respond: Respond) -> None:
        """Have a request answered, once."""
        if request.visitor.is_stranger:
            answer = _problem(401, "log in: a user's name and password (basic)")
            respond(replace(answer, headers=_WANTED))
            return
        fitting = self._fitting(request.path)
        method = "GET" if request.method == "HEAD" else request.method
        found = next((each for each in fitting if each[0].method == method), None)
        if found is not None:
            call = Call(request, found[1], respond, self._report)
            call.guard(lambda: found[0].handle(call))
        elif fitting:
            methods = ", ".join(sorted({route.method for route, _ in fitting}))
            answer = _problem(405, f"here are {methods}")
            respond(replace(answer, headers={"Allow": methods}))
        else:
            respond(_problem(404, "Not Found"))

    def _fitting(self, path: str) -> list[_Found]:
        """Return the operations at a path, those first that name more of it."""
        segments = path[len(ROOT) :].rstrip("/").split("/")[1:]
        found = []
        for template, route in self._routes:
            params = _match(template, segments)
            if params is not None:
                found.append((route, params))
        return sorted(found, key=lambda each: len(each[1]))


def _match(template: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    if len(template) != len(segments):
        return None
    params: dict[str, str] = {}
    for wanted, given in zip(template, segments, strict=True):
        if wanted.startswith("{"):
            if not given:
                return None
            try:
                params[wanted[1:-1]] = unquote(given, errors="strict")
            except UnicodeDecodeError:
                # Nothing is called so.
                return None
        elif wanted != given:
            return None
    return params


def _problem(status: int, reason: str) -> Answer:
    return Answer(status=status, body=body_of(status, reason), content_type=JSON)
