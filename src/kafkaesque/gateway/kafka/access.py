"""DescribeAccess and AlterAccess: users, roles and explanations, which Kafka has no APIs for.

They are ours, with numbers far beyond Kafka's (ADR 26). What is asked and answered is JSON.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from kafkaesque.access.access_keys import find_access_key
from kafkaesque.access.administration import (
    AskExposure,
    AskGrants,
    AskRoles,
    AskUsers,
    Change,
    ChangeUser,
    DeleteAccessKey,
    DeleteRole,
    DeleteUser,
    Done,
    Exposure,
    MadeAccessKey,
    MakeAccessKey,
    MakeRole,
    Question,
    ShownListener,
    changed_credential,
    changed_user,
    read_change,
    read_question,
    show_grants,
    show_roles,
    show_users,
)
from kafkaesque.access.errors import CredentialUnknown, KeyUnknown, RoleUnknown, UserUnknown
from kafkaesque.access.roles import Role
from kafkaesque.access.state import AccessState
from kafkaesque.broker.listeners import AccessMode, is_local_host
from kafkaesque.broker.requests.access_commands import (
    AccessCommand,
    PutCredential,
    PutRole,
    PutUser,
    RemoveCredential,
    RemoveRole,
    RemoveUser,
)
from kafkaesque.broker.requests.commands import ControllerResult
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.model.errors import InvalidRequest, InvariantBroken, RequestRefused
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
            return show_grants(state, super_users, question)
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
            commands = _commands(context.doors.access.state, change)
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


def _commands(state: AccessState, change: Change) -> list[AccessCommand]:
    """Return what the controller has to do.

    Each command says which state of a thing it was meant for: what somebody else has changed
    meanwhile is not undone.

    Raises:
        UserUnknown, RoleUnknown, CredentialUnknown: there is none.
    """
    match change:
        case ChangeUser():
            return _changes_of_user(state, change)
        case DeleteUser():
            return [RemoveUser(name=change.name)]
        case MakeRole():
            role = Role(name=change.name, description=change.description)
            known = state.roles.get(change.name)
            return [PutRole(role=role, epoch=0 if known is None else known.epoch)]
        case DeleteRole():
            return [RemoveRole(name=change.name)]
        case DeleteAccessKey():
            found = find_access_key(state, change.access_key_id)
            if found is None:
                raise CredentialUnknown(f"there is no access key {change.access_key_id!r}")
            return [RemoveCredential(id=found.id)]
        case MakeAccessKey():
            raise InvariantBroken("a new access key is made by itself")


def _changes_of_user(state: AccessState, change: ChangeUser) -> list[AccessCommand]:
    user = state.users.get(change.name)
    if user is None:
        raise UserUnknown(f"there is no user {change.name!r}")
    missing = [each for each in change.add_roles if each not in state.roles]
    if missing:
        raise RoleUnknown(f"there is no role {missing[0]!r}")
    commands: list[AccessCommand] = []
    for each in state.credentials_of(user.name):
        changed = changed_credential(each, change)
        if changed != each:
            commands.append(PutCredential(credential=changed, epoch=each.epoch))
    changed_to = changed_user(user, change)
    if changed_to != user:
        commands.append(PutUser(user=changed_to, epoch=user.epoch))
    return commands
