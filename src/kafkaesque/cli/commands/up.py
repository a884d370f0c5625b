"""`kafkaesque up`: a whole local cluster in the foreground."""

import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kafkaesque.cli.arguments import JsonOption, new_app, parse_pairs
from kafkaesque.cli.broker_ports import PROTOCOLS, BrokerPorts, narrowed, ports_from
from kafkaesque.cli.cluster_file import ClusterFile, read_cluster_file
from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.local_broker import Signalled
from kafkaesque.cli.local_cluster import STOP_TIMEOUT_S, LocalCluster
from kafkaesque.cli.local_watcher import Watcher
from kafkaesque.cli.screen import Screen
from kafkaesque.cli.secure_files import leave_clusters

BROKERS_DEFAULT = 3
#: The schema registry's usual 8081 is broker 2's admin port.
PORTS_DEFAULT = BrokerPorts(
    kafka=9092,
    text=7070,
    peer=9190,
    admin=8080,
    sqs=9324,
    amqp=5672,
    mqtt=1883,
    nats=4222,
    registry=8181,
    stomp=61613,
    websocket=8090,
)
BROKERS_MAX = 100
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

app = new_app()


BrokersOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=BROKERS_MAX, help="Brokers.", show_default="3, or as many as there were"
    ),
]
DataOption = Annotated[
    Path,
    typer.Option(
        "--data",
        "--directory",
        help="Directory for data, configuration and logs; it is kept.",
    ),
]
SecureOption = Annotated[
    bool,
    typer.Option(
        "--secure", help="TLS and a log-in, with users and ready files for their clients."
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        help="Kafka port of broker 1; the next for broker 2.", show_default="9092, or as before"
    ),
]
TextPortOption = Annotated[
    int | None,
    typer.Option(help="Text port of broker 1; 0: none.", show_default="7070, or as before"),
]
PeerPortOption = Annotated[
    int | None,
    typer.Option(help="Peer port of broker 1.", show_default="9190, or as before"),
]
AdminPortOption = Annotated[
    int | None,
    typer.Option(
        help="Admin port of broker 1, for metrics and health; 0: none.",
        show_default="8080, or as before",
    ),
]
SqsPortOption = Annotated[
    int | None,
    typer.Option(
        help="Port of broker 1 for Amazon SQS; 0: none.", show_default="9324, or as before"
    ),
]
RegistryPortOption = Annotated[
    int | None,
    typer.Option(
        help="Port of broker 1 for the schema registry; 0: none.",
        show_default="8181, or as before",
    ),
]
AmqpPortOption = Annotated[
    int | None,
    typer.Option(help="Port of broker 1 for AMQP; 0: none.", show_default="5672, or as before"),
]
MqttPortOption = Annotated[
    int | None,
    typer.Option(help="Port of broker 1 for MQTT; 0: none.", show_default="1883, or as before"),
]
NatsPortOption = Annotated[
    int | None,
    typer.Option(help="Port of broker 1 for NATS; 0: none.", show_default="4222, or as before"),
]
StompPortOption = Annotated[
    int | None,
    typer.Option(help="Port of broker 1 for STOMP; 0: none.", show_default="61613, or as before"),
]
WebSocketPortOption = Annotated[
    int | None,
    typer.Option(
        help="Port of broker 1 for WebSockets; 0: none.", show_default="8090, or as before"
    ),
]
ProtocolsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help=f"Protocols to open, with commas between them, of {', '.join(PROTOCOLS)}.",
        show_default="all, or as before",
    ),
]
HostOption = Annotated[str, typer.Option(help="Address to listen on.")]
AllowOpenOption = Annotated[
    bool,
    typer.Option(
        "--allow-open-listeners",
        help="With a --host that other machines reach: let everybody there do everything.",
    ),
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE", help="A broker option."),
]


@app.command()
def up(
    brokers: BrokersOption = None,
    data: DataOption = Path("kafkaesque-data"),
    secure: SecureOption = False,
    port: PortOption = None,
    text_port: TextPortOption = None,
    peer_port: PeerPortOption = None,
    admin_port: AdminPortOption = None,
    sqs_port: SqsPortOption = None,
    registry_port: RegistryPortOption = None,
    amqp_port: AmqpPortOption = None,
    mqtt_port: MqttPortOption = None,
    nats_port: NatsPortOption = None,
    stomp_port: StompPortOption = None,
    websocket_port: WebSocketPortOption = None,
    protocols: ProtocolsOption = None,
    host: HostOption = "127.0.0.1",
    allow_open_listeners: AllowOpenOption = False,
    option: OptionOption = None,
    json: JsonOption = False,
) -> None:
    """Run a whole local cluster in the foreground, each broker a process; Ctrl-C stops it.

    The next run with the same --data continues with the same cluster. With --json, it prints one
    line for each event: ready, ended, stopped.

    \b
    Example:
      kafkaesque up
      kafkaesque up --brokers 1 --data ./data --port 19092 --option num.partitions=6
      kafkaesque up --protocols kafka,admin
      kafkaesque up --secure --directory ./secured
    """
    before = read_cluster_file(data)
    given = {
        "kafka": port,
        "text": text_port,
        "peer": peer_port,
        "admin": admin_port,
        "sqs": sqs_port,
        "amqp": amqp_port,
        "mqtt": mqtt_port,
        "nats": nats_port,
        "registry": registry_port,
        "stomp": stomp_port,
        "websocket": websocket_port,
    }
    ports = choose_ports(before, brokers, given)
    if protocols is not None:
        ports = narrowed(ports, protocols, ports_from(PORTS_DEFAULT, len(ports)))
    options = parse_pairs(option or (), "--option", "num.partitions=6")
    cluster = LocalCluster(
        data,
        ports,
        host=host,
        options=options,
        is_secure=secure,
        allows_open=allow_open_listeners,
    )
    if not _run(cluster, Screen(json=json)):
        raise typer.Exit(FAILED)


def _run(cluster: LocalCluster, screen: Screen) -> bool:
    """Start the cluster, watch it, stop it; return whether its end was wanted."""
    cluster.prepare()
    if cluster.security is None:
        leave_clusters()
    else:
        cluster.security.use_here()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda signum, _: cluster.events.put(Signalled(number=signum)))
    began = time.monotonic()
    try:
        cluster.start()
        return Watcher(cluster, screen, began).run()
    finally:
        _stop(cluster, screen)


def choose_ports(
    before: ClusterFile | None,
    brokers: int | None,
    given: Mapping[str, int | None],
) -> list[BrokerPorts]:
    """Return the ports of every broker: as they were, unless something else is asked for."""
    count = brokers or (len(before.brokers) if before else BROKERS_DEFAULT)
    set_ports = {name: port for name, port in given.items() if port is not None}
    if before is None or set_ports:
        return ports_from(replace(PORTS_DEFAULT, **set_ports), count)
    more = max(0, count - len(before.brokers))
    return [*before.brokers[:count], *ports_from(before.brokers[-1].moved(1), more)]


def _stop(cluster: LocalCluster, screen: Screen) -> None:
    running = [broker for broker in cluster.brokers if broker.is_running()]
    if running and not screen.is_json:
        print("Stopping ...", flush=True)
    # A second Ctrl-C is for who does not want to wait.
    for stop_signal in STOP_SIGNALS:
        signal.signal(stop_signal, lambda *_: cluster.kill())
    late = cluster.stop()
    for number in cluster.not_ours():
        screen.note(f"broker {number} still runs: stop it where it was started")
    cluster.close()
    for number in late:
        screen.note(f"broker {number} did not stop within {STOP_TIMEOUT_S:g} s and was killed")
    if screen.is_json:
        screen.show_json({"event": "stopped", "killed": late})
    elif running:
        print("Stopped.", flush=True)
