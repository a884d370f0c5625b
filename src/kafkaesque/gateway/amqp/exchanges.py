"""exchange.declare, delete, bind and unbind; queue.bind and unbind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import ReplyCode

if TYPE_CHECKING:
    from kafkaesque.gateway.amqp.channel import Channel


class Exchanges:
    """One channel's."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def take(self, method: m.Method) -> None:
        """Carry out a method.

        Raises:
            AmqpError: there is none but the default exchange, which nobody changes.
        """
        raise failed(ReplyCode.NOT_IMPLEMENTED, "exchanges beside the default one", method)
