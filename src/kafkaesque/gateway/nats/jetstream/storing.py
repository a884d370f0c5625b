"""What is published to the subjects of a stream: it is stored, and its publisher told where."""

from __future__ import annotations

from typing import Final

import msgspec

from kafkaesque.gateway.nats.jetstream.appending import StoreMessage
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.office import Office
from kafkaesque.gateway.nats.jetstream.records import read_demands
from kafkaesque.gateway.nats.jetstream.streams import Stream


class Storing:
    """See the module."""

    __slots__ = ("_office",)

    def __init__(self, office: Office) -> None:
        self._office: Final = office

    def store(
        self, stream: Stream, subject: str, reply: str, headers: bytes, payload: bytes
    ) -> None:
        """Store a message; the publisher is answered when it is committed, synced on a majority."""
        config = stream.config
        wants_answer = bool(reply) and not config.no_ack

        def on_stored(outcome: tuple[int, bool] | ApiError | None) -> None:
            # Of what nobody knows nothing is said: the publisher sends it again, and its id tells.
            if not wants_answer or outcome is None:
                return
            body: dict[str, object] = {"stream": stream.name}
            if isinstance(outcome, ApiError):
                body = {"error": outcome.body, "stream": stream.name, "seq": 0}
            else:
                body["seq"], is_duplicate = outcome
                if is_duplicate:
                    body["duplicate"] = True
            self._office.send(reply, payload=msgspec.json.encode(body))

        demands = read_demands(headers)
        try:
            _check(stream, len(headers) + len(payload), demands.stream, demands.rollup)
        except ApiError as error:
            on_stored(error)
            return
        stream.log.append(StoreMessage(config, subject, headers, payload, demands, on_stored))


def _check(stream: Stream, size: int, expected: str, rollup: str) -> None:
    """Check what can be told without what the stream holds.

    Raises:
        ApiError: it is not stored.
    """
    config = stream.config
    if expected and expected != stream.name:
        raise ApiError(ApiCode.STREAM_NOT_MATCHED)
    if config.sealed:
        raise ApiError(ApiCode.SEALED)
    if 0 < config.max_msg_size < size:
        raise ApiError(ApiCode.MESSAGE_TOO_LARGE)
    if rollup and (not config.allow_rollup_hdrs or rollup not in ("sub", "all")):
        raise ApiError(ApiCode.ROLLUP)
