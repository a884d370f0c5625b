"""What a broker refuses for want of a rule, and the command that adds the rule."""

import shlex
from dataclasses import dataclass
from typing import Final

from kafkaesque.access.refusal_words import read_refusal
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.log_in import find_log_in
from kafkaesque.protocols.kafka.error_codes import ErrorCode

#: Begins every sentence about a missing rule.
NO_RULE: Final = "no rule allows"
_CLUSTER: Final = "cluster"
#: What a refusal is about, as `rule create` calls it.
_KINDS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
    ErrorCode.QUEUE_AUTHORIZATION_FAILED: "queue",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _CLUSTER,
}


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on a resource, in the words of `kafkaesque rule create`."""

    operation: str
    kind: str
    name: str = ""

    def __str__(self) -> str:
        if self.kind == _CLUSTER:
            return f"{self.operation} on the cluster"
        return f"{self.operation} on {self.kind.replace('-', ' ')} {self.name}"

    @property
    def flags(self) -> str:
        """What `rule create` is to be given after the user."""
        named = "" if self.kind == _CLUSTER else f" {shlex.quote(self.name)}"
        return f"-o {self.operation} --{self.kind}{named}"


def on_topic(operation: str, name: str) -> Right:
    """Return what is needed to do something with a topic."""
    return Right(operation, "topic", name)


def on_group(operation: str, name: str) -> Right:
    """Return what is needed to do something with a group."""
    return Right(operation, "group", name)


def on_transactional_id(operation: str, name: str) -> Right:
    """Return what is needed to do something with a transactional id."""
    return Right(operation, "transactional-id", name)


def on_queue(operation: str, name: str) -> Right:
    """Return what is needed to do something with a queue, as rules name it."""
    return Right(operation, "queue", name)


def on_cluster(operation: str) -> Right:
    """Return what is needed to do something with the cluster as a whole."""
    return Right(operation, _CLUSTER)


def missing_rule(code: int, bootstrap: str, *rights: Right) -> CommandFailed | None:
    """Return the failure for a refusal; None if it is none, or about none of these rights."""
    kind = _KINDS.get(code)  # type: ignore[call-overload]
    right = next((each for each in rights if each.kind == kind), None)
    return None if right is None else forbidden(right, bootstrap)


def check_rule(code: int, bootstrap: str, *rights: Right) -> None:
    """Raise what `missing_rule` returns, if it does.

    Raises:
        CommandFailed: no rule allows what one of these rights is about.
    """
    missing = missing_rule(code, bootstrap, *rights)
    if missing is not None:
        raise missing


def refused(words: str | None, bootstrap: str) -> CommandFailed | None:
    """Return the failure for a broker's own words about a refusal; None: they are others."""
    said = None if words is None else read_refusal(words)
    if said is None:
        return None
    operation = said.operation.name.lower().replace("_", "-")
    right = Right(operation, said.kind.name.lower().replace("_", "-"), said.name)
    if said.rule_id is None:
        return forbidden(right, bootstrap)
    return CommandFailed(
        f"rule {said.rule_id} denies {right}",
        hint="as an administrator: kafkaesque rule list --effect deny",
    )


def forbidden(right: Right, bootstrap: str) -> CommandFailed:
    """Return the failure for the lack of a right, with the command that gives it."""
    return CommandFailed(f"{NO_RULE} {right}", hint=rule_hint(right.flags, bootstrap))


def rule_hint(flags: str, bootstrap: str) -> str:
    """Return the command that adds a rule with such flags for whoever runs this one."""
    log_in = find_log_in(bootstrap)
    user = "NAME" if log_in is None else log_in.user
    who = shlex.quote(f"User:{user}")
    return f"as an administrator: kafkaesque rule create {who} {flags}"
