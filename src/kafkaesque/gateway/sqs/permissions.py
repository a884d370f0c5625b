"""The policies of queues, which are shown and not obeyed."""

from __future__ import annotations

import json
import re
from typing import Final

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.gateway.sqs.attributes import QueueOptions
from kafkaesque.gateway.sqs.call import Call, RequestT
from kafkaesque.gateway.sqs.changing import Changing
from kafkaesque.gateway.sqs.finding import QueueFinder
from kafkaesque.protocols.sqs import service as s
from kafkaesque.protocols.sqs.errors import SqsError, invalid_value
from kafkaesque.protocols.sqs.names import read_url, write_arn

LABEL_LENGTH_MAX: Final = 80
_LABEL: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{LABEL_LENGTH_MAX}}}")
_ACCOUNT: Final = re.compile(r"[0-9]{12}")
STATEMENTS_MAX: Final = 7


class Permissions:
    """See the module."""

    __slots__ = ("_changing", "_finder")

    def __init__(self, changing: Changing, finder: QueueFinder) -> None:
        self._changing = changing
        self._finder = finder

    def add(self, call: Call[s.AddPermissionRequest]) -> None:
        """Add a statement to a queue's policy, which is shown and not obeyed.

        Raises:
            SqsError: the URL is none, or the statement not allowed.
        """
        request = call.request
        _check_statement(request)
        name = read_url(request.queue_url)
        statement: dict[str, object] = {
            "Sid": request.label,
            "Effect": "Allow",
            "Principal": {"AWS": [f"arn:aws:iam::{each}:root" for each in request.aws_account_ids]},
            "Action": [f"SQS:{each}" for each in request.actions],
            "Resource": write_arn(name),
        }

        def go_on(queue: QueueState) -> None:
            statements = _statements(queue)
            if any(each.get("Sid") == request.label for each in statements):
                raise invalid_value(
                    f"Value {request.label} for parameter Label is invalid. Reason: Already exists."
                )
            if len(statements) >= STATEMENTS_MAX:
                raise SqsError(
                    "OverLimit", f"{STATEMENTS_MAX} statements are the most that a policy has."
                )
            self._change_policy(call, name, [*statements, statement])

        self._finder.find(call, name, go_on)

    def remove(self, call: Call[s.RemovePermissionRequest]) -> None:
        """Remove a statement of a queue's policy.

        Raises:
            SqsError: the URL is none.
        """
        label, name = call.request.label, read_url(call.request.queue_url)

        def go_on(queue: QueueState) -> None:
            statements = _statements(queue)
            kept = [each for each in statements if each.get("Sid") != label]
            if len(kept) == len(statements):
                raise invalid_value(
                    f"Value {label} for parameter Label is invalid. Reason: can't find label."
                )
            self._change_policy(call, name, kept)

        self._finder.find(call, name, go_on)

    def _change_policy(
        self, call: Call[RequestT], name: str, statements: list[dict[str, object]]
    ) -> None:
        policy = {"Version": "2012-10-17", "Id": f"{write_arn(name)}/SQSDefaultPolicy"}
        said = json.dumps({**policy, "Statement": statements}) if statements else None
        self._changing.change(call, name, {"sqs.policy": said})


def _check_statement(request: s.AddPermissionRequest) -> None:
    if _LABEL.fullmatch(request.label) is None:
        raise invalid_value(
            f"A label has 1 to {LABEL_LENGTH_MAX} letters, digits, hyphens and underscores."
        )
    for account in request.aws_account_ids:
        if _ACCOUNT.fullmatch(account) is None:
            raise invalid_value(f"Value {account} for parameter PrincipalId is invalid.")
    for action in request.actions:
        if action != "*" and action not in s.OPERATIONS:
            raise invalid_value(f"Value {action} for parameter ActionName is invalid.")


def _statements(queue: QueueState) -> list[dict[str, object]]:
    said = QueueOptions(queue.options).policy
    found = json.loads(said).get("Statement", []) if said else []
    return found if isinstance(found, list) else [found]
