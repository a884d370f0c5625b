"""`/retained`: the last retained message of each name in the cluster, name by name."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.client_session_part import plain
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.messages import LISTED_BYTES_MAX, Content, Form, show
from kafkaesque.admin.api.values import View
from kafkaesque.broker.doors.live import LiveMessage, RetainedPage
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import MQTT, NameFilter, NameKey

#: Pages of names that one request looks through: more are hidden from its client than seldom.
LOOKED_THROUGH_MAX: Final = 40
PAGE_BYTES_MAX: Final = 1024 * 1024


class RetainedQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which names."""

    #: A filter as MQTT has it: `+` is one level, `#` all that follow.
    filter: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] = "#"
    #: `next` of the page before.
    after: Annotated[str, msgspec.Meta(max_length=100_000)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=256)] = 100


class RetainedName(msgspec.Struct, frozen=True, kw_only=True):
    """A name, and its last retained message."""

    #: As MQTT writes it.
    name: str
    qos: int
    value: Content
    content_type: str | None
    #: When its life ends; null: never.
    expires_at: int | None


class RetainedView(View, frozen=True, kw_only=True):
    """Some of the names that a filter matches, sorted as texts."""

    filter: str
    items: list[RetainedName]
    #: To be given as `after` for the next page, which may be empty; null: that was all.
    next: str | None


class RetainedPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_retained(self, call: Call[RetainedQuery, None]) -> None:
        """List names; those that the client may not read are left out.

        Raises:
            InvalidRequest: it is no filter, or nothing that a page has ended with.
        """
        query = call.query
        try:
            name_filter = MQTT.read_filter(query.filter)
        except BadName as error:
            raise InvalidRequest(f"filter is none of MQTT: {error}") from None
        after = _read(query.after) if query.after else None
        _Search(self._context, call, name_filter, after).go_on()


class _Search:
    """One request, page by page."""

    def __init__(
        self,
        context: Context,
        call: Call[RetainedQuery, None],
        name_filter: NameFilter,
        after: NameKey | None,
    ) -> None:
        self._context = context
        self._call = call
        self._filter = name_filter
        self._after = after
        self._found: list[RetainedName] = []
        self._bytes = 0
        self._left = LOOKED_THROUGH_MAX

    def go_on(self) -> None:
        """Ask for the next names."""
        self._left -= 1
        live = self._context.doors.live
        live.retained(self._filter, self._call.later(self._on_found), after=self._after)

    def _on_found(self, page: RetainedPage | RequestRefused) -> None:
        if isinstance(page, RequestRefused):
            self._call.refuse_with(page)
            return
        for each in page.messages:
            if not self._call.could(Operation.READ, ResourceType.TOPIC, each.key):
                continue
            if len(self._found) >= self._call.query.limit or self._bytes > PAGE_BYTES_MAX:
                self._answer(self._after)
                return
            self._after = each.key
            item = _item(each)
            self._bytes += len(item.value.text)
            self._found.append(item)
        self._after = page.after
        if page.after is None or not self._left:
            self._answer(page.after)
        else:
            self._context.doors.clock.call_soon(self._call.later(self.go_on))

    def _answer(self, after: NameKey | None) -> None:
        context = self._context
        self._call.answer(
            RetainedView(
                as_of=context.now(),
                seen_by=context.node,
                filter=self._call.query.filter,
                items=self._found,
                next=None if after is None else _write(after),
            )
        )


def _item(message: LiveMessage) -> RetainedName:
    said = message.content_type
    return RetainedName(
        name=plain(message.key),
        qos=message.qos,
        value=show(message.body, Form(bytes_max=LISTED_BYTES_MAX)),
        content_type=None if said is None else plain(said),
        expires_at=message.expires_ms or None,
    )


def _write(key: NameKey) -> str:
    return urlsafe_b64encode(key.encode("utf-8", "surrogateescape")).decode().rstrip("=")


def _read(text: str) -> NameKey:
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise InvalidRequest("after is no `next` of a page") from None
    return NameKey(data.decode("utf-8", "surrogateescape"))


def retained_routes(pages: RetainedPages) -> list[Route]:
    """Return the operation on retained messages."""
    return [
        Route(
            method="GET",
            path="/retained",
            name="listRetained",
            summary="Names with a retained message, and that message",
            handle=pages.list_retained,
            query=RetainedQuery,
            result=RetainedView,
        ),
    ]
