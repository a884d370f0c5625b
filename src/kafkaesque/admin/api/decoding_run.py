"""Decodes off the loop, for one question: once more if schemas are needed that were not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.schema_lookup import Found, SchemaLookup
from kafkaesque.admin.decoding.bounds import QUESTION_BYTES_MAX, Allowance
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.admin.decoding.schema_book import SchemaBook
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.model.errors import RequestRefused

T = TypeVar("T")

#: What one question decodes, all of it counted that it decodes again.
WORK_BYTES_MAX: Final = 4 * QUESTION_BYTES_MAX


class DecodingRun:
    """What one question has looked up and used up; see the module."""

    __slots__ = ("_book", "_disk", "_left", "_lookup", "_work_left")

    def __init__(self, context: Context, topic: str, client: OnBehalfOf | None) -> None:
        """See `SchemaLookup`."""
        self._disk: Final = context.doors.condition.disk
        self._lookup: Final = SchemaLookup(context, topic, client)
        self._book: Final = SchemaBook()
        #: What may still be decoded.
        self._left = QUESTION_BYTES_MAX
        self._work_left = WORK_BYTES_MAX

    def run(
        self, work: Callable[[Decoder], T], on_done: Callable[[T | None, Exception | None], None]
    ) -> None:
        """Have work done with a decoder, again from its beginning if schemas were missing.

        One at a time. The work must touch nothing that the loop touches. `on_done` gets the result
        and None, or None and the error.
        """
        most = min(self._left, self._work_left)
        decoder = Decoder(self._book, Allowance(most))
        result: list[T] = []

        def on_found(found: Found) -> None:
            self._book.add(found)
            self.run(work, on_done)

        def on_worked(_: object, error: Exception | None) -> None:
            used = most - decoder.allowance.left
            self._work_left -= used
            if error is not None:
                on_done(None, error)
            elif self._book.missing:
                self._lookup.find(self._book.missing, on_found)
            else:
                self._left -= used
                on_done(result[0], None)

        try:
            self._disk.run(lambda: result.append(work(decoder)), on_worked)
        except RequestRefused as refusal:
            # The second time nobody is there any more to whom it could be raised.
            on_done(None, refusal)
