"""Every request that the registry knows, and what it needs: one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.registry.calls import Call, SchemaBody
from kafkaesque.gateway.registry.changing import Changing
from kafkaesque.gateway.registry.errors import HttpRefused
from kafkaesque.gateway.registry.reading import Reading
from kafkaesque.model.errors import NotAuthorized

#: Answers at once, from the state as it is.
Reader = Callable[[Call], object]
#: Begins something that is answered later.
Changer = Callable[[Call], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A request."""

    method: str
    #: Parts in braces stand for anything.
    path: tuple[str, ...]
    #: What has to be allowed on the path's subject, or without one on the cluster; None: nothing,
    #: and what the client may not see is left out.
    needs: Operation | None
    read: Reader | None = None
    change: Changer | None = None

    def match(self, path: Sequence[str]) -> dict[str, str] | None:
        """Return what stands for the parts in braces; None: it is another path."""
        if len(path) != len(self.path):
            return None
        found = {}
        for mine, given in zip(self.path, path, strict=True):
            if mine.startswith("{"):
                found[mine[1:-1]] = given
            elif mine != given:
                return None
        return found


def make_routes(reading: Reading, changing: Changing) -> tuple[Route, ...]:
    """Return the table."""
    operation = Operation

    def read(path: str, answer: Reader, needs: Operation | None, method: str = "GET") -> Route:
        return Route(method=method, path=_split(path), needs=needs, read=answer)

    def change(method: str, path: str, act: Changer, needs: Operation) -> Route:
        return Route(method=method, path=_split(path), needs=needs, change=act)

    describe, none = operation.DESCRIBE, None
    version = "/subjects/{subject}/versions/{version}"
    tried = "/compatibility/subjects/{subject}/versions"
    return (
        read("/", reading.root, none),
        read("/contexts", reading.contexts, none),
        read("/v1/metadata/id", reading.cluster, none),
        read("/v1/metadata/version", reading.release, none),
        read("/schemas", reading.schemas, none),
        read("/schemas/types", reading.types, none),
        read("/schemas/ids/{id}", reading.by_id, none),
        read("/schemas/ids/{id}/schema", reading.text_by_id, none),
        read("/schemas/ids/{id}/subjects", reading.subjects_of_id, none),
        read("/schemas/ids/{id}/versions", reading.versions_of_id, none),
        read("/subjects", reading.subjects, none),
        read("/subjects/{subject}", reading.lookup, describe, "POST"),
        read("/subjects/{subject}/versions", reading.versions, describe),
        read(version, reading.version, describe),
        read(f"{version}/schema", reading.version_text, describe),
        read(f"{version}/referencedby", reading.referenced_by, describe),
        read(tried, reading.try_all, describe, "POST"),
        read(f"{tried}/{{version}}", reading.try_one, describe, "POST"),
        change("POST", "/subjects/{subject}/versions", changing.register, operation.WRITE),
        change("DELETE", "/subjects/{subject}", changing.delete_subject, operation.DELETE),
        change("DELETE", version, changing.delete_version, operation.DELETE),
        read("/config", reading.config, none),
        read("/config/{subject}", reading.subject_config, describe),
        change("PUT", "/config", changing.set_config, operation.ALTER_CONFIGS),
        change("PUT", "/config/{subject}", changing.set_config, operation.ALTER_CONFIGS),
        change("DELETE", "/config", changing.delete_config, operation.ALTER_CONFIGS),
        change("DELETE", "/config/{subject}", changing.delete_config, operation.ALTER_CONFIGS),
        read("/mode", reading.mode, none),
        read("/mode/{subject}", reading.subject_mode, describe),
        change("PUT", "/mode", changing.set_mode, operation.ALTER_CONFIGS),
        change("PUT", "/mode/{subject}", changing.set_mode, operation.ALTER_CONFIGS),
        change("DELETE", "/mode", changing.delete_mode, operation.ALTER_CONFIGS),
        change("DELETE", "/mode/{subject}", changing.delete_mode, operation.ALTER_CONFIGS),
    )


def _split(path: str) -> tuple[str, ...]:
    return tuple(each for each in path.split("/") if each)


def find_route(
    routes: Sequence[Route], method: str, path: Sequence[str]
) -> tuple[Route, Mapping[str, str]]:
    """Return the route of a request, and what its path names.

    Raises:
        HttpRefused: there is none.
    """
    methods = []
    for route in routes:
        params = route.match(path)
        if params is None:
            continue
        if route.method == method or (method == "HEAD" and route.method == "GET"):
            return route, params
        methods.append(route.method)
    if methods:
        raise HttpRefused(405, "HTTP 405 Method Not Allowed")
    raise HttpRefused(404, "HTTP 404 Not Found")


def check_rights(route: Route, call: Call) -> None:
    """Check that a client may have something done.

    Raises:
        NotAuthorized: no rule allows it.
    """
    rights, needs = call.rights, route.needs
    if rights is None or needs is None:
        return
    subject = call.params.get("subject")
    if subject is None:
        if not rights.may_cluster(needs):
            raise NotAuthorized(rights.refusal(needs, ResourceType.CLUSTER, CLUSTER_NAME))
        return
    _check(rights, needs, subject)
    if route.method == "POST":
        # Who refers to a schema is told of it by what fits.
        for each in call.body(SchemaBody).references or ():
            _check(rights, Operation.READ, each.subject)


def _check(rights: Rights, operation: Operation, subject: str) -> None:
    if not rights.may(operation, ResourceType.SUBJECT, subject):
        raise NotAuthorized(rights.refusal(operation, ResourceType.SUBJECT, subject))
