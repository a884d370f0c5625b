"""`/users`, `/roles`, `/access-keys` and `/certificates`: who there is, and what they log in by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kafkaesque.access import administration as asked
from kafkaesque.access.credentials import BearerToken, CertificateName
from kafkaesque.access.errors import KeyUnknown
from kafkaesque.access.networks import read_network
from kafkaesque.access.principals import check_name, user_principal
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.scram_verifiers import verifier_of_password
from kafkaesque.access.secret import Secret
from kafkaesque.admin.api.access_values import (
    AccessKeyView,
    CertificateList,
    CertificateUser,
    NewRole,
    NewUser,
    RoleList,
    RolesQuery,
    TlsListener,
    UserChanges,
    UserList,
    UserRow,
    UsersQuery,
)
from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, DryRun, answer_change
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.paging import take_page, wants
from kafkaesque.broker.metadata.access_changes import commands_of
from kafkaesque.broker.requests.access_commands import AccessCommand, PutCredential
from kafkaesque.model.errors import InvalidRequest, RequestRefused

#: What a guess at a password costs: twice what Kafka asks for at least.
ITERATIONS: Final = 8_192
_SALT_BYTES: Final = 16

_USER_KEYS: Final[dict[str, Callable[[UserRow], Any]]] = {
    "name": lambda each: each.name,
    "kind": lambda each: each.kind,
    "sessions": lambda each: each.sessions,
}
_ROLE_KEYS: Final[dict[str, Callable[[asked.ShownRole], Any]]] = {
    "name": lambda each: each.name,
    "rules": lambda each: each.rules,
}


class AccessPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # -- who there is

    def list_users(self, call: Call[UsersQuery, None]) -> None:
        """List users, and what each logs in by."""
        doors = self._context.doors
        state, super_users = doors.access.state, doors.configuration.file.super_users
        now_ms = self._context.now()
        shown = asked.show_users(state, tuple(super_users)).users
        found = [
            UserRow(
                name=each.name,
                kind=each.kind,
                roles=list(each.roles),
                is_disabled=each.is_disabled,
                is_super=user_principal(each.name) in super_users,
                credentials=[one for one in each.credentials if one.kind != "token"],
                sessions=sum(
                    isinstance(one, BearerToken) and one.is_session and one.expires_ms > now_ms
                    for one in state.credentials_of(each.name)
                ),
            )
            for each in shown
            if wants(call.query, each.name)
        ]
        page = take_page(found, call.query, _USER_KEYS, "name")
        call.answer(
            UserList(
                as_of=now_ms,
                seen_by=self._context.node,
                total=page.total,
                next=page.next,
                items=page.items,
                super_users=[str(each) for each in super_users],
            )
        )

    def list_roles(self, call: Call[RolesQuery, None]) -> None:
        """List roles, with their users."""
        found = [
            each
            for each in asked.show_roles(self._context.doors.access.state).roles
            if wants(call.query, each.name)
        ]
        page = take_page(found, call.query, _ROLE_KEYS, "name")
        call.answer(self._context.page_view(RoleList, page))

    def list_certificates(self, call: Call[NoQuery, None]) -> None:
        """List the names that certificates log in as, and who must show one where."""
        doors = self._context.doors
        state = doors.access.state
        call.answer(
            CertificateList(
                as_of=self._context.now(),
                seen_by=self._context.node,
                names=[
                    CertificateUser(
                        name=each.name, user=each.user, expires_at=each.expires_ms or None
                    )
                    for each in state.credentials.values()
                    if isinstance(each, CertificateName)
                ],
                listeners=[
                    TlsListener(
                        protocol=each.protocol,
                        name=each.name,
                        advertised=str(each.advertised),
                        has_tls=bool(each.tls),
                        access=each.access.value,
                        log_in_by=each.log_in_by.value,
                    )
                    for each in doors.configuration.file.listeners
                ],
            )
        )

    # -- changes of users

    def put_user(self, call: Call[DryRun, NewUser]) -> None:
        """Create a user who logs in by a password, or give one another password."""
        body, doors = call.body, self._context.doors
        check_name(body.name)
        is_there = body.name in doors.access.state.users
        if is_there and not body.replace:
            call.refuse(409, "UserExists", f"user {body.name!r} exists already")
            return
        if not call.request.visitor.is_private:
            call.refuse(403, "NotPrivate", "a password is not taken in the clear: use TLS")
            return
        verb, done = ("alter", "has another password") if is_there else ("create", "is created")
        words = ["kafkaesque", "user", verb, body.name, "--password-file", "FILE"]
        if call.query.dry_run:
            told = "would get another password" if is_there else "can be created"
            answer_change(self._context, call, f"user {body.name} {told}", words)
            return
        password = Secret(body.password.encode())
        salts = [doors.dice.unique_bytes(_SALT_BYTES) for _ in SCRAM_MECHANISMS]

        def work() -> object:
            return [
                verifier_of_password(each, body.name, password, salt, ITERATIONS)
                for each, salt in zip(SCRAM_MECHANISMS.values(), salts, strict=True)
            ]

        def on_made(made: Any, error: Exception | None) -> None:
            if isinstance(error, RequestRefused):
                call.refuse_with(error)
            elif error is not None:
                call.refuse(503, "StorageFailed", "the password could not be made into a verifier")
            else:
                commands = [PutCredential(credential=each) for each in made]
                self._carry_out(call, commands, f"user {body.name} {done}", words, 201)

        doors.access.run(work, on_made)

    def change_user(self, call: Call[DryRun, UserChanges]) -> None:
        """Change of a user what is named; its connections end where it may no longer log in."""
        name, body = call.params["user"], call.body
        for each in body.networks or ():
            read_network(each)
        change = asked.ChangeUser(
            name=name,
            is_disabled=body.is_disabled,
            add_roles=tuple(body.add_roles),
            remove_roles=tuple(body.remove_roles),
            expires_ms=body.expires_at,
            networks=None if body.networks is None else tuple(body.networks),
        )
        self._change(call, change, f"user {name}", "changed", _words_of_change(name, body))

    def delete_user(self, call: Call[DryRun, None]) -> None:
        """Delete a user and all that it logs in by; rules that name it stay."""
        name = call.params["user"]
        if name not in self._context.doors.access.state.users:
            call.refuse(404, "UserUnknown", f"there is no user {name!r}")
            return
        words = ["kafkaesque", "user", "delete", name, "--yes"]
        self._change(call, asked.DeleteUser(name=name), f"user {name}", "deleted", words)

    def make_access_key(self, call: Call[NoQuery, None]) -> None:
        """Give a user one more access key; its secret is shown once."""
        name, doors = call.params["user"], self._context.doors
        check_name(name)
        if not call.request.visitor.is_private:
            call.refuse(403, "NotPrivate", "a secret is not shown in the clear: use TLS")
            return
        try:
            credential, secret = doors.access.make_access_key(name)
        except KeyUnknown:
            sealed = "an access key is sealed by the cluster's secret: set cluster.secret.file"
            raise InvalidRequest(sealed) from None

        def on_done(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
                return
            view = AccessKeyView(
                as_of=self._context.now(),
                seen_by=self._context.node,
                access_key_id=credential.access_key_id,
                secret=secret.reveal().decode(),
            )
            doors.cluster.when_current(CHANGE_MS_MAX, lambda _: call.answer_once(view, 201))

        command = call.sign(PutCredential(credential=credential, epoch=0))
        doors.access.submit(command, CHANGE_MS_MAX, on_done)

    def delete_access_key(self, call: Call[DryRun, None]) -> None:
        """Remove an access key."""
        key = call.params["key"]
        words = ["kafkaesque", "user", "key", "delete", key, "--yes"]
        change = asked.DeleteAccessKey(access_key_id=key)
        self._change(call, change, f"access key {key}", "deleted", words)

    # -- changes of roles

    def put_role(self, call: Call[DryRun, NewRole]) -> None:
        """Create a role, or change its description."""
        body = call.body
        check_name(body.name)
        words = ["kafkaesque", "role", "create", body.name]
        words += ["--description", body.description] if body.description else []
        change = asked.MakeRole(name=body.name, description=body.description)
        self._change(call, change, f"role {body.name}", "made so", words, 201)

    def delete_role(self, call: Call[DryRun, None]) -> None:
        """Delete a role and its rules."""
        name = call.params["role"]
        if name not in self._context.doors.access.state.roles:
            call.refuse(404, "RoleUnknown", f"there is no role {name!r}")
            return
        words = ["kafkaesque", "role", "delete", name, "--yes"]
        change = asked.DeleteRole(name=name)
        self._change(call, change, f"role {name}", "deleted with its rules", words)

    def _change(
        self,
        call: Call[DryRun, Any],
        change: asked.Change,
        subject: str,
        done: str,
        words: list[str],
        status: int = 200,
    ) -> None:
        commands = commands_of(self._context.doors.access.state, change)
        if call.query.dry_run:
            answer_change(self._context, call, f"{subject} would be {done}", words)
        else:
            self._carry_out(call, commands, f"{subject} is {done}", words, status)

    def _carry_out(
        self,
        call: Call[DryRun, Any],
        commands: Sequence[AccessCommand],
        what: str,
        words: list[str],
        status: int,
    ) -> None:
        doors, left = self._context.doors, iter(commands)

        def go_on(left: Iterator[AccessCommand]) -> None:
            command = next(left, None)
            if command is None:
                # What is asked next is to see it.
                doors.cluster.when_current(
                    CHANGE_MS_MAX, lambda _: answer_change(self._context, call, what, words, status)
                )
            else:
                doors.access.submit(call.sign(command), CHANGE_MS_MAX, on_outcome)

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
            else:
                go_on(left)

        go_on(left)


def _words_of_change(name: str, body: UserChanges) -> list[str]:
    """Return the command for the first thing that changes; others have one each."""
    if body.is_disabled is not None:
        return ["kafkaesque", "user", "disable" if body.is_disabled else "enable", name]
    if body.add_roles:
        return ["kafkaesque", "role", "grant", body.add_roles[0], name]
    if body.remove_roles:
        return ["kafkaesque", "role", "revoke", body.remove_roles[0], name]
    words = ["kafkaesque", "user", "alter", name]
    if body.expires_at is not None:
        words += ["--expires", str(body.expires_at) if body.expires_at else "never"]
    for each in ("any",) if body.networks == [] else body.networks or ():
        words += ["--network", each]
    return words
