"""Delegation tokens as Kafka's APIs have them, and the files that hold them."""

import base64
import binascii
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkaesque.access.principals import USER_PREFIX
from kafkaesque.access.secret import Secret
from kafkaesque.cli import tls
from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import Right, forbidden
from kafkaesque.cli.private_file import read_private
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.expire_delegation_token_request import (
    ExpireDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.renew_delegation_token_request import (
    RenewDelegationTokenRequest,
)

FILE_BYTES_MAX: Final = 16 * 1024
_CREATE_VERSION: Final = 3
_CHANGE_VERSION: Final = 2
_DESCRIBE_VERSION: Final = 3
_USER: Final = USER_PREFIX.removesuffix(":")
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PASSWORD: Final = re.compile(r'\bpassword="([^"]+)"')

#: What helps with a refusal, where something does.
_HINTS: Final = {
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "only a user who has logged in, and not by a token, can have tokens",
        "set KAFKAESQUE_USER and KAFKAESQUE_PASSWORD_FILE",
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "no rule allows this with this user's tokens",
        "as a super user, or as a user with the right to create tokens of that user",
    ),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: ("there is no such token", "kafkaesque token list"),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: ("the token's time is over", "kafkaesque token create"),
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: (
        "the token is another user's, who has not named this one as a renewer",
        "",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token that was just made."""

    token_id: str
    owner: str
    secret: Secret
    #: Unix time.
    expires_ms: int
    lifetime_end_ms: int

    def properties(self) -> str:
        """Return what a client of Kafka in Java logs in by, with this command line's TLS."""
        password = base64.b64encode(self.secret.reveal()).decode()
        trust = f"ssl.truststore.type=PEM\nssl.truststore.location={tls.authority()}\n"
        return (
            f"# A delegation token of {self.owner}.\n"
            f"security.protocol={'SASL_SSL' if tls.is_on() else 'SASL_PLAINTEXT'}\n"
            f"{trust if tls.is_on() else ''}"
            "sasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={_MODULE} required username="{self.token_id}" '
            f'password="{password}" tokenauth="true";\n'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownToken:
    """A token, without its secret."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    expires_ms: int
    lifetime_end_ms: int


def create_token(
    bootstrap: str, owner: str | None, renewers: Sequence[str], lifetime_ms: int
) -> NewToken:
    """Return a new token, whose secret is shown this once.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else _USER,
        owner_principal_name=None if owner is None else _name(owner),
        renewers=[CreatableRenewers(_USER, _name(each)) for each in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    answer = ask(bootstrap, ApiKey.CREATE_DELEGATION_TOKEN, _CREATE_VERSION, request)
    if answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED and owner is not None:
        raise forbidden(Right("create-tokens", "user", _name(owner)), bootstrap)
    _check(answer.error_code)
    return NewToken(
        token_id=answer.token_id,
        owner=f"{answer.principal_type}:{answer.principal_name}",
        secret=Secret(bytes(answer.hmac)),
        expires_ms=answer.expiry_timestamp,
        lifetime_end_ms=answer.max_timestamp,
    )


def list_tokens(bootstrap: str, owner: str | None) -> list[ShownToken]:
    """Return the tokens that this user may see, of an owner or of all.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    owners = None if owner is None else [DescribeDelegationTokenOwner(_USER, _name(owner))]
    request = DescribeDelegationTokenRequest(owners)
    answer = ask(bootstrap, ApiKey.DESCRIBE_DELEGATION_TOKEN, _DESCRIBE_VERSION, request)
    _check(answer.error_code)
    return [
        ShownToken(
            token_id=each.token_id,
            owner=f"{each.principal_type}:{each.principal_name}",
            requester=(
                f"{each.token_requester_principal_type}:{each.token_requester_principal_name}"
            ),
            renewers=tuple(f"{r.principal_type}:{r.principal_name}" for r in each.renewers),
            expires_ms=each.expiry_timestamp,
            lifetime_end_ms=each.max_timestamp,
        )
        for each in answer.tokens
    ]


def renew_token(bootstrap: str, secret: Secret, period_ms: int) -> int:
    """Have a token end later; return when. A period below 0 is the cluster's.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = RenewDelegationTokenRequest(secret.reveal(), period_ms)
    answer = ask(bootstrap, ApiKey.RENEW_DELEGATION_TOKEN, _CHANGE_VERSION, request)
    _check(answer.error_code)
    return int(answer.expiry_timestamp)


def revoke_token(bootstrap: str, secret: Secret) -> None:
    """End a token now; its connections are closed.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = ExpireDelegationTokenRequest(secret.reveal(), -1)
    _check(ask(bootstrap, ApiKey.EXPIRE_DELEGATION_TOKEN, _CHANGE_VERSION, request).error_code)


def read_token_file(path: Path) -> Secret:
    """Return the secret of the token that is in a file of `create_token`.

    Raises:
        CommandFailed: it cannot be read, others may read it, or there is no token in it.
    """
    text = read_private(path, FILE_BYTES_MAX).decode(errors="replace")
    found = _PASSWORD.search(text)
    try:
        return Secret(base64.b64decode(found[1] if found else "", validate=True))
    except (binascii.Error, ValueError):
        raise wrong_usage(f"{path} holds no token of `kafkaesque token create`") from None


def write_new_file(path: Path) -> int:
    """Return a descriptor of a new file that nobody else reads.

    Raises:
        CommandFailed: there is such a file, or it cannot be made.
    """
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise wrong_usage(f"cannot write {path}: {reason}") from None


def _name(principal: str) -> str:
    return principal.removeprefix(USER_PREFIX)


def _check(code: int) -> None:
    if not code:
        return
    known = ErrorCode(code)
    message, hint = _HINTS.get(known, (known.name, ""))
    raise CommandFailed(message, hint=hint)
