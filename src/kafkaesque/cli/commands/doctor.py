"""`kafkaesque doctor`: what is wrong with a cluster, why, and what helps."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    AGE_S_MAX,
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    number_option,
)
from kafkaesque.cli.screen import Screen, counted

if TYPE_CHECKING:
    from kafkaesque.cli.doctor.facts import Facts
    from kafkaesque.cli.doctor.findings import Finding

#: Its exit codes are a checker's: 0 is healthy, 1 is not; 3 is that nobody answers, as everywhere.
HAS_FINDINGS = 1
#: With the name of the user in front: what the doctor asks for.
_RULE_FLAGS = "-o describe -o describe-configs --cluster"

app = new_app()


@app.command()
def doctor(
    disk_free: Annotated[
        float,
        number_option(least=0, most=100, help="Warn below this percentage of free disk space."),
    ] = 15.0,
    clock: Annotated[
        float, number_option(least=0, most=AGE_S_MAX, help="Warn if clocks differ by more seconds.")
    ] = 1.0,
    lag: Annotated[
        float,
        number_option(
            least=0, most=AGE_S_MAX, help="Warn if a group is further behind, in seconds."
        ),
    ] = 300.0,
    transaction: Annotated[
        float,
        number_option(
            least=0, most=AGE_S_MAX, help="Warn if a transaction is open for longer, in seconds."
        ),
    ] = 900.0,
    certificate: Annotated[
        float,
        number_option(least=0, most=AGE_S_MAX, help="Warn if a certificate ends sooner, in days."),
    ] = 30.0,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Say what is wrong with a cluster, why, and what helps.

    Works if half of the brokers are down, as long as one answers. Ends with 0 if nothing is wrong,
    with 1 if there are findings, and with 3 if no broker answers. docs/operations.md explains each
    finding by the name that stands in brackets.

    \b
    Example:
      kafkaesque doctor
      kafkaesque doctor --bootstrap-server 10.0.0.7:9092,10.0.0.8:9092 --lag 60 --json
    """
    from kafkaesque.cli.doctor.access_probe import look_at_access
    from kafkaesque.cli.doctor.checks import diagnose
    from kafkaesque.cli.doctor.findings import Limits
    from kafkaesque.cli.doctor.probe import look_closely

    limits = Limits(
        disk_free_percent=disk_free,
        clock_s=clock,
        lag_s=lag,
        transaction_s=transaction,
        certificate_days=certificate,
    )
    facts = look_at_access(look_closely(bootstrap, transaction_s=transaction))
    found = diagnose(facts, limits)
    screen = Screen(json=json)
    if json:
        screen.show_json(_document(facts, found))
    else:
        _show(facts, found)
    if found:
        raise typer.Exit(HAS_FINDINGS)


def _document(facts: "Facts", found: "list[Finding]") -> dict[str, object]:
    from kafkaesque.cli.moving_replicas import moves_document

    findings = [{**asdict(each), "severity": each.severity.value} for each in found]
    return {
        "cluster_id": facts.view.cluster_id,
        "brokers": facts.known_brokers,
        "partitions": len(facts.view.partitions),
        "findings": findings,
        "moves": moves_document(facts.moves),
        "unseen": list(facts.unseen),
    }


def _show(facts: "Facts", found: "list[Finding]") -> None:
    from kafkaesque.cli.doctor.checks import moves_that_go_on
    from kafkaesque.cli.missing_rules import NO_RULE, rule_hint
    from kafkaesque.cli.moving_replicas import sentences

    for finding in found:
        print(f"{finding.severity.value}: {finding.what}  [{finding.check}]")
        print(f"    cause: {finding.cause}")
        print(f"    try:   {finding.command}")
    if moves := moves_that_go_on(facts, found):
        print("moves in progress (not a problem):")
        for each in sentences(moves):
            print(f"    {each}")
    if facts.unseen:
        print("not looked at:")
        for each in facts.unseen:
            print(f"    {each}")
        if any(NO_RULE in each for each in facts.unseen):
            print(f"    try:   {rule_hint(_RULE_FLAGS, facts.alive_addresses)}")
            print("           and the same with --topic '*', --group '*', --transactional-id '*'")
    brokers = counted(len(facts.known_brokers), "broker")
    partitions = counted(len(facts.view.partitions), "partition")
    nothing = "nothing is wrong"
    if facts.unseen:
        nothing += " in what was looked at"
    what = counted(len(found), "finding") if found else nothing
    print(f"{brokers}, {partitions}: {what}")
