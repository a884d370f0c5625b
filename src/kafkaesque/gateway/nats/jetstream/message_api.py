"""Requests for single messages of streams: by sequence, or the last or next of a subject."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.gateway.nats.jetstream.appending import Remove
from kafkaesque.gateway.nats.jetstream.configs import read_config
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.office import Office, Request
from kafkaesque.gateway.nats.jetstream.records import Message
from kafkaesque.gateway.nats.jetstream.retention import catch_up
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.gateway.nats.jetstream.times import rfc3339
from kafkaesque.gateway.nats.jetstream.view import Removal, View
from kafkaesque.protocols.nats.headers import Headers, change_headers, write_headers

_TOPIC: Final = ResourceType.TOPIC
OnMessage = Callable[[Message | None], None]


class GetRequest(msgspec.Struct, kw_only=True):
    """Which message is wanted."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    no_hdr: bool = False

    @property
    def is_sensible(self) -> bool:
        """Whether it says which message, and says it once."""
        if self.last_by_subj:
            return not (self.seq or self.next_by_subj)
        return self.seq > 0 or bool(self.next_by_subj)


class DeleteRequest(msgspec.Struct, kw_only=True):
    """Which message is to go."""

    seq: int = 0
    no_erase: bool = False


class MessageApi:
    """See the module."""

    __slots__ = ("_office",)

    def __init__(self, office: Office) -> None:
        self._office: Final = office

    def get(self, request: Request) -> None:
        """STREAM.MSG.GET."""
        stream = self._stream_of(request, Operation.READ)

        def on_message(message: Message | None) -> None:
            if message is None:
                request.fail("stream_msg_get", ApiError(ApiCode.NO_MESSAGE))
                return
            shown: dict[str, object] = {
                "subject": message.subject,
                "seq": message.sequence,
                "data": base64.b64encode(message.payload).decode(),
                "time": rfc3339(message.timestamp_ms),
            }
            if message.headers:
                shown["hdrs"] = base64.b64encode(message.headers).decode()
            request.answer("stream_msg_get", message=shown)

        wanted = read_config(request.payload, GetRequest)
        if not wanted.is_sensible:
            raise ApiError(ApiCode.BAD_REQUEST)
        self._find(stream, wanted, on_message)

    def direct_get(self, request: Request) -> None:
        """DIRECT.GET: the answer is the message itself."""
        name, *subject = request.words
        request.check(Operation.READ, _TOPIC, name)
        stream = self._office.streams.look(name)
        wanted = GetRequest(last_by_subj=".".join(subject))
        if not subject:
            try:
                wanted = read_config(request.payload, GetRequest)
            except ApiError:
                self._say_status(request, 408, "Malformed Request")
                return
            if not wanted.is_sensible:
                self._say_status(request, 408, "Empty Request")
                return
        if stream is None:
            self._say_status(request, 404, "Stream Not Found")
            return

        def on_message(message: Message | None) -> None:
            if message is None:
                self._say_status(request, 404, "Message Not Found")
                return
            headers = direct_headers(message, stream.name)
            self._office.send(request.reply, headers=headers, payload=message.payload)

        self._find(stream, wanted, on_message)

    def _say_status(self, request: Request, status: int, what: str) -> None:
        headers = write_headers(Headers((), status, what))
        self._office.send(request.reply, headers=headers, payload=b"")

    def _stream_of(self, request: Request, operation: Operation) -> Stream:
        (name,) = request.words
        request.check(operation, _TOPIC, name)
        return self._office.streams.find(name)

    def _find(self, stream: Stream, wanted: GetRequest, on_message: OnMessage) -> None:
        def on_read(is_read: bool) -> None:
            sequence = _sequence_of(stream.log.view, wanted) if is_read else 0
            if not sequence:
                on_message(None)
                return
            stream.log.fetch_message(sequence, on_message)

        catch_up(self._office, stream, on_read)

    def delete(self, request: Request) -> None:
        """STREAM.MSG.DELETE."""
        stream = self._stream_of(request, Operation.DELETE)
        if stream.config.deny_delete or stream.config.sealed:
            raise ApiError(ApiCode.DELETE_DENIED)
        wanted = read_config(request.payload, DeleteRequest)

        def on_removed(outcome: int | ApiError | None) -> None:
            if isinstance(outcome, int):
                request.tell_deleted(request.words[0], {"sequence": str(wanted.seq)})
                request.answer("stream_msg_delete", success=True)
            else:
                request.fail("stream_msg_delete", outcome or ApiError(ApiCode.NOT_AVAILABLE))

        stream.log.append(Remove(Removal(0, 0, (wanted.seq,)), on_removed))

    @property
    def handlers(self) -> Mapping[str, tuple[str, Callable[[Request], None]]]:
        """By the subject behind the API's prefix: what the answer is called, and what answers."""
        return {
            "STREAM.MSG.GET": ("stream_msg_get", self.get),
            "STREAM.MSG.DELETE": ("stream_msg_delete", self.delete),
            "DIRECT.GET": ("direct_get", self.direct_get),
        }


def _sequence_of(view: View, wanted: GetRequest) -> int:
    """Return the message that is wanted; 0: there is none."""
    if wanted.last_by_subj:
        return view.last_of(wanted.last_by_subj)
    if wanted.next_by_subj:
        return view.next_of(wanted.next_by_subj, wanted.seq)
    return wanted.seq if view.has(wanted.seq) else 0


def direct_headers(message: Message, stream: str) -> bytes:
    """Return the headers of an answer that is a message: its own, and where it stands."""
    said = {
        "Nats-Stream": stream,
        "Nats-Subject": message.subject,
        "Nats-Sequence": str(message.sequence),
        "Nats-Time-Stamp": rfc3339(message.timestamp_ms),
    }
    return change_headers(message.headers, (), said, keeps_status=False)
