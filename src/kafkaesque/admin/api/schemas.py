"""`/schemas`: subjects of the schema registry and their versions, as this broker has read them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from kafkaesque.access.operations import ResourceType
from kafkaesque.admin.api.authorization import refuse_unknown_subject
from kafkaesque.admin.api.calls import Call, NoQuery, Route
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.paging import ListQuery, take_page, wants
from kafkaesque.admin.api.values import Listing, View
from kafkaesque.model.errors import RequestRefused
from kafkaesque.registry.records import SchemaValue

#: Versions of a subject that are shown, the newest ones.
VERSIONS_MAX: Final = 100
#: Characters of all their texts together, but for the newest one's.
TEXTS_LENGTH_MAX: Final = 4 * 1024 * 1024


class SubjectsQuery(ListQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which subjects."""


class SubjectRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subject in a list."""

    name: str
    #: Of the newest version: AVRO, JSON or PROTOBUF.
    type: str
    version: int
    id: int
    versions: int
    #: What a new version has to fit.
    compatibility: str


class SubjectList(Listing, frozen=True, kw_only=True):
    """Subjects that the client may see."""

    items: list[SubjectRow]
    #: Whether all that was registered before this was asked is in here.
    is_current: bool


class SchemaReference(msgspec.Struct, frozen=True, kw_only=True):
    """A version that a schema refers to."""

    name: str
    subject: str
    version: int


class SchemaVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a subject."""

    version: int
    id: int
    type: str
    schema: str
    references: list[SchemaReference]
    #: Versions that refer to this one.
    referenced_by: int


class SubjectView(View, frozen=True, kw_only=True):
    """A subject, with its versions, the newest first; at most 100 of `version_total`, and 4 MiB."""

    name: str
    compatibility: str
    mode: str
    versions: list[SchemaVersion]
    version_total: int
    is_current: bool


_KEYS: Final[dict[str, Callable[[SubjectRow], Any]]] = {
    "name": lambda each: each.name,
    "type": lambda each: each.type,
    "versions": lambda each: each.versions,
    "id": lambda each: each.id,
}


class SchemaPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_subjects(self, call: Call[SubjectsQuery, None]) -> None:
        """List subjects, once this broker has read all that was registered before."""
        log = self._context.doors.schemas

        def on_read(is_current: bool) -> None:
            found = [
                self._row(name)
                for name in log.state.subjects()
                if wants(call.query, name) and call.sees(ResourceType.SUBJECT, name)
            ]
            try:
                page = take_page(found, call.query, _KEYS, "name")
            except RequestRefused as refusal:
                call.refuse_with(refusal)
                return
            call.answer(
                SubjectList(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    total=page.total,
                    next=page.next,
                    items=page.items,
                    is_current=is_current,
                )
            )

        log.catch_up(on_read)

    def _row(self, name: str) -> SubjectRow:
        state = self._context.doors.schemas.state
        versions = state.versions(name)
        newest = versions[-1]
        return SubjectRow(
            name=name,
            type=newest.schema_type,
            version=newest.version,
            id=newest.id,
            versions=len(versions),
            compatibility=state.effective_compatibility(name).value,
        )

    def show_subject(self, call: Call[NoQuery, None]) -> None:
        """Show a subject and its versions."""
        log, name = self._context.doors.schemas, call.params["subject"]

        def on_read(is_current: bool) -> None:
            state = log.state
            versions = [] if name not in state.subjects() else state.versions(name)
            if not versions:
                refuse_unknown_subject(call, name)
                return
            shown = [
                SchemaVersion(
                    version=each.version,
                    id=each.id,
                    type=each.schema_type,
                    schema=each.schema,
                    references=[
                        SchemaReference(name=e.name, subject=e.subject, version=e.version)
                        for e in each.references
                    ],
                    referenced_by=len(state.referenced_by(name, each.version)),
                )
                for each in _newest(versions)
            ]
            call.answer(
                SubjectView(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    name=name,
                    compatibility=state.effective_compatibility(name).value,
                    mode=state.effective_mode(name).value,
                    versions=shown,
                    version_total=len(versions),
                    is_current=is_current,
                )
            )

        log.catch_up(on_read)


def _newest(versions: Sequence[SchemaValue]) -> Iterator[SchemaValue]:
    """Yield the newest versions first, as many as are shown."""
    length = 0
    for number, each in enumerate(reversed(versions[-VERSIONS_MAX:])):
        length += len(each.schema)
        if number and length > TEXTS_LENGTH_MAX:
            return
        yield each


def schema_routes(pages: SchemaPages) -> list[Route]:
    """Return the operations on schemas."""
    return [
        Route(
            method="GET",
            path="/schemas",
            name="listSubjects",
            summary="Subjects of the schema registry",
            handle=pages.list_subjects,
            query=SubjectsQuery,
            result=SubjectList,
        ),
        Route(
            method="GET",
            path="/schemas/{subject}",
            name="showSubject",
            summary="A subject of the schema registry, with its versions",
            handle=pages.show_subject,
            result=SubjectView,
        ),
    ]
