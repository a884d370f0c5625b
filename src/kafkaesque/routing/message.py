"""A message as routing sees it."""

from collections.abc import Mapping

import msgspec

#: Larger bodies are not looked into.
JSON_BYTES_MAX = 1024 * 1024

_decoder = msgspec.json.Decoder()


class RoutedMessage:
    """What exchanges, selectors and rules look at.

    Headers and properties have the values that the protocol's codec gave: None, bool, int, float,
    str, bytes, and whatever else it knows. Properties have AMQP's names, such as `message_id`.
    The body is decoded as JSON when somebody first asks for something in it.
    """

    __slots__ = ("_has_json", "_json", "body", "headers", "key", "properties")

    def __init__(
        self,
        *,
        key: str = "",
        headers: Mapping[str, object] | None = None,
        properties: Mapping[str, object] | None = None,
        body: bytes | memoryview = b"",
    ) -> None:
        """Take the name as AMQP writes it (its routing key), and what the publisher has sent."""
        self.key = key
        self.headers: Mapping[str, object] = headers if headers is not None else {}
        self.properties: Mapping[str, object] = properties if properties is not None else {}
        self.body = body
        self._has_json = False
        self._json: object = None

    @property
    def json(self) -> object:
        """The body as JSON; None also if it is none, or above `JSON_BYTES_MAX`."""
        if not self._has_json:
            self._json = read_json(self.body)
            self._has_json = True
        return self._json


def read_json(body: bytes | memoryview) -> object:
    """Return what a body says in JSON; None also if it is none, or above `JSON_BYTES_MAX`."""
    if not 0 < len(body) <= JSON_BYTES_MAX:
        return None
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
