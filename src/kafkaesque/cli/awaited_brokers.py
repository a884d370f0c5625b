"""Which brokers of a cluster are still to come, for who waits for all that it knows."""

from kafkaesque.cli.doctor.facts import Facts
from kafkaesque.cli.doctor.findings import in_words
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.quorum import read_quorum
from kafkaesque.cli.screen import counted

#: An option that only our brokers have: of Apache Kafka's, controllers may be no brokers.
_OURS = "admin.listener"


def awaited_brokers(facts: Facts) -> list[str]:
    """Return which brokers do not answer, in a sentence; none if all that are known do.

    Known are those that are registered, up or not, those that have replicas, and the controllers:
    while a new cluster starts, its other brokers are known as such only.
    """
    try:
        known = sorted({*facts.known_brokers, *_controllers(facts)})
    except CommandFailed as failure:
        return [failure.message]
    missing = [node for node in known if not facts.answers(node)]
    if not missing:
        return []
    verb = "does" if len(missing) == 1 else "do"
    return [
        f"{len(known) - len(missing)} of {counted(len(known), 'broker')} answer, and "
        f"{in_words(missing)} {verb} not (--brokers says for how many to wait)"
    ]


def _controllers(facts: Facts) -> list[int]:
    """Return the controllers, as admin ports or the one that leads say.

    Raises:
        CommandFailed: no controller leads.
    """
    if facts.controllers or not any(_OURS in each.options for each in facts.brokers):
        return facts.controllers
    return read_quorum(facts.alive_addresses).voters
