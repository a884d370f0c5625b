"""What a client may publish to and subscribe to: rules on subjects.

A subject is named in rules as every protocol's names are: its levels with `/` between them
(`routing/names.py`). A subscription has to lie within what is allowed. Where a rule denies a part
of it, the messages of that part do not come. A stream stores what is published to its subjects, and
whoever reads the stream gets all of it: so who makes one has to be allowed to read all of them.
"""

from __future__ import annotations

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.options.nats import INBOX_PREFIX, capture_of, subject_resource
from kafkaesque.chassis.rights import Rights


def may_publish(rights: Rights | None, subject: str) -> bool:
    """Tell whether a client may publish to a subject; without rights it may."""
    if rights is None or subject.startswith(INBOX_PREFIX):
        return True
    return rights.may(Operation.WRITE, ResourceType.SUBJECT, subject_resource(subject))


def may_subscribe(rights: Rights | None, subject: str) -> bool:
    """Tell whether a client may subscribe; without rights it may."""
    if rights is None or is_own_inbox(subject):
        return True
    return rights.may(Operation.READ, ResourceType.SUBJECT, subject_resource(subject))


def may_share(rights: Rights | None, subject: str) -> bool:
    """Tell whether a client may join a queue group: what a member may not have, nobody gets."""
    return is_own_inbox(subject) or may_capture(rights, subject)


def may_have(rights: Rights | None, subject: str) -> bool:
    """Tell whether a client may have a message; one to its own inbox comes without a rule."""
    if rights is None:
        return True
    return rights.could(Operation.READ, ResourceType.SUBJECT, subject_resource(subject))


def may_capture(rights: Rights | None, subject: str) -> bool:
    """Tell whether a client may have all that is published to a stream's subject stored."""
    if rights is None:
        return True
    return rights.may_all_of(Operation.READ, ResourceType.SUBJECT, *capture_of(subject))


def is_own_inbox(subject: str) -> bool:
    """Tell whether a subscription is to answers that nobody else can name without being told."""
    words = subject.split(".")
    return words[0] == "_INBOX" and len(words) > 1 and words[1] not in ("*", ">")
