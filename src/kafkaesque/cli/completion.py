"""Names that the shell completes: of contexts, and of topics, groups and queues of their cluster.

A shell that waits is worse than one that knows nothing: what does not come at once is not offered,
and no error is told.
"""

import os
from collections.abc import Callable
from typing import Annotated, Final

import typer

from kafkaesque.cli import contexts
from kafkaesque.cli.arguments import BOOTSTRAP_DEFAULT

#: A shell waits so long at most.
ANSWER_S_MAX: Final = 2.0
#: As many are offered: more than these nobody reads.
NAMES_MAX: Final = 200
_METADATA_VERSION: Final = 9


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return topics that begin so; the brokers' own only where they are asked for."""
    return _fitting(_topics, context, incomplete)


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return consumer groups that begin so."""
    return _fitting(_groups, context, incomplete)


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return queues of the default virtual host that begin so."""
    return _fitting(_queues, context, incomplete)


def _fitting(
    read: Callable[[str], list[str]], context: typer.Context, incomplete: str
) -> list[str]:
    try:
        names = read(_bootstrap(context))
    except (Exception, SystemExit):  # Whatever it is: the shell has no place to say it.
        return []
    is_own = incomplete.startswith("__")
    found = [each for each in sorted(names) if each.startswith(incomplete)]
    return [each for each in found if is_own or not each.startswith("__")][:NAMES_MAX]


def _bootstrap(context: typer.Context) -> str:
    """Return which cluster is meant, and have the environment say how to log in there.

    While a shell completes, options are not looked up in the environment, and the top command,
    which applies contexts, is not run.
    """
    chosen = context.find_root().params.get("cluster") or os.environ.get(contexts.CHOICE_VARIABLE)
    contexts.apply(chosen or None, os.environ)
    given = context.params.get("bootstrap") or BOOTSTRAP_DEFAULT
    if given != BOOTSTRAP_DEFAULT:
        return str(given)
    return os.environ.get("KAFKAESQUE_BOOTSTRAP_SERVER") or BOOTSTRAP_DEFAULT


def context_names(incomplete: str) -> list[str]:
    """Return contexts that begin so."""
    try:
        found = contexts.read_contexts().contexts
    except Exception:  # See above.
        return []
    return [each for each in sorted(found) if each.startswith(incomplete)][:NAMES_MAX]


def _topics(bootstrap: str) -> list[str]:
    from kafkaesque.cli.kafka_request import ask
    from kafkaesque.protocols.kafka.api_table import ApiKey
    from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest

    request = MetadataRequest(topics=None)
    answer = ask(bootstrap, ApiKey.METADATA, _METADATA_VERSION, request, ANSWER_S_MAX)
    return [each.name for each in answer.topics]


def _groups(bootstrap: str) -> list[str]:
    from kafkaesque.cli.group_states import list_groups

    def drop(_: str) -> None:
        """Of brokers that do not answer nothing is said here."""

    return [each.group for each in list_groups(bootstrap, drop)]


def _queues(bootstrap: str) -> list[str]:
    from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
    from kafkaesque.cli.kafka_request import ask
    from kafkaesque.protocols.kafka.api_table import ApiKey
    from kafkaesque.protocols.kafka.messages.describe_queues_request import DescribeQueuesRequest

    request = DescribeQueuesRequest(None, False)
    answer = ask(bootstrap, ApiKey.DESCRIBE_QUEUES, 0, request, ANSWER_S_MAX)
    return [each.queue for each in answer.queues if each.vhost == DEFAULT_VHOST]


TopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", show_default=False, autocompletion=topic_names)
]
GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", show_default=False, autocompletion=group_names)
]
QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", show_default=False, autocompletion=queue_names)
]
