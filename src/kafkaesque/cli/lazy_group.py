"""The top command: knows each command's name and one line, and imports the one that runs."""

import difflib
import os
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as build_command

from kafkaesque.cli.command_endings import run_to_end
from kafkaesque.cli.exit_codes import INTERRUPTED, OK
from kafkaesque.cli.failure import CommandFailed

#: Each command with its one line; its module is `kafkaesque.cli.commands.<name>`.
COMMANDS: Mapping[str, str] = {
    "up": "Run a whole local cluster in the foreground.",
    "broker": "Run one broker from a configuration file.",
    "certs": "Certificates for TLS: init, issue, renew, revoke, show.",
    "cluster": "Look at a cluster, or wait until it is ready.",
    "doctor": "Say what is wrong with a cluster, why, and what helps.",
    "top": "Show brokers, topics and groups, again and again.",
    "topic": "Create, list, describe, alter and delete topics.",
    "config": "Options and client quotas: list, describe, set, unset.",
    "publish": "Publish messages from arguments, files or standard input.",
    "consume": "Print messages of one topic or of several.",
    "queue": "Queues: create, describe, alter, put, get, peek, redrive.",
    "exchange": "Exchanges: create, list, describe, publish, delete.",
    "binding": "What of an exchange goes where: create, list, delete.",
    "route": "Names of MQTT, NATS and STOMP to topics: create, test.",
    "vhost": "Virtual hosts: create, list, delete.",
    "definitions": "What RabbitMQ calls definitions: export, import.",
    "transformation": "Rules that change messages on their way: test, create.",
    "policy": "Settings of queues and exchanges by name: create, list.",
    "group": "Consumer groups: list, describe, reset-offsets, delete.",
    "connection": "Clients' connections, of all protocols: list, close.",
    "context": "Clusters by name: create, list, use, delete.",
    "login": "Log in with a password and a code, for 12 hours.",
    "logout": "End the session of login.",
    "token": "Delegation tokens: create, list, renew, revoke.",
    "key": "Keys of encrypted topics: list, rotate, rewrap, shred.",
    "why": "Say why a message, a group or a transaction waits.",
    "user": "Users who log in, their access keys and second factors.",
    "role": "Roles: rules that are written once for several users.",
    "rule": "Rules of who may do what: create, explain, delete; test.",
    "audit": "The audit log: who logged in, was refused, changed what.",
    "txn": "Transactions: list, describe, producers, abort.",
    "pipeline": "Data pipelines on Spark: init, dry-run, run, status, search.",
    "archive": "Tables of topics: history, compact, vacuum, backfill.",
    "spark": "A cluster of Spark on this machine: up.",
    "log": "Read a data directory offline: dump and verify.",
    "sim": "Run a simulated cluster with faults, from a seed.",
    "bench": "Measure a cluster, or this machine.",
}


class LazyGroup(TyperGroup):
    """Imports a command's module when it is the one that runs, and turns failures into exits."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command; until it is resolved to be run, only its name and its one line."""
        loaded = self.commands.get(cmd_name)
        if loaded is not None or cmd_name not in COMMANDS:
            return loaded
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name in COMMANDS and name not in self.commands:
            module = import_module(f"kafkaesque.cli.commands.{name}")
            command = build_command(module.app)
            command.name = name
            self.commands[name] = command
        elif name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            meant = f" Did you mean '{near[0]}'?" if near else " `kafkaesque --help` lists them."
            ctx.fail(f"There is no command '{name}'.{meant}")
        return super().resolve_command(ctx, args)

    def main(self, *arguments: Any, **options: Any) -> Any:
        ends_process = options.pop("standalone_mode", True)
        options["standalone_mode"] = False
        run = partial(super().main, *arguments, **options)
        return run_to_end(run) if ends_process else run()

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CommandFailed as failure:
            sys.stdout.flush()
            failure.show()
            raise typer.Exit(failure.exit_code) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read our output has enough (`| head`): nothing is wrong.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(OK) from None
