// A local cluster of real brokers for one run of the tests, and what is put into it.
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const KAFKAESQUE = join(import.meta.dirname, '../../.venv/bin/kafkaesque');
const PYTHON = join(import.meta.dirname, '../../.venv/bin/python');
const START_MS_MAX = 120_000;
export const CHANGE = { 'x-kafkaesque-request': '1', 'content-type': 'application/json' };
export const TRACE = '0af7651916cd43dd8448eb211c80319c';
export const HOSTILE = '<img src=x onerror="window.isHacked=1">';

const run = promisify(execFile);

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

async function freePorts(count) {
  for (;;) {
    const first = 20_000 + Math.floor(Math.random() * 30_000);
    const ports = Array.from({ length: count }, (_, i) => first + i);
    const found = await Promise.all(ports.map(isFree));
    if (found.every(Boolean)) return first;
  }
}

export class Cluster {
  static async start(brokers = 3, { secure = false } = {}) {
    const cluster = new Cluster();
    cluster.scheme = secure ? 'https' : 'http';
    cluster.folder = await mkdtemp(join(tmpdir(), 'kafkaesque-console-'));
    const first = await freePorts(brokers * 6);
    cluster.kafka = `127.0.0.1:${first}`;
    cluster.admin = first + 2 * brokers;
    cluster.registry = first + 3 * brokers;
    cluster.mqtt = first + 4 * brokers;
    cluster.nats = first + 5 * brokers;
    cluster.process = spawn(
      KAFKAESQUE,
      [
        'up', '--json', '--brokers', String(brokers), '--data', join(cluster.folder, 'data'),
        '--port', String(first), '--peer-port', String(first + brokers),
        '--admin-port', String(cluster.admin), '--registry-port', String(cluster.registry),
        '--mqtt-port', String(cluster.mqtt), '--nats-port', String(cluster.nats),
        '--protocols', 'kafka,admin,registry,mqtt,nats', ...(secure ? ['--secure'] : []),
      ],
      // Nobody takes what is traced there: brokers keep the newest of it for the console.
      { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, KAFKAESQUE_TRACING_ENDPOINT: 'http://127.0.0.1:9/v1/traces' } },
    );
    const lines = createInterface({ input: cluster.process.stdout });
    const late = setTimeout(() => cluster.process.kill('SIGTERM'), START_MS_MAX);
    for await (const line of lines) {
      const event = JSON.parse(line);
      if (event.event === 'ready') {
        cluster.brokers = event.brokers;
        break;
      }
    }
    clearTimeout(late);
    if (!cluster.brokers) throw new Error('the cluster did not start');
    return cluster;
  }

  url(path = '/', broker = 1) {
    return `${this.scheme}://127.0.0.1:${this.admin + broker - 1}${path}`;
  }

  async change(method, path, body) {
    const init = { method, headers: CHANGE };
    if (body !== undefined) init.body = JSON.stringify(body);
    const response = await fetch(this.url(`/api/v1${path}`), init);
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${answer.message}`);
    return answer;
  }

  /** The lines of a file beside the brokers' data. */
  async lines(name) {
    return (await readFile(join(this.folder, 'data', name), 'utf8')).trim().split('\n');
  }

  kafkaesque(...words) {
    return run(KAFKAESQUE, [...words, '--bootstrap-server', this.kafka]);
  }

  /** A worker that commits what it has done, and dies of messages that say so; returns what it did. */
  async work(topic, group, count) {
    const program = [
      'import sys, confluent_kafka',
      'servers, topic, group, count = sys.argv[1:]',
      'consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group,',
      '    "auto.offset.reset": "earliest", "enable.auto.commit": False})',
      'consumer.subscribe([topic])',
      'done = []',
      'while len(done) < int(count):',
      '    message = consumer.poll(60)',
      '    if message.value() == b"poison": break',
      '    consumer.commit(message, asynchronous=False)',
      '    done.append(message.value().decode())',
      'consumer.close()',
      'print(",".join(done))',
    ].join('\n');
    const { stdout } = await run(PYTHON, ['-c', program, this.kafka, topic, group, String(count)]);
    return stdout.trim();
  }

  /** A consumer that stays, by the name that it gives itself; returns what ends it. */
  keepConnected(clientId) {
    const program = [
      'import sys, confluent_kafka',
      'consumer = confluent_kafka.Consumer({"bootstrap.servers": sys.argv[1], "client.id": sys.argv[2], "group.id": sys.argv[2]})',
      'consumer.subscribe(["orders"])',
      'while True: consumer.poll(1)',
    ].join('\n');
    const client = spawn(PYTHON, ['-c', program, this.kafka, clientId], { stdio: 'ignore' });
    return () => client.kill('SIGKILL');
  }

  /** A producer with a transaction open in `orders`; returns what ends the producer. */
  async beginTransaction(transactionalId) {
    const program = [
      'import sys, time, confluent_kafka',
      'producer = confluent_kafka.Producer({"bootstrap.servers": sys.argv[1], "transactional.id": sys.argv[2], "transaction.timeout.ms": 600000})',
      'producer.init_transactions(60); producer.begin_transaction()',
      'producer.produce("orders", b"in a transaction", partition=0); producer.flush(60)',
      'print("open", flush=True); time.sleep(600)',
    ].join('\n');
    const client = spawn(PYTHON, ['-c', program, this.kafka, transactionalId], { stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise((resolve) => client.stdout.once('data', resolve));
    return () => client.kill('SIGKILL');
  }

  /** Topics, messages of all kinds and groups; `isHostile`: with names and contents that mean harm. */
  async fill({ isHostile = true } = {}) {
    this.odd = isHostile ? HOSTILE : 'odd one';
    await this.change('POST', '/topics', { name: 'orders', partitions: 3 });
    await this.change('POST', '/topics', { name: 'empty', partitions: 1 });
    const messages = [
      { key: 'c1', value: '{"id": 12345678901234567890, "customer": {"id": "c1"}}' },
      { key: this.odd, value: `${this.odd} {{7*7}} </script><script>window.isHacked=1</script>` },
      { value: 'plain text', headers: [{ name: this.odd, value: this.odd }] },
      { value: '/wAB', encoding: 'base64' },
      { key: 'tombstone', value: null },
      ...Array.from({ length: 60 }, (_, i) => ({ key: `k${i}`, value: `order number ${i}` })),
    ];
    for (const each of messages) await this.change('POST', '/topics/orders/messages', each);
    await this.fillQueues();
    await this.fillExchanges();
    await this.fillAccess();
    await this.fillSchemas();
    await this.fillSessions();
    await this.fillStreams();
    await this.fillPipelines();
    await this.trace();
    for (const group of ['billing', this.odd]) {
      await this.kafkaesque(
        'consume', 'orders', '--group', group, '--from-beginning', '--max', '10', '--timeout', '60',
      );
    }
  }

  /** A queue with three messages, one of which is a dead letter by now. */
  async fillQueues() {
    await this.change('POST', '/queues', { name: 'letters' });
    const options = { 'dead.letter.queue': 'letters', 'delivery.limit': '1', 'visibility.timeout.ms': '1000' };
    await this.change('POST', '/queues', { name: 'mails', options });
    await this.kafkaesque('queue', 'put', 'mails', 'hello 1', 'hello 2', this.odd);
    // Whoever has the first one does not say that it is done: its one attempt has failed.
    await this.kafkaesque('queue', 'get', 'mails', '--keep', 'locked');
    for (;;) {
      const { queue } = await (await fetch(this.url('/api/v1/queues/letters'))).json();
      if (queue.ready === 1) return;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  /** Exchanges that pass messages on to one another, to queues and to topics. */
  async fillExchanges() {
    await this.change('POST', '/exchanges', { name: 'logs', type: 'topic' });
    await this.change('POST', '/exchanges', { name: 'everything', type: 'fanout' });
    await this.change('POST', '/exchanges', { name: this.odd, type: 'direct' });
    const bind = (source, body) => this.change('POST', `/exchanges/${encodeURIComponent(source)}/bind`, body);
    await bind('everything', { to: 'exchange', destination: 'logs' });
    await bind('logs', { to: 'queue', destination: 'mails', key: '*.error' });
    await bind('logs', { to: 'topic', destination: 'empty', key: 'audit.#' });
    await bind(this.odd, { to: 'queue', destination: 'mails', key: this.odd });
    const steps = [
      { do: 'rename', at: '$.customer', to: '$.customer_id' },
      { do: 'cast', at: '$.total', to: 'number' },
      { do: 'split', at: '$.name', by: ' ', into: ['$.first', '$.last'] },
      { do: 'template', at: 'headers.origin', text: 'shop.{headers.region}' },
    ];
    const put = (name, rule) => this.change('PUT', `/transformations/${encodeURIComponent(name)}`, { rule: JSON.stringify(rule) });
    await put('v2', { when: 'region IS NOT NULL', failures: 'letters', steps });
    await put(this.odd, { steps: [{ do: 'template', at: 'headers.odd', text: this.odd.replaceAll(/[{}]/g, '') }] });
    await bind('logs', { to: 'queue', destination: 'letters', key: 'orders.#', arguments: '{"x-transformation": "v2"}' });
  }

  /** Users, roles and rules; names that mean harm among them. */
  async fillAccess() {
    for (const name of ['app', this.odd]) await this.change('POST', '/users', { name, password: 'correct horse' });
    await this.change('POST', '/roles', { name: 'readers', description: 'who looks' });
    await this.change('PATCH', '/users/app', { add_roles: ['readers'] });
    const rule = { operations: ['read'], resource_type: 'topic', pattern: 'prefix', name: 'orders-' };
    for (const principal of ['Role:readers', `User:${this.odd}`]) await this.change('POST', '/rules', { ...rule, principal });
  }

  async fillSchemas() {
    const schema = JSON.stringify({ type: 'record', name: 'Order', fields: [{ name: 'id', type: 'string', doc: this.odd }] });
    const response = await fetch(`http://127.0.0.1:${this.registry}/subjects/orders-value/versions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ schema }),
    });
    if (!response.ok) throw new Error(`the schema was not taken: ${await response.text()}`);
  }

  /** Sessions of MQTT whose clients are away, each with a message that waits. */
  async fillSessions() {
    const program = [
      'import sys, paho.mqtt.client as paho',
      'from paho.mqtt.enums import CallbackAPIVersion as Version',
      'port, *names = sys.argv[1:]',
      'for name in names:',
      '    client = paho.Client(Version.VERSION2, name, protocol=paho.MQTTv311, clean_session=False)',
      '    client.on_connect = lambda client, *_: client.subscribe("lamps/" + name, 1)',
      '    client.on_subscribe = lambda client, *_: client.publish("lamps/" + name, name, 1, retain=True)',
      '    client.on_message = lambda client, *_: client.disconnect()',
      '    client.connect("127.0.0.1", int(port))',
      '    client.loop_forever()',
      'client = paho.Client(Version.VERSION2, "switch", clean_session=True)',
      'client.on_connect = lambda client, *_: [client.publish("lamps/" + name, "on", 1) for name in names]',
      'client.on_publish = lambda client, _, number, *more: client.disconnect() if number == len(names) else None',
      'client.connect("127.0.0.1", int(port))',
      'client.loop_forever()',
    ].join('\n');
    await run(PYTHON, ['-c', program, String(this.mqtt), 'kitchen', 'hall', this.odd]);
  }

  /** A stream of JetStream with a consumer that has not asked for anything. */
  async fillStreams() {
    const program = [
      'import asyncio, sys, nats',
      'async def main():',
      '    client = await nats.connect(f"nats://127.0.0.1:{sys.argv[1]}")',
      '    streams = client.jetstream()',
      '    await streams.add_stream(name="PARCELS", subjects=["parcels.*"], description=sys.argv[2])',
      '    await streams.publish("parcels.new", b"one")',
      '    await streams.pull_subscribe("parcels.*", "packer")',
      '    await client.close()',
      'asyncio.run(main())',
    ].join('\n');
    await run(PYTHON, ['-c', program, String(this.nats), this.odd]);
  }

  /** What two queries of Spark leave: a sink's marker, and how far a source has read. */
  async fillPipelines() {
    const program = [
      // librdkafka writes one byte more than what it is told as metadata.
      'import json, sys',
      'from kafka import KafkaConsumer, TopicPartition',
      'from kafka.structs import OffsetAndMetadata',
      'servers, odd = sys.argv[1:]',
      'for group, offset, said in [',
      '    ("spark-sink-0d3c-shout-0", 41, json.dumps({"rows": 120, "bytes": 9000})),',
      '    ("spark-sink-" + odd + "-0", 2, "no json"),',
      '    ("flow-of-orders", 3, "spark"),',
      ']:',
      '    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)',
      '    consumer.assign([TopicPartition("orders", 0)])',
      '    consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(offset, said, -1)})',
      '    consumer.close()',
    ].join('\n');
    await run(PYTHON, ['-c', program, this.kafka, this.odd]);
  }

  /** A message that belongs to a trace, and somebody who reads it. */
  async trace() {
    const headers = [{ name: 'traceparent', value: `00-${TRACE}-b7ad6b7169203331-01` }];
    await this.change('POST', '/topics/orders/messages', { key: 'traced', value: 'traced', headers });
  }

  /** Kill a broker as a machine would; the others notice within seconds. */
  async kill(broker) {
    process.kill(this.brokers.find((each) => each.broker === broker).pid, 'SIGKILL');
    for (;;) {
      const seen = await (await fetch(this.url('/api/v1/cluster'))).json();
      if (seen.brokers_alive < seen.brokers) return;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  async stop() {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    if (this.process.exitCode === null) {
      this.process.kill('SIGINT');
      await ended;
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}
