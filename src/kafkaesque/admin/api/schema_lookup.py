"""Looks up the schemas that values name, for those who decode: as far as a client may see them."""

from collections.abc import Callable, Iterable
from typing import Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.decoding.schema_book import KnownSchema, Place, UnknownSchema
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.registry.compatibility import resolve
from kafkaesque.registry.errors import InvalidSchema, SchemaNotFound
from kafkaesque.registry.records import SchemaValue
from kafkaesque.registry.state import RegistryState

#: So long a question waits for the registry's log; its leader may be gone.
READ_MS_MAX: Final = 1_000

Found = dict[int, KnownSchema | UnknownSchema]


class SchemaLookup:
    """What one client finds for the records of one topic."""

    def __init__(self, context: Context, topic: str, client: OnBehalfOf | None) -> None:
        """Without a client everything may be seen: the listener is open to all."""
        self._context: Final = context
        self._topic: Final = topic
        self._client: Final = client
        #: Whether the registry's log was read to its end; None: nobody has tried.
        self._is_current: bool | None = None

    def find(self, ids: Iterable[int], on_found: Callable[[Found], None]) -> None:
        """Look up schemas; the registry's log is read first, if that does not take long.

        A schema that the client may not see is told as one that does not exist.
        """
        wanted = sorted(ids)
        if self._is_current is not None:
            on_found(self._all(wanted))
            return

        def on_read(is_current: bool) -> None:
            if self._is_current is None:
                timer.cancel()
                self._is_current = is_current
                on_found(self._all(wanted))

        # Else the page would be late for nothing: most schemas are known here for long.
        timer = self._context.doors.clock.call_later(READ_MS_MAX, lambda: on_read(False))
        self._context.doors.schemas.catch_up(on_read)

    def _all(self, wanted: Iterable[int]) -> Found:
        return {each: self._one(each) for each in wanted}

    def _one(self, schema_id: int) -> KnownSchema | UnknownSchema:
        state = self._context.doors.schemas.state
        places = [each for each in _places(state, schema_id) if self._may_see(each.subject)]
        if not places:
            late = "" if self._is_current else ", as far as the registry could be read in time"
            return UnknownSchema(f"there is no schema {schema_id}{late}")
        schema = places[0].as_schema
        try:
            references = resolve(state, schema)
        except InvalidSchema as refusal:
            return UnknownSchema(f"its schema {schema_id} cannot be understood: {refusal}")
        return KnownSchema(
            id=schema_id,
            type=schema.type,
            text=schema.text,
            references=references,
            key_place=_best(places, f"{self._topic}-key"),
            value_place=_best(places, f"{self._topic}-value"),
        )

    def _may_see(self, subject: str) -> bool:
        """Tell what the registry asks, too, before it shows a schema by its id."""
        client = self._client
        if client is None:
            return True
        judge = self._context.doors.access.judge
        decision = judge.decide(
            client.who, client.host, Operation.DESCRIBE, ResourceType.SUBJECT, subject
        )
        return decision.allowed


def _places(state: RegistryState, schema_id: int) -> list[SchemaValue]:
    try:
        return state.places(schema_id)
    except SchemaNotFound:
        return []


def _best(places: Iterable[SchemaValue], own: str) -> Place:
    """Return the newest place in a topic's own subject; else the first that is not deleted."""

    def rank(each: SchemaValue) -> tuple[bool, bool, int]:
        return (each.deleted, each.subject != own, -each.version if each.subject == own else 0)

    best = min(places, key=rank)
    return Place(subject=best.subject, version=best.version)
