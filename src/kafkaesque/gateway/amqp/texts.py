"""Texts of methods that become names and arguments in the cluster: UTF-8, as everywhere else.

AMQP's own texts may have any bytes. Those that are no UTF-8 fit into no request to another broker,
into no rule and into no option.
"""

from __future__ import annotations

from typing import Final

from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.protocols.amqp.errors import ReplyCode
from kafkaesque.protocols.amqp.methods import Method

#: The client's own, which nobody else hears of.
_OWN: Final = ("consumer_tag",)


def check_texts(method: Method) -> None:
    """Check the texts of a method.

    Raises:
        AmqpError: one is no UTF-8.
    """
    for field in method.__struct_fields__:
        if field not in _OWN and not _is_unicode(getattr(method, field)):
            what = f"the {field} of a method cannot be kept: a text in it is no UTF-8"
            raise failed(ReplyCode.PRECONDITION_FAILED, what, type(method))


def _is_unicode(value: object) -> bool:
    match value:
        case str():
            return value.isascii() or _can_be_encoded(value)
        case dict():
            return all(_is_unicode(name) and _is_unicode(each) for name, each in value.items())
        case list() | tuple():
            return all(_is_unicode(each) for each in value)
        case _:
            return True


def _can_be_encoded(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
