"""What clients are told that may not do something, and what the command line reads from it."""

import pytest

from kafkaesque.access.decisions import Decision, Reason
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal
from kafkaesque.access.refusal_words import Refused, read_refusal, refusal_words
from kafkaesque.access.rules import Effect, Rule
from kafkaesque.cli import missing_rules

WRITE, QUEUE = Operation.WRITE, ResourceType.QUEUE
NO_RULE = Decision(False, Reason.NO_RULE)
DENIED = Decision(
    False,
    Reason.DENIED,
    Rule(
        effect=Effect.DENY,
        principal=Principal("User:app"),
        operation=WRITE,
        resource_type=QUEUE,
        name="secret-",
        id=7,
    ),
)


def test_a_refusal_says_which_rule_denies_and_nothing_else_of_it() -> None:
    words = refusal_words(DENIED, WRITE, QUEUE, "mails")
    assert words == "rule 7 denies Write on queue 'mails'"
    assert refusal_words(NO_RULE, WRITE, QUEUE, "mails") == "no rule allows Write on queue 'mails'"
    disabled = Decision(False, Reason.DISABLED)
    assert refusal_words(disabled, WRITE, QUEUE, "mails").startswith("the user is disabled: Write")


@pytest.mark.parametrize("decision", [DENIED, NO_RULE])
@pytest.mark.parametrize("name", ["mails", "it's", 'a "b"', "vhost:x/y", "ü\n"])
@pytest.mark.parametrize("kind", [QUEUE, ResourceType.TRANSACTIONAL_ID])
def test_what_is_said_is_read_back(decision: Decision, name: str, kind: ResourceType) -> None:
    rule_id = None if decision.rule is None else decision.rule.id
    for operation in (WRITE, Operation.DESCRIBE_CONFIGS):
        words = refusal_words(decision, operation, kind, name)
        assert read_refusal(words) == Refused(operation, kind, name, rule_id)


def test_the_cluster_has_no_name() -> None:
    words = refusal_words(NO_RULE, Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    assert words == "no rule allows Alter on the cluster"
    assert read_refusal(words) == Refused(Operation.ALTER, ResourceType.CLUSTER, "", None)


@pytest.mark.parametrize(
    "words",
    ["", "Topic authorization failed.", "no rule allows Flight on queue 'x'", "rule x denies"],
)
def test_other_sentences_are_no_refusals_of_ours(words: str) -> None:
    assert read_refusal(words) is None
    assert missing_rules.refused(words, "-") is None


def test_the_command_line_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_rules, "find_log_in", lambda _: None)
    words = refusal_words(DENIED, WRITE, ResourceType.EXCHANGE, "logs")
    failure = missing_rules.refused(words, "-")
    assert failure is not None
    assert failure.message == "rule 7 denies write on exchange logs"
    assert failure.hint == "as an administrator: kafkaesque rule list --effect deny"
    words = refusal_words(NO_RULE, Operation.CREATE, ResourceType.VHOST, "shop")
    failure = missing_rules.refused(words, "-")
    assert failure is not None
    assert failure.hint.endswith("kafkaesque rule create User:NAME -o create --vhost shop")
