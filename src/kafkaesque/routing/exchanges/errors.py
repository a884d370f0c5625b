"""Why an exchange or a binding cannot be made, changed or used."""

from kafkaesque.model.errors import RequestRefused


class NoSuchVhost(RequestRefused):
    """No virtual host of this name exists."""


class NoSuchExchange(RequestRefused):
    """No exchange of this name exists in the virtual host."""


class NoSuchQueue(RequestRefused):
    """No queue of this name exists in the virtual host."""


class NoSuchTopic(RequestRefused):
    """A binding would lead to a topic that does not exist."""


class ExchangeReserved(RequestRefused):
    """The exchange, or its name, is the broker's."""


class ExchangeInUse(RequestRefused):
    """The exchange was to be deleted only if it has no bindings, and it has some."""


class ExchangeInternal(RequestRefused):
    """Only other exchanges pass messages to this one."""


class InequivalentExchange(RequestRefused):
    """An exchange of this name exists, and is another one."""


class UnknownExchangeKind(RequestRefused):
    """There is no such type of exchange."""


class NoSuchTransformation(RequestRefused):
    """No transformation of this name exists in the virtual host."""


class TransformationInUse(RequestRefused):
    """The transformation was to be removed, and bindings name it."""


class BadArgument(RequestRefused):
    """An argument of an exchange or a binding has a value that it cannot have."""


class BadHeader(RequestRefused):
    """A message's header that routing goes by has a value that it cannot have."""
