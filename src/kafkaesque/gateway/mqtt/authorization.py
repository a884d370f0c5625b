"""What a client may do: rules for topics say who writes and reads which names of MQTT.

A rule's name is a topic as MQTT writes it, or what it begins with. Who subscribes needs Read on the
filter as it is written, and on the name of each message that comes: a filter is wider than a name.
"""

from __future__ import annotations

from typing import Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.routing.names import NameKey

_TOPIC: Final = ResourceType.TOPIC


def may_publish(link: MqttLink, topic: str) -> bool:
    """Tell whether a client may publish to a topic; without rights it may."""
    rights = link.rights
    return rights is None or rights.may(Operation.WRITE, _TOPIC, topic)


def may_subscribe(link: MqttLink, topic_filter: str) -> bool:
    """Tell whether a client may subscribe to a filter; without rights it may."""
    rights = link.rights
    return rights is None or rights.may(Operation.READ, _TOPIC, topic_filter)


def may_share(link: MqttLink, topic_filter: str) -> bool:
    """Tell whether a client may share a filter: what a member may not have, nobody gets."""
    rights = link.rights
    if rights is None:
        return True
    end = min((topic_filter.index(each) for each in "+#" if each in topic_filter), default=None)
    return rights.may_all_of(Operation.READ, _TOPIC, topic_filter, topic_filter[:end])


def may_receive(link: MqttLink, key: NameKey) -> bool:
    """Tell whether a client may have a message that it has subscribed to."""
    rights = link.rights
    return rights is None or rights.could(Operation.READ, _TOPIC, key)
