"""What secures a local cluster: an authority, certificates, passwords, users and their files.

    certs/             the cluster's authority, and a certificate for each broker
    cluster.secret     keeps other brokers out
    admin.password     of the administrator, who may do everything
    admin.totp         the secret of the administrator's second factor, and the codes for when it
    admin.recovery-codes   is lost: to be taken away once an authenticator has it
    app.password       of the user app, who may do everything with names that begin with app-
    first-users.json   what the cluster is founded with: verifiers of both passwords, the sealed
                       second factor, app's rules
    clients/           ready configuration files

All of it is made where it is missing: a start that was broken off is gone on with. What is there
stays, but for certificates that end soon, and for the files of clients.
"""

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kafkaesque.access.credentials import RecoveryCodes, TotpSecret
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import user_principal
from kafkaesque.access.recovery_codes import keep_codes
from kafkaesque.access.rules import Effect, PatternKind, Rule
from kafkaesque.access.sealing import NONCE_BYTES, ClusterKeys, cluster_key
from kafkaesque.access.second_factor import seal_totp
from kafkaesque.cli import log_in, tls
from kafkaesque.cli.client_files import (
    SPARK_VARIABLE,
    ClientUser,
    write_client_files,
    write_cluster_file,
)
from kafkaesque.cli.code_log_in import TOTP_VARIABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.log_in import read_password
from kafkaesque.cli.private_file import draw_password, write_private
from kafkaesque.cli.totp_file import (
    draw_recovery_codes,
    draw_totp,
    read_recovery_codes,
    read_totp_secret,
)
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.authority import Authority, Issued
from kafkaesque.server.config import read_secrets
from kafkaesque.server.first_users import FirstAccess, make_verifiers, write_first_access

ADMIN: Final = "admin"
APP: Final = "app"
#: All names that the user app may use begin so.
APP_PREFIX: Final = "app-"
#: With it brokers find one another by gossip, and let nobody else in.
SECRET_NAME: Final = "cluster.secret"
CERTS: Final = "certs"
CLIENTS: Final = "clients"
FIRST_USERS: Final = "first-users.json"
#: A broker's certificate that ends within this time is issued anew by the next start.
RENEWED_BEFORE: Final = dt.timedelta(days=60)
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class SecureFiles:
    """Those in one cluster's directory."""

    def __init__(self, directory: Path) -> None:
        self.clients: Final = directory / CLIENTS
        self.ca: Final = directory / CERTS / "ca.pem"
        self._directory: Final = directory

    def password_file(self, user: str) -> Path:
        """Where the password of one of the two users is."""
        return self._directory / f"{user}.password"

    @property
    def totp_file(self) -> Path:
        """Where the secret of the administrator's second factor is, until somebody removes it."""
        return self._directory / f"{ADMIN}.totp"

    @property
    def recovery_file(self) -> Path:
        """Where its recovery codes are."""
        return self._directory / f"{ADMIN}.recovery-codes"

    def find_cluster_id(self) -> str | None:
        """Return the cluster whose authority is there already, from a start that was broken off."""
        if not (self._directory / CERTS / "ca.key").exists():
            return None
        try:
            return Authority(self._directory / CERTS).cluster_id
        except ConfigError as error:
            raise CommandFailed(str(error)) from None

    def prepare(
        self,
        cluster_id: str,
        brokers: Sequence[int],
        host: str,
        *,
        is_new: bool,
        has_second_factor: bool,
    ) -> None:
        """Make what is missing, before any broker starts.

        With `has_second_factor` the administrator of a new cluster gets one.

        Raises:
            CommandFailed: what a cluster that exists needs is gone, or is not what it was.
            OSError: the directory cannot be written.
        """
        try:
            self._certify(cluster_id, brokers, host)
        except ConfigError as error:
            raise CommandFailed(str(error)) from None
        for user in (ADMIN, APP):
            if is_new and not self.password_file(user).exists():
                draw_password(self.password_file(user))
        if is_new:
            self._write_first(cluster_id, has_second_factor=has_second_factor)
            # Whoever may log in here reads messages by the rules, and not from the files of logs.
            self._directory.chmod(0o700)

    def _certify(self, cluster_id: str, brokers: Sequence[int], host: str) -> None:
        directory = self._directory / CERTS
        if not (directory / "ca.key").exists():
            Authority.create(directory, cluster_id)
        directory.chmod(0o700)
        authority = Authority(directory)
        if authority.cluster_id != cluster_id:
            raise ConfigError(
                f"the authority in {directory} is of cluster {authority.cluster_id}, and this one "
                f"is {cluster_id}: its brokers would not know one another"
            )
        hosts = tuple(dict.fromkeys((host, *_LOCAL_HOSTS)))
        newest = {each.name: each for each in authority.issued()}
        for number in brokers:
            if not _is_good(newest.get(f"broker-{number}"), hosts):
                authority.issue_broker(number, hosts)

    def _write_first(self, cluster_id: str, *, has_second_factor: bool) -> None:
        verifiers = [
            verifier
            for user in (ADMIN, APP)
            for verifier in make_verifiers(user, read_password(self.password_file(user)))
        ]
        factors = self._make_factor(cluster_id) if has_second_factor else ()
        first = FirstAccess(tuple(verifiers), app_rules(), factors)
        write_private(self._directory / FIRST_USERS, write_first_access(first))

    def _make_factor(self, cluster_id: str) -> tuple[TotpSecret | RecoveryCodes, ...]:
        """Return the administrator's second factor, sealed; its files are made if they are missing.

        The files come first: a cluster that has it while nobody has its secret is lost.
        """
        if not self.totp_file.exists():
            draw_totp(self.totp_file, ADMIN, cluster_id)
        if not self.recovery_file.exists():
            draw_recovery_codes(self.recovery_file, ADMIN)
        keys = ClusterKeys({1: cluster_key(read_secrets(self._directory / SECRET_NAME)[0])})
        secret = read_totp_secret(self.totp_file)
        return (
            seal_totp(keys, ADMIN, secret, os.urandom(NONCE_BYTES)),
            keep_codes(ADMIN, read_recovery_codes(self.recovery_file)),
        )

    def section(self) -> Mapping[str, str | bool]:
        """Return what stands in [broker] of each broker's file."""
        first = self._directory / FIRST_USERS
        values = {"access": "required", "super.users": user_principal(ADMIN)}
        # Whoever has removed the file of a cluster that exists was right to.
        return {**values, "first.users.file": str(first)} if first.exists() else values

    def listener_lines(self, protocol: str, port: int) -> list[str]:
        """Return the table of a broker's file that opens a port with a log-in."""
        return [
            "",
            "[[listener]]",
            f'protocol = "{protocol}"',
            f"port = {port}",
            'access = "required"',
        ]

    def tls_section(self, broker: int) -> Mapping[str, str | bool]:
        """Return what stands in [tls] of a broker's file."""
        own = self._directory / CERTS / f"broker-{broker}"
        return {
            "certificate": f"{own}.pem",
            "key": f"{own}.key",
            "ca": str(self.ca),
            "crl": str(self._directory / CERTS / "crl.pem"),
            "listeners": True,
            "peers": "on",
        }

    def write_clients(
        self, bootstrap_servers: str, admin: str, *, has_second_factor: bool
    ) -> list[Path]:
        """Write the files of both users' clients; one whose password was taken away has none.

        Args:
            admin: the admin port of a broker; empty: none has one.
            has_second_factor: whether the administrator was founded with one.

        Raises:
            OSError: the directory cannot be written.
        """
        written: list[Path] = []
        for name in (ADMIN, APP):
            path = self.password_file(name)
            if not path.exists():
                continue
            user = ClientUser(
                name=name,
                password=read_password(path),
                password_file=path,
                ca=self.ca,
                bootstrap_servers=bootstrap_servers,
                admin=admin,
                totp_file=self.totp_file if has_second_factor and name == ADMIN else None,
            )
            written += write_client_files(self.clients, user)
        self.clients.mkdir(mode=0o700, exist_ok=True)
        return [*written, write_cluster_file(self.clients, bootstrap_servers, admin, self.ca)]

    def use_here(self) -> None:
        """Let this process be the user app, whoever it was before.

        It needs no code, and an administrator may have taken the secret of his away.
        """
        user = APP
        leave_clusters()
        os.environ[tls.CA] = str(self.ca)
        os.environ[log_in.USER_VARIABLE] = user
        os.environ[log_in.PASSWORD_VARIABLE] = str(self.password_file(user))
        os.environ[SPARK_VARIABLE] = str(self.clients / f"{user}_spark.json")


def leave_clusters() -> None:
    """Let this process be nobody: what the environment says is of another cluster."""
    for name in (
        tls.CA,
        tls.CERTIFICATE,
        tls.KEY,
        log_in.USER_VARIABLE,
        log_in.PASSWORD_VARIABLE,
        log_in.CONFIG_VARIABLE,
        TOTP_VARIABLE,
        SPARK_VARIABLE,
    ):
        os.environ.pop(name, None)


def app_rules() -> tuple[Rule, ...]:
    """Return what the user app may do in a new cluster."""
    return tuple(
        Rule(
            effect=Effect.ALLOW,
            principal=user_principal(APP),
            operation=Operation.ALL,
            resource_type=each,
            pattern=PatternKind.PREFIX,
            name=APP_PREFIX,
        )
        for each in (
            ResourceType.TOPIC,
            ResourceType.GROUP,
            ResourceType.TRANSACTIONAL_ID,
            ResourceType.QUEUE,
            ResourceType.EXCHANGE,
        )
    )


def _is_good(issued: Issued | None, hosts: Sequence[str]) -> bool:
    if issued is None or issued.is_revoked or not set(hosts) <= set(issued.hosts):
        return False
    return issued.not_after - dt.datetime.now(dt.UTC) > RENEWED_BEFORE
