"""What a broker's configuration says of the broker itself: the keys of the section [broker]."""

from kafkaesque.model.options import Option, OptionTable, OptionType
from kafkaesque.server.exposure import EXPOSURE_OPTIONS
from kafkaesque.server.listeners import PORT_MAX, access_option, origins_option
from kafkaesque.server.oauth_settings import OAUTH_OPTIONS

STRING = OptionType.STRING
INT = OptionType.INT

#: The keys of the section [broker].
SERVER_OPTIONS = OptionTable(
    "[broker]",
    [
        Option(
            name="id",
            type=INT,
            default=1,
            minimum=0,
            maximum=2**31 - 1,
            doc="Broker id, as node.id in Kafka; unique in the cluster. Only a broker on its own "
            "may omit it: without [controllers], seeds and cluster.secret.file.",
        ),
        Option(
            name="cluster.id",
            type=STRING,
            default="kafkaesque",
            doc="The same for all brokers of a cluster, and different from other clusters'.",
        ),
        Option(
            name="data",
            type=STRING,
            default="data",
            doc="The data directory; created if it does not exist.",
        ),
        Option(
            name="rack",
            type=STRING,
            default="",
            doc="The machine's rack; replicas are spread over racks.",
        ),
        Option(name="host", type=STRING, default="127.0.0.1", doc="Address to listen on."),
        Option(
            name="advertised.host",
            type=STRING,
            default="",
            doc="Address that clients and other brokers are told to connect to; empty: host. Not "
            "0.0.0.0.",
        ),
        Option(
            name="kafka.port",
            type=INT,
            default=9092,
            minimum=1,
            maximum=PORT_MAX,
            doc="Port for Kafka clients.",
        ),
        access_option(
            "Of all listeners of [broker] but those at text.port and admin.port; a [[listener]] "
            "has an access of its own."
        ),
        Option(
            name="super.users",
            type=STRING,
            default="",
            doc="Who may do everything, whatever the rules say, separated by semicolons: "
            "User:admin;User:ops.",
        ),
        *EXPOSURE_OPTIONS,
        Option(
            name="first.users.file",
            type=STRING,
            default="",
            doc="File of users who may log in to a new cluster from its first moment, as "
            "`kafkaesque user prepare` writes it; the same for all its brokers. It means nothing "
            "to a cluster that exists.",
        ),
        Option(
            name="ssl.principal.mapping.rules",
            type=STRING,
            default="",
            doc="How the distinguished name of a client's certificate becomes a user's name, as in "
            "Kafka: RULE:pattern/replacement/L, several separated by commas, DEFAULT for the whole "
            "name. Patterns are RE2's. Empty: the common name. A URI kafkaesque://CLUSTER/user/"
            "NAME comes before either.",
        ),
        *OAUTH_OPTIONS,
        Option(
            name="text.port",
            type=INT,
            default=7070,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port of the text protocol; 0: none.",
        ),
        Option(
            name="sqs.port",
            type=INT,
            default=0,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port of Amazon SQS, over HTTP, such as 9324; 0: none. See [SQS](sqs.md).",
        ),
        Option(
            name="amqp.port",
            type=INT,
            default=0,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port of AMQP 0-9-1, such as 5672; 0: none. See [AMQP](amqp.md).",
        ),
        Option(
            name="mqtt.port",
            type=INT,
            default=0,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port of MQTT, such as 1883; 0: none. See [MQTT](mqtt.md).",
        ),
        Option(
            name="nats.port",
            type=INT,
            default=0,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port of NATS, such as 4222; 0: none. See [NATS](nats.md).",
        ),
        Option(
            name="stomp.port",
            type=INT,
            default=0,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port of STOMP, such as 61613; 0: none. See [STOMP](stomp.md).",
        ),
        Option(
            name="websocket.port",
            type=INT,
            default=0,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port of WebSockets, such as 8090; 0: none. The path says what is spoken: /mqtt, "
            "/nats, /stomp.",
        ),
        origins_option("websocket.origins", "Of the listener at websocket.port."),
        Option(
            name="registry.port",
            type=INT,
            default=0,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port of the schema registry, over HTTP, such as 8081; 0: none. See "
            "[Schema registry](schema-registry.md).",
        ),
        Option(
            name="admin.port",
            type=INT,
            default=8080,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port for the console, the admin API, metrics and health over HTTP; 0: none.",
        ),
        Option(
            name="peer.host",
            type=STRING,
            default="",
            doc="Address to listen on for other brokers; empty: advertised.host.",
        ),
        Option(
            name="peer.port",
            type=INT,
            default=9190,
            minimum=1,
            maximum=PORT_MAX,
            doc="Port for other brokers: TCP, and UDP if the cluster has a secret.",
        ),
        Option(
            name="seeds",
            type=STRING,
            default="",
            doc="Comma-separated host:port of other brokers' peer ports: any one of them is enough "
            "to find all.",
        ),
        Option(
            name="cluster.secret.file",
            type=STRING,
            default="",
            doc="File with the cluster's secret on one line, or on two lines while it is being "
            "changed. With it, brokers find one another by gossip, and admit nobody without "
            "it.",
        ),
        Option(
            name="key.keeper.file",
            type=STRING,
            default="",
            doc="File with the keys that wrap the keys of encrypted topics, the same for every "
            "broker: 32 random bytes each, in base64, one on a line. The first one wraps; the "
            "others unwrap what was wrapped before.",
        ),
        Option(
            name="tracing.endpoint",
            type=STRING,
            default="",
            doc="Where spans of traced messages are sent, by OTLP over HTTP, such as "
            "http://127.0.0.1:4318/v1/traces; empty: nothing is traced. See "
            "[Traces](operations.md#traces).",
        ),
        Option(
            name="log.level",
            type=STRING,
            default="info",
            choices=("debug", "info", "warning", "error"),
            doc="What is logged.",
        ),
        Option(
            name="log.format",
            type=STRING,
            default="text",
            choices=("text", "json"),
            doc="Each line of the log as key=value pairs, or as a JSON object.",
        ),
    ],
)
