"""Topic names are checked before anybody is asked."""

from collections.abc import Iterable

from kafkaesque.broker.metadata.topic_names import check_topic_name, find_collision
from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.model.errors import InvalidTopic


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a topic.

    Raises:
        CommandFailed: the sentence says what is wrong with it.
    """
    try:
        check_topic_name(name)
    except InvalidTopic as refusal:
        raise wrong_usage(str(refusal), "a name such as orders or web.clicks-2026") from None


def check_collision(name: str, existing: Iterable[str]) -> None:
    """Refuse a name that a cluster does not take beside one that it has.

    Raises:
        CommandFailed: the sentence names the other one.
    """
    other = find_collision(name, existing)
    if other is not None:
        raise CommandFailed(
            f"topic {name} cannot be made beside {other}: their names differ only by '.' and '_',"
            " which metrics cannot tell apart",
            hint=f"another name, or {other}, if you want that",
        )
