"""What a reader does beside typing the pages that an open cluster of `kafkaesque up` serves."""

from __future__ import annotations

from tests.documentation.reader import ANY_CODE, Step

_ORDERS = "kafkaesque topic create orders --partitions 1"
_NO_ORDERS = "kafkaesque topic delete orders --yes"
#: What the page of the command line sets for all brokers, groups and clients.
_NO_OPTIONS = """
kafkaesque config unset num.partitions --all-brokers
kafkaesque config unset consumer.session.timeout.ms --group readers
kafkaesque config quota unset producer_byte_rate --client-id importer
kafkaesque config quota unset request_percentage --default-user
"""
#: `up` runs already; what it has printed is here.
_UP_LOG = "cat up.log"
_BILLING = """
for number in 1 2 3 4 5 6; do kafkaesque publish orders order-$number; done
kafkaesque consume orders --from-beginning --max 2 --group billing
"""
_AVRO_ORDER = """
kafkaesque topic create orders --partitions 1
python - <<'END'
from datetime import datetime, timezone
from decimal import Decimal

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

schema = '''{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "price", "type":
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}'''
order = {
    "id": 7,
    "price": Decimal("12.50"),
    "at": datetime(2026, 11, 28, 9, tzinfo=timezone.utc),
}
registry = SchemaRegistryClient({"url": "http://127.0.0.1:8181"})
context = SerializationContext("orders", MessageField.VALUE)
producer = Producer({"bootstrap.servers": "127.0.0.1:9092"})
producer.produce("orders", AvroSerializer(registry, schema)(order, context))
assert producer.flush(30) == 0
END
"""
#: The member says good-bye; for a while the group still has it.
_LEFT = """
kill %1
for _ in $(seq 50); do kafkaesque group list | grep billing | grep -q empty && break; done
"""
_MARKER = "spark-sink-7c1e2b35-0a52-4f3e-9d6b-0c6f3a1d2e4f-0"
_TWO_KINDS_OF_GROUPS = f"""
cat > member.py <<'END'
import signal
import sys

from confluent_kafka import Consumer

servers = {{"bootstrap.servers": "127.0.0.1:9092"}}
settings = {{"group.id": "billing", "group.protocol": "consumer", "enable.auto.commit": False}}
member = Consumer({{**servers, **settings}})
member.subscribe(["orders"])
signal.signal(signal.SIGTERM, lambda *_: (member.close(), sys.exit()))
while True:
    member.poll(0.2)
END
python - <<'END'
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

marks = [TopicPartition("orders", 0, 3)]
wanted = [ConsumerGroupTopicPartitions("{_MARKER}", marks)]
admin = AdminClient({{"bootstrap.servers": "127.0.0.1:9092"}})
for future in admin.alter_consumer_group_offsets(wanted).values():
    future.result(30)
END
python member.py > member.log 2>&1 &
until kafkaesque group list | grep -q stable; do :; done
"""
#: The producer ends without a word, and leaves its transaction open.
_OPEN_TRANSACTION = """
kafkaesque topic create orders --partitions 1
python - <<'END'
import os

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": "127.0.0.1:9092", "transactional.id": "billing-1"})
producer.init_transactions(30)
producer.begin_transaction()
producer.produce("orders", "paid")
assert producer.flush(30) == 0
os._exit(0)
END
"""
_STREAM_CONSUMER = """
import pika

connection = pika.BlockingConnection(pika.URLParameters("amqp://guest:guest@127.0.0.1:5672/%2F"))
channel = connection.channel()
heard = []


def on_message(channel, method, properties, body):
    heard.append(body)
    channel.basic_ack(method.delivery_tag)
    channel.stop_consuming()


BLOCK
channel.basic_publish("", "events", b"first")
channel.start_consuming()
connection.close()
assert heard == [b"first"]
"""
#: What a page has from the library's script, and Node from a package.
_MQTT_JS = """
import mqtt from "mqtt";

const ended = new Promise((done) => {
  const say = console.log;
  console.log = (...words) => {
    say(...words);
    if (words.join(" ") !== "house/kitchen/temperature 21.5") process.exitCode = 1;
    done();
  };
});
BLOCK
client.on("packetreceive", (packet) => {
  if (packet.cmd === "suback") client.publish("house/kitchen/temperature", "21.5");
});
await ended;
client.end();
"""
_NATS_JS = """
import { wsconnect } from "@nats-io/nats-core";
import WebSocket from "ws";

globalThis.WebSocket = WebSocket;
BLOCK
const answer = await connection.request("greet.people", "Lisbon", { timeout: 30000 });
if (answer.string() !== "hello, Lisbon") process.exitCode = 1;
await connection.close();
"""
_STOMP_JS = """
import { Client } from "@stomp/stompjs";
import WebSocket from "ws";

globalThis.WebSocket = WebSocket;
const heard = new Promise((done) => {
  console.log = done;
});
BLOCK
const sender = new Client({ brokerURL: client.brokerURL });
sender.onConnect = () => {
  const publish = () => sender.publish({ destination: "/topic/prices.tea", body: "4" });
  const again = setInterval(publish, 200);
  heard.then(() => clearInterval(again));
};
sender.activate();
if ((await heard) !== "4") process.exitCode = 1;
await Promise.all([client.deactivate(), sender.deactivate()]);
"""
_NATS_STREAM = """
python - <<'END'
import asyncio

import nats


async def main():
    client = await nats.connect("nats://127.0.0.1:4222")
    await client.jetstream().add_stream(name="ORDERS", subjects=["orders.*"])
    await client.close()


asyncio.run(main())
END
"""
_MAILS_LED_BY_BROKER_1 = """
kafkaesque queue create mails
kafkaesque queue reassign mails --replicas 1,2,3
kafkaesque cluster rebalance --leaders
kafkaesque queue put mails hello
"""
#: The numbers of one moment.
_NUMBERS = ((r"(?m) \d+(\.\d+)?$", " N"),)
#: Where the data are.
_PLACE = ((r"(?<=the data is in )\S+", "PLACE"), (r"(?m)^still waiting for .*\n", ""))
#: What doctor finds on every machine for tests.
DOCTOR = (
    (r"(?m)^warning: .*\[(temporary-directory|disk-fills)\]\n( +\w+:.*\n)*", ""),
    (r"\d+ partitions: (nothing is wrong|\d+ findings?)", "N partitions: no more"),
)
#: Whichever broker leads.
_BROKER = ((r"broker \d", "broker N"), (r"producer \d+ \(epoch \d+\)", "producer N"))

#: By page, and by how the block begins.
#: curl speaks telnet, too: it can be typed to.
_TELNET = r"""
printf 'PUBS flights UA1545 is late\nQUIT\n' | curl -sN telnet://127.0.0.1:7070 \
    | tr -d '\r' | diff - <(printf 'OK flights 0 0\nOK goodbye\n')
"""
_CONSOLE = 'python "$CHECKOUT/tests/documentation/console_page.py" http://127.0.0.1:8080/#/topics/'
_UNDECODED = """
kafkaesque topic create undecoded --partitions 1
python - <<'END'
from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": "127.0.0.1:9092"})
producer.produce("undecoded", bytes([0, 0, 0, 0, 99, 1]))
assert producer.flush(30) == 0
END
"""
#: Of what Apache Kafka's own tool is told, and what the page has a row for.
_APIS_ARE_THOSE = r"""
test $(grep -c '^127.0.0.1:' apis.log) = 3
sed -n '/^## Carried out/,/^## /p' "$CHECKOUT/docs/kafka-apis.md" \
    | sed -nE 's/^\| ([0-9]+) \| .*/(\1): /p' > rows.log
test $(wc -l < rows.log) -gt 40
while read -r row; do grep -qF -- "$row" apis.log || { echo "no $row"; false; }; done < rows.log
"""

OPEN_STEPS: dict[str, dict[str, Step]] = {
    "README.md": {
        "$ .venv/bin/kafkaesque up": Step(
            instead={".venv/bin/kafkaesque up --brokers 3 --data ./data": _UP_LOG}, variable=_PLACE
        ),
        "$ .venv/bin/kafkaesque topic": Step(variable=DOCTOR, code=ANY_CODE),
    },
    "docs/admin-api.md": {
        "$ curl -s http": Step(
            before="""
kafkaesque topic create greetings --partitions 3
kafkaesque publish greetings hello
""",
            is_broken=True,
            variable=((r'("(?:as_of|timestamp|broker|seen_by|partition)"):\d+', r"\1:N"),),
        ),
        "$ curl -s 'http://127.0.0.1:8080/api/v1/topics/orders/messages?limit=1'": Step(
            before=_AVRO_ORDER, is_broken=True, variable=((r'"id":\d+', '"id":N'),)
        ),
        "$ curl -s 'http://127.0.0.1:8080/api/v1/topics/orders/messages?limit=1&": Step(
            is_broken=True,
            variable=((r"schema \d+", "schema N"), (r"(?<=\"text\":\"00)\w{8}", "SCHEMA")),
        ),
    },
    "docs/amqp.md": {"channel.queue_declare(": Step(around=_STREAM_CONSUMER)},
    "docs/cli.md": {
        "$ kafkaesque up --brokers 3": Step(left_out=("kafkaesque up",)),
        "$ kafkaesque config describe --topic orders | cat": Step(
            before=f"{_ORDERS} --config retention.ms=3600000", after=_NO_ORDERS
        ),
        "$ kafkaesque topic list": Step(
            before="server=$KAFKAESQUE_BOOTSTRAP_SERVER; KAFKAESQUE_BOOTSTRAP_SERVER=127.0.0.1:9",
            replaced={"127.0.0.1:9092": "127.0.0.1:9"},
            after="KAFKAESQUE_BOOTSTRAP_SERVER=$server",
        ),
        "$ kafkaesque up\n": Step(instead={"kafkaesque up": _UP_LOG}, variable=_PLACE),
        "$ cat orders.txt": Step(
            before=f"{_ORDERS}; printf 'order-1:socks\\norder-2:shoes\\n' > orders.txt",
            after=_NO_ORDERS,
        ),
        "$ kafkaesque consume orders bills": Step(
            before=f"""
{_ORDERS}; kafkaesque topic create bills --partitions 1
kafkaesque publish orders '{{"customer": {{"id": "c1"}}}}'
kafkaesque publish bills '{{"customer": {{"id": "c2"}}}}'
""",
            is_in_any_order=True,
        ),
        "kafkaesque consume orders --from-beginning --until-end --json |": Step(
            before="kafkaesque topic create copy",
            check="kafkaesque consume copy --from-beginning --until-end | grep -q c1",
            after="kafkaesque topic delete orders bills copy --yes",
        ),
        "$ kafkaesque group describe billing": Step(
            before=f"{_ORDERS}{_BILLING}", variable=((r"\d+\.\d+", "N"),)
        ),
        "$ kafkaesque group list": Step(
            before=_TWO_KINDS_OF_GROUPS,
            replaced={"spark-sink-7c1e…-0": _MARKER},
            after=f"{_LEFT}kafkaesque group delete {_MARKER} --allow-duplicates",
        ),
        # What goes to the terminal's two outputs comes in another order in a pipe.
        "$ kafkaesque group reset-offsets billing": Step(is_in_any_order=True),
        "kafkaesque group reset-offsets billing": Step(
            before="kafkaesque topic alter orders --partitions 4",
            after=f"{_NO_ORDERS}; kafkaesque group delete billing",
        ),
        "$ kafkaesque config set retention.ms=3600000": Step(before=_ORDERS),
        "kafkaesque config list topic": Step(after=f"{_NO_ORDERS}\n{_NO_OPTIONS}"),
        "kafkaesque txn list": Step(
            before=_OPEN_TRANSACTION,
            refused={"kafkaesque txn abort --topic": "no open transaction"},
        ),
    },
    "docs/console.md": {
        '{"id":7': Step(
            before=_AVRO_ORDER, printed_by=f"{_CONSOLE}orders avro | grep -A 1 '^{{\"id\"'"
        ),
        "000000006301": Step(
            before=_UNDECODED, printed_by=f"{_CONSOLE}undecoded hex, | grep -A 2 '^0000'"
        ),
    },
    "docs/kafka-apis.md": {
        "kafka-broker-api-versions": Step(
            instead={
                "kafka-broker-api-versions": (
                    'java -cp "$KAFKA_TOOLS/*" org.apache.kafka.tools.BrokerApiVersionsCommand'
                ),
                "127.0.0.1:9092": "127.0.0.1:9092 > apis.log",
            },
            check=_APIS_ARE_THOSE,
        ),
    },
    "docs/membership.md": {
        "$ kafkaesque cluster status": Step(variable=((r"\b0\.\d+\.\d\S*", "RELEASE"),)),
    },
    "docs/metrics.md": {
        "$ curl": Step(
            before="""
kafkaesque topic create greetings --partitions 3
kafkaesque publish greetings hello
""",
            variable=_NUMBERS,
        ),
    },
    "docs/mqtt.md": {"const client": Step(around=_MQTT_JS)},
    "docs/stomp.md": {"const client": Step(around=_STOMP_JS)},
    "docs/nats.md": {
        "const connection": Step(around=_NATS_JS),
        "$ kafkaesque route": Step(before=_NATS_STREAM),
        "$ kafkaesque user nkey": Step(before="kafkaesque user create robot --password-file robot"),
    },
    "docs/operations.md": {
        "$ kafkaesque why record": Step(before=_OPEN_TRANSACTION, variable=_BROKER, code=1),
    },
    "docs/options.md": {
        "kafkaesque config set": Step(before="kafkaesque topic create flights"),
    },
    "docs/queues.md": {
        "$ curl": Step(
            before=_MAILS_LED_BY_BROKER_1, variable=(*_NUMBERS, (r'holder="\w+"', "HOLDER"))
        ),
    },
    "docs/rabbitmq-api.md": {
        "kafkaesque definitions": Step(
            before="kafkaesque vhost create shop; kafkaesque vhost create shop2",
            after="kafkaesque vhost delete shop --yes; kafkaesque vhost delete shop2 --yes",
        ),
    },
    "docs/schema-registry.md": {},
    "docs/share-groups.md": {
        "from confluent_kafka": Step(
            before=f"""
{_ORDERS}; printf 'order 1\\norder 2\\n' | kafkaesque publish orders
kafkaesque config set share.auto.offset.reset=earliest --group invoices
""",
        ),
    },
    "docs/spark.md": {},
    "docs/text-protocol.md": {
        "$ telnet": Step(instead={"telnet 127.0.0.1 7070": _TELNET}),
    },
    "docs/sqs.md": {
        "$ kafkaesque user key": Step(
            before="kafkaesque user create worker --password-file worker",
            variable=((r"KFQ\w+", "KEY"), (r"(?<=SECRET_ACCESS_KEY=)\S+", "SECRET")),
        ),
    },
}

#: Makes the cluster empty again, as the next page expects it.
CLEAN = """
names() { kafkaesque "$1" list | tail -n +2 | cut -f 1 | grep -v -e '^amq[.]' -e '^__'; }
delete() {
    local kind=$1 found
    shift
    found=$(names "$kind") && kafkaesque "$kind" delete $found "$@"
}
delete_each() {
    local kind=$1 name
    shift
    for name in $(names "$kind"); do kafkaesque "$kind" delete "$name" "$@"; done
}
delete_rules() {
    local who
    for who in $(kafkaesque rule list | tail -n +2 | cut -f 2 | sort -u); do
        kafkaesque rule delete --principal "$who" --yes
    done
}
{
    delete queue --yes
    delete topic --yes
    delete group
    delete_each exchange
    delete_each user --yes
    delete_rules
} > clean.log 2>&1 || true
"""
