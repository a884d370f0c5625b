"""DescribeAccess and AlterAccess: users, roles and explanations, which Kafka has no APIs for.

They are ours, with numbers far beyond Kafka's (ADR 26). What is asked and answered is JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from kafkaesque.access.administration import (
    AskExposure,
    AskGrants,
    AskRoles,
    AskUsers,
    Done,
    Exposure,
    MadeAccessKey,
    MakeAccessKey,
    Question,
    ShownListener,
    read_change,
    read_question,
    show_roles,
    show_users,
)
from kafkaesque.access.errors import KeyUnknown
from kafkaesque.access.state import AccessState
from kafkaesque.broker.listeners import AccessMode, is_local_host
from kafkaesque.broker.metadata.access_changes import commands_of
from kafkaesque.broker.requests.access_commands import (
    AccessCommand,
    PutCredential,
)
from kafkaesque.broker.requests.commands import ControllerResult
from kafkaesque.chassis.grants import explain_grants
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.protocols.kafka.messages.alter_access_request import AlterAccessRequest
from kafkaesque.protocols.kafka.messages.alter_access_response import AlterAccessResponse
from kafkaesque.protocols.kafka.messages.describe_access_request import DescribeAccessRequest
from kafkaesque.protocols.kafka.messages.describe_access_response import DescribeAccessResponse

#: The requests say no time.
TIMEOUT_MS: Final = 10_000


def on_describe_access(context: Context, call: Call) -> None:
    """Answer a question by this broker's copy of the rules."""
    request: DescribeAccessRequest = call.read()
    try:
        answer = _answer(context, read_question(request.question))
    except RequestRefused as refusal:
        response = DescribeAccessResponse(
            error_code=code_of(refusal), error_message=message_of(refusal)
        )
    else:
        response = DescribeAccessResponse(error_message=None, answer=msgspec.json.encode(answer))
    call.answer(response)


def _answer(context: Context, question: Question) -> msgspec.Struct:
    state, super_users = context.doors.access.state, context.doors.configuration.file.super_users
    match question:
        case AskUsers():
            return show_users(state, super_users)
        case AskRoles():
            return show_roles(state)
        case AskGrants():
            return explain_grants(context.doors.access, super_users, question)
        case AskExposure():
            return _exposure(context, state)


def _exposure(context: Context, state: AccessState) -> Exposure:
    config = context.doors.configuration.file
    shown = [
        ShownListener(
            protocol=each.protocol,
            name=each.name,
            address=str(each.address),
            advertised=str(each.advertised),
            access=each.access.value,
            has_tls=bool(each.tls),
            is_local=each.is_local,
            log_in_by=each.log_in_by.value,
        )
        for each in config.listeners
    ]
    peer = config.peer_listener or config.peer_address
    access = AccessMode.REQUIRED if config.secrets or config.peer_tls else AccessMode.OPEN
    shown.append(
        ShownListener(
            protocol="peers",
            name="peers",
            address=str(peer),
            advertised=str(config.peer_address),
            access=access.value,
            has_tls=bool(config.peer_tls) and not config.takes_peers_in_the_clear,
            is_local=is_local_host(peer.host),
        )
    )
    return Exposure(
        listeners=tuple(shown),
        epoch=state.epoch,
        has_provider=context.doors.access.takes_provider_tokens,
    )


def on_alter_access(context: Context, call: Call) -> None:
    """Have the controller make a change, which may be of several records, one after the other."""
    request: AlterAccessRequest = call.read()
    answer: msgspec.Struct = Done()

    def refuse(refusal: RequestRefused) -> None:
        call.answer(
            AlterAccessResponse(error_code=code_of(refusal), error_message=message_of(refusal))
        )

    def submit(commands: Iterator[AccessCommand]) -> None:
        command = next(commands, None)
        if command is None:
            call.answer(AlterAccessResponse(error_message=None, answer=msgspec.json.encode(answer)))
        else:
            signed = call.on_behalf(command)
            context.doors.access.submit(signed, TIMEOUT_MS, lambda it: on_outcome(commands, it))

    def on_outcome(
        commands: Iterator[AccessCommand], outcome: ControllerResult | RequestRefused
    ) -> None:
        if isinstance(outcome, RequestRefused):
            refuse(outcome)
        else:
            submit(commands)

    try:
        change = read_change(request.question)
        if isinstance(change, MakeAccessKey):
            command, answer = _new_access_key(context, call, change)
            commands: list[AccessCommand] = [command]
        else:
            commands = commands_of(context.doors.access.state, change)
    except RequestRefused as refusal:
        refuse(refusal)
    else:
        submit(iter(commands))


def _new_access_key(
    context: Context, call: Call, change: MakeAccessKey
) -> tuple[PutCredential, MadeAccessKey]:
    """Return what adds an access key, and what tells its secret.

    Raises:
        InvalidRequest: others could read the secret on its way, or there is no key to seal it with.
    """
    if not call.connection.is_private:
        raise InvalidRequest("an access key is made over TLS, or on the broker's own machine")
    try:
        credential, secret = context.doors.access.make_access_key(change.user)
    except KeyUnknown:
        raise InvalidRequest(
            "an access key is sealed by the cluster's secret: set cluster.secret.file"
        ) from None
    made = MadeAccessKey(access_key_id=credential.access_key_id, secret=secret.reveal().decode())
    return PutCredential(credential=credential, epoch=0), made
