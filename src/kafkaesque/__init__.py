"""Kafkaesque: one replicated log behind every messaging protocol."""

from importlib import import_module

__version__ = "0.2.0.dev0"

__all__ = ["AsyncClient", "Client", "Event", "Filter", "Message", "Reject", "Retry"]

#: Where each name is. The client is loaded when somebody asks for it, and never by a broker: so
#: there is no import here, and `__init__.pyi` says the types.
_PLACES = {
    "AsyncClient": "client.async_client",
    "Client": "client.client",
    "Event": "client.streams.records",
    "Filter": "client.events.filters",
    "Message": "client.message",
    "Reject": "client.working",
    "Retry": "client.working",
}


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)
