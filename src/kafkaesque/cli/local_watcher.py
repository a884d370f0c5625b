"""What `kafkaesque up` says: the cluster is ready, what to try, and what becomes of brokers."""

import queue
import shlex
import time
from pathlib import Path

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.local_broker import BrokerEnded, BrokerReady, BrokerRestarted, Event, Signalled
from kafkaesque.cli.local_cluster import LocalCluster
from kafkaesque.cli.own_name import own_name
from kafkaesque.cli.sasl import LogInNotAccepted
from kafkaesque.cli.screen import Screen
from kafkaesque.cli.secure_files import ADMIN, APP, APP_PREFIX, SecureFiles

#: How the ports of a broker are called where they are shown, in this order.
_SHOWN = {
    "text": "text",
    "admin": "admin",
    "sqs": "SQS",
    "amqp": "AMQP",
    "mqtt": "MQTT",
    "nats": "NATS",
    "stomp": "STOMP",
    "websocket": "WebSocket",
    "registry": "schemas",
}
PROBE_S = 0.05
#: How often to see whether somebody has started a broker again that had ended.
LOOK_S = 1.0
#: After so long without being ready, say what is waited for.
PATIENCE_S = 15.0


class Watcher:
    """Says what becomes of the brokers, until somebody wants the end or none is left."""

    def __init__(self, cluster: LocalCluster, screen: Screen, began: float) -> None:
        self._cluster = cluster
        self._screen = screen
        self._began = began
        self._serving: set[int] = set()
        #: Those that we had started, and that may be started again by somebody else.
        self._ended: set[int] = set()
        self._is_ready = False
        self._has_complained = False
        #: Why the cluster is not known to be whole.
        self._reason = ""

    def run(self) -> bool:
        """Return whether the end was wanted; the brokers that are left still run."""
        while True:
            event = self._next_event()
            if isinstance(event, Signalled):
                return True
            if isinstance(event, BrokerReady):
                self._serving.add(event.broker)
            elif isinstance(event, BrokerRestarted):
                self._on_restart(event)
            elif isinstance(event, BrokerEnded):
                self._serving.discard(event.broker)
                is_over = not self._is_ready or not self._is_any_left()
                self._on_end(event, is_over=is_over)
                if is_over:
                    return False
            self._maybe_ready()

    def _next_event(self) -> Event | None:
        try:
            return self._cluster.events.get(timeout=self._timeout_s())
        except queue.Empty:
            if self._is_ready:
                self._cluster.look()
            return None

    def _timeout_s(self) -> float | None:
        if not self._is_ready:
            return PROBE_S
        return LOOK_S if self._ended else None

    def _is_any_left(self) -> bool:
        self._cluster.look()
        return bool(self._serving) or any(each.is_restarted() for each in self._cluster.brokers)

    def _maybe_ready(self) -> None:
        """Say so once the brokers do not only serve, but know one another."""
        waited_s = time.monotonic() - self._began
        if self._is_ready:
            return
        if len(self._serving) == len(self._cluster.brokers) and self._is_whole():
            self._is_ready = True
            self._say_ready(waited_s)
        elif waited_s > PATIENCE_S and not self._has_complained:
            self._has_complained = True
            missing = [b for b in self._cluster.brokers if b.number not in self._serving]
            for broker in missing:
                self._screen.note(f"still waiting for broker {broker.number}: {broker.log_path}")
            if not missing:
                self._screen.note("all brokers serve; still waiting until they know one another")
                if self._reason:
                    self._screen.note(f"  {self._reason}")

    def _is_whole(self) -> bool:
        from kafkaesque.cli.commands.cluster import read_status

        try:
            found = read_status(self._cluster.bootstrap_servers)
        except LogInNotAccepted as failure:
            # Somebody has removed the user, or changed the password: that is no reason to wait.
            self._screen.note(f"{failure.message}: so nothing is known but that all brokers serve")
            return True
        except CommandFailed as failure:
            self._reason = failure.message
            return False
        return found.controller >= 0 and found.is_ready(len(self._cluster.brokers))

    def _say_ready(self, waited_s: float) -> None:
        cluster = self._cluster
        if self._screen.is_json:
            brokers = [
                {"broker": b.number, "pid": b.pid, "kafka": b.address} for b in cluster.brokers
            ]
            document = {
                "event": "ready",
                "bootstrap_servers": cluster.bootstrap_servers,
                "brokers": brokers,
                "is_secure": cluster.security is not None,
            }
            if cluster.security is not None and cluster.has_second_factor:
                document["totp_file"] = str(cluster.security.totp_file)
            self._screen.show_json(document)
            return
        lines = [f"Ready after {waited_s:.1f} s; the data is in {cluster.directory}", ""]
        for broker in cluster.brokers:
            others = "".join(
                f"   {shown} {port}"
                for name, shown in _SHOWN.items()
                if (port := getattr(broker.ports, name))
            )
            ports = f"Kafka {broker.address}{others}"
            lines.append(f"  broker {broker.number}   {ports}")
        first = cluster.brokers[0]
        if first.ports.admin:
            host = first.address.rpartition(":")[0]
            scheme = "http" if cluster.security is None else "https"
            lines += ["", f"The console: {scheme}://{host}:{first.ports.admin}/"]
        if cluster.security is not None:
            lines += _told_of_security(cluster.security, cluster)
            suggestions = _secure_suggestions(cluster.security, cluster)
        else:
            suggestions = _suggestions(cluster)
        lines += ["", "Try next, in another terminal:", "", *suggestions, ""]
        lines.append("Ctrl-C stops the cluster; the data stays.")
        print("\n".join(lines), flush=True)
        self._maybe_show_factor()

    def _maybe_show_factor(self) -> None:
        """Show the administrator's second factor to whoever has just made the cluster."""
        files = self._cluster.security
        if files is None or not (self._cluster.is_new and self._cluster.has_second_factor):
            return
        if not self._screen.is_terminal:
            return
        from kafkaesque.cli.qr_code import show_second_factor
        from kafkaesque.cli.totp_file import read_recovery_codes, read_totp_uri

        print(f"\nThe second factor of {ADMIN}, for an authenticator to scan:\n")
        codes = [each.reveal().decode() for each in read_recovery_codes(files.recovery_file)]
        show_second_factor(read_totp_uri(files.totp_file), codes)
        print(
            f"\nOnce you have both, remove {files.totp_file} and {files.recovery_file}.", flush=True
        )

    def _on_restart(self, event: BrokerRestarted) -> None:
        self._serving.add(event.broker)
        if self._screen.is_json:
            document = {"event": "restarted", "broker": event.broker, "pid": event.pid}
            self._screen.show_json(document)
        self._screen.note(
            f"broker {event.broker} runs again (pid {event.pid}); Ctrl-C here stops it, too"
        )

    def _on_end(self, event: BrokerEnded, *, is_over: bool) -> None:
        self._ended.add(event.broker)
        broker = self._cluster.broker(event.broker)
        if self._screen.is_json:
            document = {"event": "ended", "broker": event.broker, "exit_code": event.exit_code}
            self._screen.show_json(document)
        note = self._screen.note
        how = f"broker {event.broker} (pid {event.pid}) {event.how}"
        if event.exit_code is None:  # It logged where somebody else started it.
            note(how)
        else:
            note(f"{how}; last lines of {broker.log_path}:")
            for line in broker.log_tail() or ["(nothing)"]:
                note(f"  {line}")
        if not is_over:
            note("The others continue. To start it again, in another terminal:")
            note(f"  {own_name()} broker --config {broker.config_path}")
        elif not self._is_ready:
            note("The cluster cannot start without it.")
        else:
            note("No broker is left.")


def _suggestions(cluster: LocalCluster) -> list[str]:
    first = cluster.brokers[0]
    where = "" if first.address == "127.0.0.1:9092" else f" -b {first.address}"
    name = own_name()
    lines = [
        f"  {name} publish greetings hello{where}",
        f"  {name} consume greetings --from-beginning --max 1{where}",
        f"  {name} cluster status{where}",
    ]
    if first.ports.text:
        lines.append(
            f"  telnet {first.address.rpartition(':')[0]} {first.ports.text}   and then: HELP"
        )
    return lines


def _told_of_security(files: SecureFiles, cluster: LocalCluster) -> list[str]:
    factor = [f"          and the secret of the second factor in {files.totp_file}"]
    if not cluster.has_second_factor:
        factor = [f"          and there is no second factor: {own_name()} user totp add {ADMIN}"]
    elif not files.totp_file.exists():
        factor = ["          and the second factor is in an authenticator"]
    return [
        "",
        "Clients log in, over TLS, at every port:",
        f"  {ADMIN}   may do everything; the password is in {files.password_file(ADMIN)}",
        *factor,
        f"  {APP}     may do everything with topics, groups, transactional ids,",
        f"          queues and exchanges {APP_PREFIX}...",
        "",
        f"Ready files for clients: {files.clients}",
        f"Browsers trust the console once they know {files.ca}",
    ]


def _secure_suggestions(files: SecureFiles, cluster: LocalCluster) -> list[str]:
    name, clients = own_name(), files.clients
    first = cluster.brokers[0]
    lines = [
        f"  . {_shown(clients / f'{APP}.env')}     log in as {APP}, in this terminal",
        f"  {name} publish {APP_PREFIX}greetings hello",
        f"  {name} consume {APP_PREFIX}greetings --from-beginning --max 1",
        f"  kcat -F {_shown(clients / f'{APP}.librdkafka.conf')} -L",
    ]
    if first.ports.text:
        host = first.address.rpartition(":")[0]
        lines += [
            f"  openssl s_client -quiet -connect {host}:{first.ports.text} "
            f"-CAfile {_shown(files.ca)}   and then: AUTH {APP} PASSWORD",
        ]
    lines += [
        "",
        f"  . {_shown(clients / f'{ADMIN}.env')}   log in as {ADMIN}, to manage users and rules",
        f"  {name} user create mia --password-file mia.password",
        f"  {name} rule create User:mia -o read --topic {APP_PREFIX} --prefix",
    ]
    if cluster.admin_address:
        lines += [
            "",
            f"  . {_shown(clients / 'cluster.env')}   log in as a person, for 12 hours",
            f"  {name} login mia",
        ]
    return lines


def _shown(path: Path) -> str:
    return shlex.quote(str(path))
