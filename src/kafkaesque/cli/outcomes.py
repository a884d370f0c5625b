"""What became of each of several names, where each is done by itself."""

from collections.abc import Mapping
from concurrent.futures import Future

import typer

from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import result_of
from kafkaesque.cli.missing_rules import Right
from kafkaesque.cli.screen import Screen


def tell_deleted(screen: Screen, requests: Mapping[str, "Future[None]"], kind: str) -> None:
    """Wait for the deletion of each name, and tell which are deleted and which are not, and why.

    `kind` is a topic or a group, as `kafkaesque rule create` calls it.

    Raises:
        CommandFailed: there was one name, and it is not deleted.
        typer.Exit: at least one of several is not.
    """
    deleted: list[str] = []
    failures: dict[str, CommandFailed] = {}
    for name, future in requests.items():
        try:
            result_of(future, f"{kind} {name}", Right("delete", kind, name))
            deleted.append(name)
        except CommandFailed as failure:
            failures[name] = failure
    if failures and len(requests) == 1:
        raise next(iter(failures.values()))
    document: dict[str, object] = {"deleted": deleted}
    if failures:
        document["failed"] = {name: failure.message for name, failure in failures.items()}
    sentence = f"deleted {', '.join(deleted)}" if deleted else "deleted nothing"
    screen.done(sentence, document)
    for told in failures.values():
        told.show()
    if failures:
        codes = {failure.exit_code for failure in failures.values()}
        raise typer.Exit(FAILED if deleted or len(codes) > 1 else codes.pop())
