"""CreateDelegationToken, Renew, Expire and Describe (KIP-48, KIP-373).

Who asks is who has logged in, and not by a token. What a new token is made of is drawn here, and
only its hash and its verifiers go to the controller.
"""

from __future__ import annotations

import base64
from typing import Final

from kafkaesque.access.credentials import CredentialId, DelegationToken
from kafkaesque.access.delegation_tokens import (
    SECRET_BYTES,
    Requester,
    TokenConfig,
    TokenRandom,
    all_tokens,
    check_requester,
    expire,
    find_own,
    is_party,
    make_delegation_token,
    renew,
    token_owner,
)
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import ANONYMOUS, USER_PREFIX, Principal
from kafkaesque.access.secret import Secret
from kafkaesque.broker.controller.client import OnOutcome
from kafkaesque.broker.requests.access_commands import (
    AccessCommand,
    ExtendToken,
    PutCredential,
    RemoveCredential,
)
from kafkaesque.broker.requests.commands import ControllerResult
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of
from kafkaesque.model.errors import OverBound, RequestRefused, TokenNotAuthorized
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_delegation_token_request import (
    CreateDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.create_delegation_token_response import (
    CreateDelegationTokenResponse,
)
from kafkaesque.protocols.kafka.messages.describe_delegation_token_request import (
    DescribeDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from kafkaesque.protocols.kafka.messages.expire_delegation_token_request import (
    ExpireDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.expire_delegation_token_response import (
    ExpireDelegationTokenResponse,
)
from kafkaesque.protocols.kafka.messages.renew_delegation_token_request import (
    RenewDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.renew_delegation_token_response import (
    RenewDelegationTokenResponse,
)

#: The requests themselves say no time; clients wait this long by default.
TIMEOUT_MS: Final = 30_000
ID_BYTES: Final = 16
SALT_BYTES: Final = 16
#: Tokens that one broker makes at the same time: each takes milliseconds of a worker.
MAKING_MAX: Final = 16
_USER: Final = USER_PREFIX.removesuffix(":")


class PrincipalTypeUnknown(RequestRefused):
    """A token is for users, and for nobody else."""


def _requester(call: Call) -> Requester:
    """Return who asks.

    Raises:
        TokenRequestNotAllowed: somebody who came in by a token, or has not said who it is.
    """
    login = call.connection.login
    if login is None:
        requester = Requester(principal=ANONYMOUS)
    else:
        requester = Requester(principal=login.principal, is_token=login.is_token)
    check_requester(requester)
    return requester


def _config(context: Context) -> TokenConfig:
    option = context.doors.configuration.get
    lifetime_ms = int(option("delegation.token.max.lifetime.ms"))
    expiry_ms = int(option("delegation.token.expiry.time.ms"))
    return TokenConfig(lifetime_ms_max=lifetime_ms, expiry_ms=min(expiry_ms, lifetime_ms))


def _principal(kind: str, name: str) -> Principal:
    if kind != _USER:
        raise PrincipalTypeUnknown(f"a token is for users, and {kind[:64]!r} is no type of them")
    return Principal(f"{USER_PREFIX}{name}")


def _split(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


def token_code_of(refusal: RequestRefused) -> ErrorCode:
    """Return the code of what was refused of a token."""
    if isinstance(refusal, PrincipalTypeUnknown):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return code_of(refusal)


# -- CreateDelegationToken


def on_create(context: Context, call: Call) -> None:
    """Make a token, and show its secret: this once."""
    request: CreateDelegationTokenRequest = call.read()
    try:
        requester = _requester(call)
        owner = requester.principal
        if request.owner_principal_name:
            owner = _principal(request.owner_principal_type or "", request.owner_principal_name)
        renewers = tuple(
            _principal(each.principal_type, each.principal_name) for each in request.renewers
        )
        if owner != requester.principal:
            _check_may_act_for(call, owner)
        # As in Kafka, 0 stands for the longest as well.
        lifetime_ms = request.max_lifetime_ms if request.max_lifetime_ms > 0 else -1
        _make(context, call, requester, owner, renewers, lifetime_ms)
    except RequestRefused as refusal:
        _refuse_creation(call, refusal)


def _check_may_act_for(call: Call, owner: Principal) -> None:
    rights, name = call.connection.rights, owner.removeprefix(USER_PREFIX)
    if rights is None or not rights.may(Operation.CREATE_TOKENS, ResourceType.USER, name):
        raise TokenNotAuthorized("no rule allows to create tokens of this user")


def _make(
    context: Context,
    call: Call,
    requester: Requester,
    owner: Principal,
    renewers: tuple[Principal, ...],
    lifetime_ms: int,
) -> None:
    dice, config, now_ms = context.doors.dice, _config(context), context.clock.wall_ms()
    making = context.tokens_under_way
    if len(making) >= MAKING_MAX:
        raise OverBound(f"{MAKING_MAX} tokens are being made: ask again")
    token_id = base64.urlsafe_b64encode(dice.unique_bytes(ID_BYTES)).decode().rstrip("=")
    random = TokenRandom(
        token_id=CredentialId(token_id),
        secret=Secret(dice.unique_bytes(SECRET_BYTES)),
        salt=dice.unique_bytes(SALT_BYTES),
    )

    def work() -> DelegationToken | RequestRefused:
        try:
            return make_delegation_token(
                requester,
                owner=owner,
                renewers=renewers,
                lifetime_ms=lifetime_ms,
                random=random,
                config=config,
                now_ms=now_ms,
            )
        except RequestRefused as refusal:
            return refusal

    def on_made(token: object, error: Exception | None) -> None:
        making.discard(token_id)
        if error is not None:
            raise error
        if isinstance(token, DelegationToken):
            _store(context, call, token, random.secret)
        elif isinstance(token, RequestRefused):
            _refuse_creation(call, token)

    making.add(token_id)
    context.doors.access.run(work, on_made)


def _store(context: Context, call: Call, token: DelegationToken, secret: Secret) -> None:
    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            _refuse_creation(call, outcome)
            return
        answer = CreateDelegationTokenResponse(
            issue_timestamp=token.issued_ms,
            expiry_timestamp=token.expires_ms,
            max_timestamp=token.lifetime_end_ms,
            token_id=token.id,
            hmac=secret.reveal(),
        )
        answer.principal_type, answer.principal_name = _split(token_owner(token))
        requester = _split(token.requester)
        answer.token_requester_principal_type, answer.token_requester_principal_name = requester
        call.answer(answer)

    _submit(context, call, PutCredential(credential=token), on_outcome)


def _submit(context: Context, call: Call, command: AccessCommand, on_outcome: OnOutcome) -> None:
    context.doors.access.submit(call.on_behalf(command), TIMEOUT_MS, on_outcome)


def _refuse_creation(call: Call, refusal: RequestRefused) -> None:
    answer = CreateDelegationTokenResponse(error_code=token_code_of(refusal))
    login = call.connection.login
    if login is not None:
        answer.principal_type, answer.principal_name = _split(login.principal)
    call.answer(answer)


# -- RenewDelegationToken, ExpireDelegationToken


def on_renew(context: Context, call: Call) -> None:
    """Have a token end later; never past its lifetime."""
    request: RenewDelegationTokenRequest = call.read()
    answer = RenewDelegationTokenResponse(expiry_timestamp=-1)
    try:
        token = renew(
            context.doors.access.state,
            _requester(call),
            Secret(bytes(request.hmac)),
            request.renew_period_ms,
            config=_config(context),
            now_ms=context.clock.wall_ms(),
        )
    except RequestRefused as refusal:
        answer.error_code = token_code_of(refusal)
        call.answer(answer)
        return
    command = ExtendToken(id=token.id, expires_ms=token.expires_ms)
    _change(context, call, answer, command, token.expires_ms)


def on_expire(context: Context, call: Call) -> None:
    """Have a token end sooner, or at once."""
    request: ExpireDelegationTokenRequest = call.read()
    answer = ExpireDelegationTokenResponse(expiry_timestamp=-1)
    state, now_ms = context.doors.access.state, context.clock.wall_ms()
    secret = Secret(bytes(request.hmac))
    try:
        requester = _requester(call)
        found = expire(state, requester, secret, request.expiry_time_period_ms, now_ms=now_ms)
    except RequestRefused as refusal:
        answer.error_code = token_code_of(refusal)
        call.answer(answer)
        return
    if found is None:
        token = find_own(state, requester, secret)
        _change(context, call, answer, RemoveCredential(id=token.id), now_ms)
    else:
        command = ExtendToken(id=found.id, expires_ms=found.expires_ms)
        _change(context, call, answer, command, found.expires_ms)


def _change(
    context: Context,
    call: Call,
    answer: RenewDelegationTokenResponse | ExpireDelegationTokenResponse,
    command: AccessCommand,
    expires_ms: int,
) -> None:
    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            answer.error_code = token_code_of(outcome)
        else:
            answer.expiry_timestamp = expires_ms
        call.answer(answer)

    _submit(context, call, command, on_outcome)


# -- DescribeDelegationToken


def on_describe(context: Context, call: Call) -> None:
    """Show the tokens that the client has to do with or may see; never their secrets."""
    request: DescribeDelegationTokenRequest = call.read()
    answer = DescribeDelegationTokenResponse()
    try:
        requester = _requester(call)
        wanted = None
        if request.owners is not None:
            wanted = {
                _principal(each.principal_type, each.principal_name) for each in request.owners
            }
    except RequestRefused as refusal:
        answer.error_code = token_code_of(refusal)
        call.answer(answer)
        return
    answer.tokens = [
        _described(token)
        for token in all_tokens(context.doors.access.state, context.clock.wall_ms())
        if (wanted is None or token_owner(token) in wanted)
        and (is_party(token, requester.principal) or _may_see(call, token))
    ]
    call.answer(answer)


def _may_see(call: Call, token: DelegationToken) -> bool:
    rights = call.connection.rights
    return rights is not None and (
        rights.could(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or rights.could(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.user)
    )


def _described(token: DelegationToken) -> DescribedDelegationToken:
    kind, name = _split(token_owner(token))
    requester_kind, requester_name = _split(token.requester)
    return DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.lifetime_end_ms,
        token_id=token.id,
        hmac=b"",
        renewers=[DescribedDelegationTokenRenewer(*_split(each)) for each in token.renewers],
    )
