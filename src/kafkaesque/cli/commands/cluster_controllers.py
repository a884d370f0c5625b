"""`kafkaesque cluster controllers`: who votes on the cluster's metadata, and who is to."""

from dataclasses import asdict
from typing import Any

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    BrokerArgument,
    JsonOption,
    TimeoutOption,
    new_app,
)
from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Screen, Table

#: An answer may come so much later than it was asked for.
SLACK_S = 10.0
#: A removal is waited for this long by the broker that is asked.
REMOVAL_S = 30.0

app = new_app(invoke_without_command=True, no_args_is_help=False)


@app.callback()
def controllers(
    context: typer.Context,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show which brokers vote on the cluster's metadata, which leads, and how far behind each is.

    For a broker that is down or hangs, it is not known how far behind it is.

    \b
    Example:
      kafkaesque cluster controllers
      kafkaesque cluster controllers add 4
      kafkaesque cluster controllers remove 1
    """
    from kafkaesque.cli.doctor.probe import look
    from kafkaesque.cli.quorum import read_quorum, with_hanging

    if context.invoked_subcommand is not None:
        return
    facts = look(bootstrap)
    # Those that hang would be waited for again.
    quorum = read_quorum(facts.alive_addresses or bootstrap)
    found = with_hanging(quorum, facts.hanging_brokers)
    rows = [
        (
            each.broker,
            "leads" if each.leads else "votes" if each.votes else "no vote",
            each.state,
            each.behind,
        )
        for each in found.members
    ]
    table = Table(columns=("BROKER", "CONTROLLER", "STATE", "RECORDS-BEHIND"), rows=list(rows))
    Screen(json=json).show(table, asdict(found))


@app.command()
def add(
    broker: BrokerArgument,
    timeout: TimeoutOption = 60.0,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Add a controller: a broker that is up votes as soon as it has the controllers' log.

    Ends with 5 if that takes longer than the timeout; the change continues, and `remove` takes it
    back.

    \b
    Example:
      kafkaesque cluster controllers add 4
    """
    from kafkaesque.cli.kafka_request import ask
    from kafkaesque.cli.long_wait import LongWait
    from kafkaesque.protocols.kafka.api_table import ApiKey
    from kafkaesque.protocols.kafka.messages.add_raft_voter_request import AddRaftVoterRequest

    request = AddRaftVoterRequest(
        cluster_id=None, timeout_ms=int(timeout * 1000), voter_id=broker, listeners=[]
    )
    with LongWait(Screen().note, f"broker {broker} to get the controllers' log"):
        answer = ask(bootstrap, ApiKey.ADD_RAFT_VOTER, 1, request, timeout + SLACK_S)
    _finish(answer, bootstrap, broker, f"broker {broker} is a controller", json=json)


@app.command()
def remove(
    broker: BrokerArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove a controller: its broker, up or not, loses its vote and stays in the cluster.

    A controller that leads hands over first.

    \b
    Example:
      kafkaesque cluster controllers remove 1
    """
    from kafkaesque.cli.kafka_request import ask
    from kafkaesque.protocols.kafka.api_table import ApiKey
    from kafkaesque.protocols.kafka.messages.remove_raft_voter_request import (
        RemoveRaftVoterRequest,
    )

    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=broker)
    answer = ask(bootstrap, ApiKey.REMOVE_RAFT_VOTER, 0, request, REMOVAL_S + SLACK_S)
    _finish(answer, bootstrap, broker, f"broker {broker} is no controller any more", json=json)


def _finish(answer: Any, bootstrap: str, broker: int, done: str, *, json: bool) -> None:
    from kafkaesque.cli.missing_rules import check_rule, on_cluster
    from kafkaesque.cli.quorum import read_quorum
    from kafkaesque.protocols.kafka.error_codes import ErrorCode

    check_rule(answer.error_code, bootstrap, on_cluster("alter"))
    if answer.error_code:
        late = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)
        is_late = answer.error_code in late
        raise CommandFailed(
            str(answer.error_message),
            hint="kafkaesque cluster controllers",
            **({"exit_code": TIMED_OUT} if is_late else {}),
        )
    found = read_quorum(bootstrap)
    Screen(json=json).done(
        f"{done}; {found.summary}", {"broker": broker, "controllers": found.voters}
    )
