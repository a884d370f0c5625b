"""What an option of a queue says of the session of MQTT that the queue is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kafkaesque.broker.options.queues import MQTT_SESSION, MQTT_SHARE

#: Of a binding that was made for a subscription: its filter, and the quality of service.
FILTER_ARGUMENT: Final = "mqtt.filter"
QOS_ARGUMENT: Final = "mqtt.qos"


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an option of the queue says."""

    version: int = 1
    client_id: str
    #: Who may resume it; empty: nobody in particular.
    user: str = ""
    expiry_s: int = 0
    #: The consumer of the connection that has it: broker, incarnation, number.
    owner: str = ""
    #: By which notes in the queue are known to be the session's own.
    secret: str = ""
    #: Filters with `$share`, as the client has written them: QoS and subscription identifier.
    shared: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)


_decoder: Final = msgspec.json.Decoder(SessionRecord)


def is_session(options: Mapping[str, str]) -> bool:
    """Tell whether a queue is a session, or a shared subscription of several."""
    return bool(options.get(MQTT_SESSION) or options.get(MQTT_SHARE))


def read_session(options: Mapping[str, str]) -> SessionRecord | None:
    """Return what a queue's options say of the session that it is; None: it is none."""
    said = options.get(MQTT_SESSION)
    if not said:
        return None
    try:
        return _decoder.decode(said)
    except msgspec.MsgspecError:
        return None


def shown_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return a queue's options as people see them: a session's secret is not theirs."""
    record = read_session(options)
    if record is None:
        return options
    said = msgspec.json.encode(msgspec.structs.replace(record, secret="")).decode()
    return {**options, MQTT_SESSION: said}
