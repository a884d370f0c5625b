"""`kafkaesque broker`: one broker, in this very process once it has been checked what to run."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.cli.arguments import new_app, parse_pairs, wrong_usage
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.certificates import load_all
from kafkaesque.server.config import load_config
from kafkaesque.server.config_checks import (
    check_addresses,
    check_data_directory,
    find_own_seed,
    look_at_seeds,
)
from kafkaesque.server.oauth_settings import load_verifier
from kafkaesque.server.options import SERVER_OPTIONS
from kafkaesque.server.tls_settings import TLS_OPTIONS

app = new_app()

#: What is before the keys of [tls] in `--option`.
_TLS = "tls."

AdminPortOption = Annotated[int | None, typer.Option(help="Port for metrics and health; 0: none.")]
RegistryPortOption = Annotated[
    int | None, typer.Option(help="Port for the schema registry; 0: none.")
]
WebSocketPortOption = Annotated[int | None, typer.Option(help="Port for WebSockets; 0: none.")]
OptionOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE", help="Any key of the file."),
]


@app.command()
def broker(
    config: Annotated[Path, typer.Option("--config", help="Its TOML file.")],
    number: Annotated[int | None, typer.Option("--id", help="Broker id.")] = None,
    data: Annotated[Path | None, typer.Option(help="The data directory.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Kafka port.")] = None,
    text_port: Annotated[int | None, typer.Option(help="Text port; 0: none.")] = None,
    peer_port: Annotated[int | None, typer.Option(help="Port for other brokers.")] = None,
    admin_port: AdminPortOption = None,
    registry_port: RegistryPortOption = None,
    sqs_port: Annotated[int | None, typer.Option(help="Port for Amazon SQS; 0: none.")] = None,
    amqp_port: Annotated[int | None, typer.Option(help="Port for AMQP; 0: none.")] = None,
    mqtt_port: Annotated[int | None, typer.Option(help="Port for MQTT; 0: none.")] = None,
    nats_port: Annotated[int | None, typer.Option(help="Port for NATS; 0: none.")] = None,
    stomp_port: Annotated[int | None, typer.Option(help="Port for STOMP; 0: none.")] = None,
    websocket_port: WebSocketPortOption = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning, error.")] = None,
    option: OptionOption = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the configuration.")] = False,
) -> None:
    """Run one broker until it is told to stop (SIGTERM, Ctrl-C).

    Flags override environment variables (KAFKAESQUE_KAFKA_PORT), and those override the file.
    When the broker is ready, it prints one line of JSON: {"ready": 1, "kafka": "127.0.0.1:9092"}.

    \b
    Example:
      kafkaesque broker --config broker-1.toml
      kafkaesque broker --config broker-1.toml --port 9192 --option log.retention.ms=3600000
    """
    flags = {
        "id": number,
        "data": data,
        "host": host,
        "kafka.port": port,
        "text.port": text_port,
        "peer.port": peer_port,
        "admin.port": admin_port,
        "sqs.port": sqs_port,
        "registry.port": registry_port,
        "amqp.port": amqp_port,
        "mqtt.port": mqtt_port,
        "nats.port": nats_port,
        "stomp.port": stomp_port,
        "websocket.port": websocket_port,
        "log.level": log_level,
    }
    given = {name: str(value) for name, value in flags.items() if value is not None}
    given.update(parse_pairs(option or (), "--option", "log.retention.ms=3600000"))
    environment = {**os.environ, **_as_environment(given)}
    try:
        loaded = load_config(config, environment=environment)
        if check:
            check_data_directory(loaded)
            check_addresses(loaded)
            load_all(loaded.tls)
            if loaded.oauth is not None:
                load_verifier(loaded.oauth)
    except ConfigError as error:
        raise wrong_usage(str(error)) from None
    if check:
        for sentence in (find_own_seed(loaded), *look_at_seeds(loaded)):
            if sentence is not None:
                typer.echo(f"warning: {sentence}", err=True)
        typer.echo(f"{config} is valid")
        return
    # A new program in this process: nothing of the command line stays in the broker's memory.
    command = [sys.executable, "-m", "kafkaesque.server", "--config", str(config)]
    os.execve(sys.executable, command, environment)


def _as_environment(given: dict[str, str]) -> dict[str, str]:
    """Return the values as the variables that the server reads over its file."""
    for name in given:
        if name not in SERVER_OPTIONS:
            try:
                if name.startswith(_TLS):
                    TLS_OPTIONS.get(name.removeprefix(_TLS))
                else:
                    BROKER_OPTIONS.get(name)
            except ConfigError as error:
                raise wrong_usage(str(error), "--option name=value") from None
    return {"KAFKAESQUE_" + name.upper().replace(".", "_"): value for name, value in given.items()}
