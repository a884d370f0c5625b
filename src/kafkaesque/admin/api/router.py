"""Finds the operation for a request, checks what it brings, and has it answered."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from kafkaesque.admin.api.authorization import find_rows
from kafkaesque.admin.api.calls import Call, Route, problem
from kafkaesque.admin.api.openapi import write_document
from kafkaesque.admin.http import JSON, Answer, Request, Respond

ROOT: Final = "/api/v1"
DOCUMENT: Final = f"{ROOT}/openapi.json"

_Found = tuple[Route, dict[str, str]]


class Router:
    """The operations of the API."""

    def __init__(
        self, routes: Sequence[Route], version: str, report: Callable[[str], None]
    ) -> None:
        """`report` is told of our own defects."""
        self._report = report
        self._version = version
        self._document: bytes | None = None
        self._routes = [(route.path.split("/")[1:], route) for route in routes]
        self._every = routes
        self._rows = find_rows(routes)

    def takes_body(self, method: str, path: str) -> bool:
        """Tell whether there is an operation that wants one."""
        return any(r.body is not None and r.method == method for r, _ in self._fitting(path))

    def is_change(self, request: Request) -> bool:
        """Tell whether a request may change something; of what is not known, it is believed."""
        if request.method in ("GET", "HEAD"):
            return False
        fitting = [r for r, _ in self._fitting(request.path) if r.method == request.method]
        return not fitting or fitting[0].changes

    def handle(self, request: Request, respond: Respond) -> None:
        """Have a request answered, once."""
        fitting = self._fitting(request.path)
        method = "GET" if request.method == "HEAD" else request.method
        found = next((each for each in fitting if each[0].method == method), None)
        is_for_strangers = found is not None and self._rows[found[0].name].is_for_strangers
        if request.visitor.is_stranger and not is_for_strangers:
            respond(problem(401, "NotLoggedIn", "log in first: POST /api/v1/session"))
        elif request.path == DOCUMENT:
            respond(self._answer_document())
        elif not fitting:
            where = f"there is no {request.path}; {DOCUMENT} says what there is"
            respond(problem(404, "NotFound", where))
        elif found is None:
            methods = ", ".join(sorted(route.method for route, _ in fitting))
            answer = problem(405, "MethodNotAllowed", f"here are {methods}")
            respond(_with_headers(answer, {"Allow": methods}))
        else:
            self._call(found[0], found[1], request, respond)

    def _call(
        self, route: Route, params: Mapping[str, str], request: Request, respond: Respond
    ) -> None:
        try:
            query = _read_query(route.query, request.query)
            body = _read_body(route.body, request)
        except ValueError as error:
            respond(problem(400, "InvalidRequest", str(error)))
            return
        call = Call(request, params, query, body, respond, self._report)
        row = self._rows[route.name]
        call.is_allowed = lambda: row.allows(call)
        call.guard(lambda: route.handle(call) if row.allows(call) else row.refuse(call))

    def _fitting(self, path: str) -> list[_Found]:
        """Return the operations at a path, with what stands there for names."""
        if not path.startswith(f"{ROOT}/"):
            return []
        segments = path[len(ROOT) :].split("/")[1:]
        found = []
        for template, route in self._routes:
            params = _match(template, segments)
            if params is not None:
                found.append((route, params))
        return found

    def _answer_document(self) -> Answer:
        if self._document is None:
            document = write_document(self._every, self._version)
            self._document = msgspec.json.encode(document)
        return Answer(status=200, body=self._document, content_type=JSON)


def _with_headers(answer: Answer, headers: Mapping[str, str]) -> Answer:
    """Return an answer with more headers."""
    return Answer(
        status=answer.status,
        body=answer.body,
        content_type=answer.content_type,
        headers={**answer.headers, **headers},
    )


def _match(template: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    if len(template) != len(segments):
        return None
    params = {}
    for wanted, given in zip(template, segments, strict=True):
        if wanted.startswith("{"):
            if not given:
                return None
            params[wanted[1:-1]] = unquote(given)
        elif wanted != given:
            return None
    return params


def _read_query(kind: type[msgspec.Struct], given: Mapping[str, Sequence[str]]) -> msgspec.Struct:
    """Return what stands in a query.

    Raises:
        ValueError: it is not what the operation knows.
    """
    twice = [name for name, values in given.items() if len(values) > 1]
    if twice:
        raise ValueError(f"{twice[0]} is given more than once")
    plain = {name: values[0] for name, values in given.items()}
    return msgspec.convert(plain, kind, strict=False)


def _read_body(kind: type[msgspec.Struct] | None, request: Request) -> Any:
    if kind is None:
        return None
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != JSON:
        raise ValueError(f"the body is JSON: say Content-Type: {JSON}")
    try:
        return msgspec.json.decode(request.body, type=kind)
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
