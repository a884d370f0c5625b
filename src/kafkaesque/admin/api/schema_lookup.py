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

Found = dict[int, KnownSchema | UnknownSchema]


class SchemaLookup:
    """What one client finds for the records of one topic."""

    def __init__(self, context: Context, topic: str, client: OnBehalfOf | None) -> None:
        """Without a client everything may be seen: the listener is open to all."""
        self._context: Final = context
        self._topic: Final = topic
        self._client: Final = client

    def find(self, ids: Iterable[int], on_found: Callable[[Found], None]) -> None:
        """Look up schemas; the registry's log is read first if one is not known here.

        A schema that the client may not see is told as one that does not exist.
        """
        wanted = sorted(ids)
        log = self._context.doors.schemas
        if all(_places(log.state, each) for each in wanted):
            on_found(self._all(log.state, wanted, is_current=True))
            return
        log.catch_up(
            lambda is_current: on_found(self._all(log.state, wanted, is_current=is_current))
        )

    def _all(self, state: RegistryState, wanted: Iterable[int], *, is_current: bool) -> Found:
        return {each: self._one(state, each, is_current=is_current) for each in wanted}

    def _one(
        self, state: RegistryState, schema_id: int, *, is_current: bool
    ) -> KnownSchema | UnknownSchema:
        places = [each for each in _places(state, schema_id) if self._may_see(each.subject)]
        if not places:
            old = "" if is_current else "; the leader of the schemas could not be asked"
            return UnknownSchema(f"there is no schema {schema_id}{old}")
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
