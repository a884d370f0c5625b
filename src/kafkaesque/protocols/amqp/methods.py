"""All methods: of AMQP 0-9-1, and of RabbitMQ's extensions.

A method's fields stand in the order of the wire; their types say how they are written. Fields that
are reserved are called so, and are written as they were read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, TypeVar

import msgspec

from kafkaesque.protocols.amqp.wire import Table as AnyTable

Octet = Annotated[int, "octet"]
Short = Annotated[int, "short"]
Long = Annotated[int, "long"]
LongLong = Annotated[int, "longlong"]
Bit = Annotated[bool, "bit"]
ShortStr = Annotated[str, "shortstr"]
LongStr = Annotated[bytes, "longstr"]
Table = Annotated[AnyTable, "table"]


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all methods."""

    class_id: ClassVar[int]
    method_id: ClassVar[int]
    #: Whether a content header and a body follow.
    has_content: ClassVar[bool] = False


#: (class id, method id) -> method
METHODS: dict[tuple[int, int], type[Method]] = {}

_M = TypeVar("_M", bound=type[Method])


def _method(class_id: int, method_id: int, *, has_content: bool = False) -> Callable[[_M], _M]:
    def register(found: _M) -> _M:
        found.class_id = class_id
        found.method_id = method_id
        found.has_content = has_content
        METHODS[class_id, method_id] = found
        return found

    return register


# -- connection


@_method(10, 10)
class ConnectionStart(Method, frozen=True, kw_only=True):
    """The broker says what it speaks."""

    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: Table = msgspec.field(default_factory=dict)
    mechanisms: LongStr = b"PLAIN"
    locales: LongStr = b"en_US"


@_method(10, 11)
class ConnectionStartOk(Method, frozen=True, kw_only=True):
    """The client chooses, and says who it is."""

    client_properties: Table = msgspec.field(default_factory=dict)
    mechanism: ShortStr = "PLAIN"
    response: LongStr = b""
    locale: ShortStr = "en_US"


@_method(10, 20)
class ConnectionSecure(Method, frozen=True, kw_only=True):
    """The mechanism needs another answer."""

    challenge: LongStr = b""


@_method(10, 21)
class ConnectionSecureOk(Method, frozen=True, kw_only=True):
    """That answer."""

    response: LongStr = b""


@_method(10, 30)
class ConnectionTune(Method, frozen=True, kw_only=True):
    """Limits that the broker proposes."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat_s: Short = 0


@_method(10, 31)
class ConnectionTuneOk(Method, frozen=True, kw_only=True):
    """Limits that both keep."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat_s: Short = 0


@_method(10, 40)
class ConnectionOpen(Method, frozen=True, kw_only=True):
    """Go to a virtual host."""

    vhost: ShortStr = "/"
    reserved_1: ShortStr = ""
    reserved_2: Bit = False


@_method(10, 41)
class ConnectionOpenOk(Method, frozen=True, kw_only=True):
    """The connection is open."""

    reserved_1: ShortStr = ""


@_method(10, 50)
class ConnectionClose(Method, frozen=True, kw_only=True):
    """The connection ends, and why."""

    reply_code: Short = 200
    reply_text: ShortStr = ""
    failed_class_id: Short = 0
    failed_method_id: Short = 0


@_method(10, 51)
class ConnectionCloseOk(Method, frozen=True, kw_only=True):
    """It has ended."""


@_method(10, 60)
class ConnectionBlocked(Method, frozen=True, kw_only=True):
    """The broker takes no publishes at the moment."""

    reason: ShortStr = ""


@_method(10, 61)
class ConnectionUnblocked(Method, frozen=True, kw_only=True):
    """It takes them again."""


@_method(10, 70)
class ConnectionUpdateSecret(Method, frozen=True, kw_only=True):
    """A secret that is about to expire is replaced."""

    new_secret: LongStr = b""
    reason: ShortStr = ""


@_method(10, 71)
class ConnectionUpdateSecretOk(Method, frozen=True, kw_only=True):
    """It is replaced."""


# -- channel


@_method(20, 10)
class ChannelOpen(Method, frozen=True, kw_only=True):
    """Open this channel."""

    reserved_1: ShortStr = ""


@_method(20, 11)
class ChannelOpenOk(Method, frozen=True, kw_only=True):
    """It is open."""

    reserved_1: LongStr = b""


@_method(20, 20)
class ChannelFlow(Method, frozen=True, kw_only=True):
    """Stop sending content, or go on."""

    active: Bit = True


@_method(20, 21)
class ChannelFlowOk(Method, frozen=True, kw_only=True):
    """So it is done."""

    active: Bit = True


@_method(20, 40)
class ChannelClose(Method, frozen=True, kw_only=True):
    """The channel ends, and why."""

    reply_code: Short = 200
    reply_text: ShortStr = ""
    failed_class_id: Short = 0
    failed_method_id: Short = 0


@_method(20, 41)
class ChannelCloseOk(Method, frozen=True, kw_only=True):
    """It has ended."""


# -- access


@_method(30, 10)
class AccessRequest(Method, frozen=True, kw_only=True):
    """Ask for a ticket, as clients of AMQP 0-8 do."""

    realm: ShortStr = ""
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


@_method(30, 11)
class AccessRequestOk(Method, frozen=True, kw_only=True):
    """A ticket that nobody looks at."""

    ticket: Short = 1


# -- exchange


@_method(40, 10)
class ExchangeDeclare(Method, frozen=True, kw_only=True):
    """Make an exchange, or see whether it is there."""

    reserved_1: Short = 0
    exchange: ShortStr = ""
    type: ShortStr = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


@_method(40, 11)
class ExchangeDeclareOk(Method, frozen=True, kw_only=True):
    """It is there."""


@_method(40, 20)
class ExchangeDelete(Method, frozen=True, kw_only=True):
    """Delete an exchange."""

    reserved_1: Short = 0
    exchange: ShortStr = ""
    if_unused: Bit = False
    nowait: Bit = False


@_method(40, 21)
class ExchangeDeleteOk(Method, frozen=True, kw_only=True):
    """It is gone."""


@_method(40, 30)
class ExchangeBind(Method, frozen=True, kw_only=True):
    """Bind an exchange to another one."""

    reserved_1: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


@_method(40, 31)
class ExchangeBindOk(Method, frozen=True, kw_only=True):
    """They are bound."""


@_method(40, 40)
class ExchangeUnbind(Method, frozen=True, kw_only=True):
    """Undo such a binding."""

    reserved_1: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


@_method(40, 51)
class ExchangeUnbindOk(Method, frozen=True, kw_only=True):
    """It is gone."""


# -- queue


@_method(50, 10)
class QueueDeclare(Method, frozen=True, kw_only=True):
    """Make a queue, or see whether it is there."""

    reserved_1: Short = 0
    queue: ShortStr = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


@_method(50, 11)
class QueueDeclareOk(Method, frozen=True, kw_only=True):
    """It is there."""

    queue: ShortStr = ""
    message_count: Long = 0
    consumer_count: Long = 0


@_method(50, 20)
class QueueBind(Method, frozen=True, kw_only=True):
    """Bind a queue to an exchange."""

    reserved_1: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


@_method(50, 21)
class QueueBindOk(Method, frozen=True, kw_only=True):
    """It is bound."""


@_method(50, 30)
class QueuePurge(Method, frozen=True, kw_only=True):
    """Drop all messages that are ready."""

    reserved_1: Short = 0
    queue: ShortStr = ""
    nowait: Bit = False


@_method(50, 31)
class QueuePurgeOk(Method, frozen=True, kw_only=True):
    """They are dropped."""

    message_count: Long = 0


@_method(50, 40)
class QueueDelete(Method, frozen=True, kw_only=True):
    """Delete a queue."""

    reserved_1: Short = 0
    queue: ShortStr = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


@_method(50, 41)
class QueueDeleteOk(Method, frozen=True, kw_only=True):
    """It is gone."""

    message_count: Long = 0


@_method(50, 50)
class QueueUnbind(Method, frozen=True, kw_only=True):
    """Undo a queue's binding."""

    reserved_1: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    arguments: Table = msgspec.field(default_factory=dict)


@_method(50, 51)
class QueueUnbindOk(Method, frozen=True, kw_only=True):
    """It is gone."""


# -- basic


@_method(60, 10)
class BasicQos(Method, frozen=True, kw_only=True):
    """How many messages may be unacknowledged."""

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    is_global: Bit = False


@_method(60, 11)
class BasicQosOk(Method, frozen=True, kw_only=True):
    """So it is done."""


@_method(60, 20)
class BasicConsume(Method, frozen=True, kw_only=True):
    """Have a queue's messages delivered."""

    reserved_1: Short = 0
    queue: ShortStr = ""
    consumer_tag: ShortStr = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Table = msgspec.field(default_factory=dict)


@_method(60, 21)
class BasicConsumeOk(Method, frozen=True, kw_only=True):
    """They will be."""

    consumer_tag: ShortStr = ""


@_method(60, 30)
class BasicCancel(Method, frozen=True, kw_only=True):
    """No more deliveries; either side may say so."""

    consumer_tag: ShortStr = ""
    nowait: Bit = False


@_method(60, 31)
class BasicCancelOk(Method, frozen=True, kw_only=True):
    """None will come."""

    consumer_tag: ShortStr = ""


@_method(60, 40, has_content=True)
class BasicPublish(Method, frozen=True, kw_only=True):
    """A message."""

    reserved_1: Short = 0
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    mandatory: Bit = False
    immediate: Bit = False


@_method(60, 50, has_content=True)
class BasicReturn(Method, frozen=True, kw_only=True):
    """A message that nobody gets."""

    reply_code: Short = 0
    reply_text: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@_method(60, 60, has_content=True)
class BasicDeliver(Method, frozen=True, kw_only=True):
    """A message for a consumer."""

    consumer_tag: ShortStr = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@_method(60, 70)
class BasicGet(Method, frozen=True, kw_only=True):
    """Ask for one message."""

    reserved_1: Short = 0
    queue: ShortStr = ""
    no_ack: Bit = False


@_method(60, 71, has_content=True)
class BasicGetOk(Method, frozen=True, kw_only=True):
    """That message."""

    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    message_count: Long = 0


@_method(60, 72)
class BasicGetEmpty(Method, frozen=True, kw_only=True):
    """There is none."""

    reserved_1: ShortStr = ""


@_method(60, 80)
class BasicAck(Method, frozen=True, kw_only=True):
    """Deliveries are done with, or publishes are safe."""

    delivery_tag: LongLong = 0
    multiple: Bit = False


@_method(60, 90)
class BasicReject(Method, frozen=True, kw_only=True):
    """A delivery is not wanted."""

    delivery_tag: LongLong = 0
    requeue: Bit = True


@_method(60, 100)
class BasicRecoverAsync(Method, frozen=True, kw_only=True):
    """Redeliver, without an answer."""

    requeue: Bit = False


@_method(60, 110)
class BasicRecover(Method, frozen=True, kw_only=True):
    """Redeliver what is unacknowledged."""

    requeue: Bit = False


@_method(60, 111)
class BasicRecoverOk(Method, frozen=True, kw_only=True):
    """It will be."""


@_method(60, 120)
class BasicNack(Method, frozen=True, kw_only=True):
    """Deliveries are not wanted, or publishes are lost."""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


# -- confirm


@_method(85, 10)
class ConfirmSelect(Method, frozen=True, kw_only=True):
    """Confirm what this channel publishes."""

    nowait: Bit = False


@_method(85, 11)
class ConfirmSelectOk(Method, frozen=True, kw_only=True):
    """It will be."""


# -- tx


@_method(90, 10)
class TxSelect(Method, frozen=True, kw_only=True):
    """Publish and acknowledge in transactions."""


@_method(90, 11)
class TxSelectOk(Method, frozen=True, kw_only=True):
    """So it is done."""


@_method(90, 20)
class TxCommit(Method, frozen=True, kw_only=True):
    """End a transaction."""


@_method(90, 21)
class TxCommitOk(Method, frozen=True, kw_only=True):
    """It is done."""


@_method(90, 30)
class TxRollback(Method, frozen=True, kw_only=True):
    """Undo a transaction."""


@_method(90, 31)
class TxRollbackOk(Method, frozen=True, kw_only=True):
    """It is undone."""
