"""One request of the API, checked and typed, and how it is answered."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.problems import status_of
from kafkaesque.admin.api.values import Problem, View
from kafkaesque.admin.http import (
    JSON,
    Answer,
    Outlet,
    Request,
    Respond,
    Source,
    write_json,
)
from kafkaesque.broker.requests.client_command import ClientCommand, OnBehalfOf
from kafkaesque.chassis.rights import Rights
from kafkaesque.model.errors import RequestRefused

CommandT = TypeVar("CommandT", bound=ClientCommand)
QueryT = TypeVar("QueryT", bound=msgspec.Struct)
BodyT = TypeVar("BodyT")
P = ParamSpec("P")


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing may be asked for."""


class Call(Generic[QueryT, BodyT]):
    """A request that fits its route; a handler answers it once, and what comes later is dropped."""

    __slots__ = (
        "_is_answered",
        "_report",
        "_respond",
        "body",
        "is_allowed",
        "params",
        "query",
        "request",
    )

    def __init__(
        self,
        request: Request,
        params: Mapping[str, str],
        query: QueryT,
        body: BodyT,
        respond: Respond,
        report: Callable[[str], None],
    ) -> None:
        """`report` is told of our own defects."""
        self.request: Final = request
        #: What stands in the path where the route has names.
        self.params: Final = params
        self.query: Final = query
        self.body: Final = body
        self._respond = respond
        self._report = report
        self._is_answered = False
        #: Whether the client may still ask for this; for answers that take long.
        self.is_allowed: Callable[[], bool] = lambda: True

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Tell whether the client may do what it asks for to a resource, which need not exist."""
        rights = self.request.visitor.rights
        return rights is None or rights.may(operation, resource_type, name)

    def could(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Tell the same of what it has not asked for; see `Rights.could`."""
        rights = self.request.visitor.rights
        return rights is None or rights.could(operation, resource_type, name)

    def refusal(self, operation: Operation, resource_type: ResourceType, name: str) -> str:
        """Return what the client is told where it may not; see `Rights.refusal`."""
        rights = self.request.visitor.rights
        assert rights is not None, "nothing is refused where nobody logs in"
        return rights.refusal(operation, resource_type, name)

    def sign(self, command: CommandT) -> CommandT:
        """Return a command for the controller that says for whom it is, where that is known."""
        rights = self.request.visitor.rights
        return rights.sign(command) if isinstance(rights, Rights) else command

    @property
    def client(self) -> OnBehalfOf | None:
        """For whom the controller is asked, where that is known."""
        rights = self.request.visitor.rights
        return rights.client if isinstance(rights, Rights) else None

    def sees(self, resource_type: ResourceType, name: str) -> bool:
        """Tell whether the client may know of a resource."""
        return self.could(Operation.DESCRIBE, resource_type, name)

    def answer(self, view: View, status: int = 200) -> None:
        """Answer with a view; with 304 if the client has it already."""
        tag = etag_of(view)
        if self.request.method == "GET" and tag in _tags(self.request, "if-none-match"):
            self._reply(Answer(status=304, headers={"ETag": tag, "Cache-Control": "no-cache"}))
            return
        self._reply(
            Answer(
                status=status,
                body=write_json(view),
                content_type=JSON,
                headers={"ETag": tag, "Cache-Control": "no-cache"},
            )
        )

    def may_change(self, current: View) -> bool:
        """Tell whether what the client wants to change is what it has seen; refuse otherwise."""
        wanted = _tags(self.request, "if-match")
        if not wanted or "*" in wanted or etag_of(current) in wanted:
            return True
        self.refuse(412, "Changed", "it was changed meanwhile: read it again")
        return False

    def answer_once(self, view: View, status: int = 200, cookie: str = "") -> None:
        """Answer with what nobody keeps, and have the browser keep a cookie."""
        headers = {"Set-Cookie": cookie} if cookie else {}
        body = write_json(view)
        self._reply(Answer(status=status, body=body, content_type=JSON, headers=headers))

    def guard(self, act: Callable[[], None]) -> None:
        """Go on, also in a later turn: what is refused then is answered, and so is a defect."""
        _going_on.append(self)
        try:
            act()
        except RequestRefused as refusal:
            self.refuse_with(refusal)
        except Exception as error:
            # A defect of ours: it costs this answer, not the broker.
            path = self.request.path
            self._report(f"{path} could not be answered: {error!r}")
            self.refuse(500, "InternalError", f"{path} could not be answered: see the broker's log")
        finally:
            _going_on.pop()

    def later(self, act: Callable[P, None]) -> Callable[P, None]:
        """Return `act` for a later turn, guarded."""
        return lambda *args, **named: self.guard(lambda: act(*args, **named))

    def refuse(self, status: int, error: str, message: str) -> None:
        """Answer why it is not done."""
        self._reply(problem(status, error, message))

    def refuse_with(self, refusal: RequestRefused) -> None:
        """Answer why a broker does not do it."""
        self.refuse(status_of(refusal), type(refusal).__name__, str(refusal))

    def stream(self, content_type: str, begin: Callable[[Outlet], Source]) -> None:
        """Answer piece by piece."""
        self._reply(
            Answer(status=200, content_type=content_type, open=begin, may_go_on=self.is_allowed)
        )

    def _reply(self, answer: Answer) -> None:
        if self._is_answered:
            # The connection may have gone on to the client's next request.
            return
        self._respond(answer)
        self._is_answered = True


#: The calls that this turn goes on with, the innermost last.
_going_on: Final[list[Call[Any, Any]]] = []


def guarded(act: Callable[P, None]) -> Callable[P, None] | None:
    """Return `act` for a later turn, guarded by the call that this turn goes on with, if any."""
    return _going_on[-1].later(act) if _going_on else None


def problem(status: int, error: str, message: str) -> Answer:
    """Return an answer that says what is wrong."""
    body = write_json(Problem(status=status, error=error, message=message))
    # Browsers ask for a name and a password themselves where another scheme is offered.
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return Answer(
        status=status, body=body, content_type="application/problem+json", headers=headers
    )


def etag_of(view: View) -> str:
    """Return a tag of what a view says, whenever and by whom it is said."""
    sources = [msgspec.structs.replace(each, as_of=0) for each in view.sources]
    plain = msgspec.structs.replace(view, as_of=0, seen_by=0, sources=sources)
    return f'W/"{hashlib.blake2b(write_json(plain), digest_size=8).hexdigest()}"'


def _tags(request: Request, header: str) -> list[str]:
    return [each.strip() for each in request.headers.get(header, "").split(",") if each.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation of the API; the OpenAPI document is made of these."""

    method: str
    #: Below /api/v1; `{name}` stands for one segment.
    path: str
    #: Names the operation, for generated clients.
    name: str
    summary: str
    handle: Callable[[Call[Any, Any]], None]
    query: type[msgspec.Struct] = NoQuery
    body: type[msgspec.Struct] | None = None
    #: None: a stream.
    result: type[msgspec.Struct] | None = None
    status: int = 200
    #: Of a stream: its type, and of what its lines or events are.
    content_type: str = JSON
    item: type[msgspec.Struct] | None = None
    #: Whether it changes nothing, though it has a body.
    is_safe: bool = False

    @property
    def changes(self) -> bool:
        """Whether something may be different afterwards."""
        return self.method not in ("GET", "HEAD") and not self.is_safe
