// @stomp/stompjs at brokers, over WebSocket and TCP: receipts, acknowledgements, transactions.
import { Client, ReconnectionTimeMode } from "@stomp/stompjs";
import { TCPWrapper } from "@stomp/tcp-wrapper";
import { WebSocket } from "ws";

const { url, port, name, origin } = JSON.parse(process.argv[2]);
const client = new Client({
  webSocketFactory: () =>
    url === undefined
      ? new TCPWrapper("127.0.0.1", port)
      : new WebSocket(url, ["v12.stomp", "v11.stomp"], origin === undefined ? {} : { origin }),
  reconnectDelay: 0,
  reconnectTimeMode: ReconnectionTimeMode.LINEAR,
  heartbeatIncoming: 10000,
  heartbeatOutgoing: 10000,
});

let receipts = 0;
const receipt = (send) =>
  new Promise((resolve) => {
    const id = `receipt-${(receipts += 1)}`;
    client.watchForReceipt(id, resolve);
    send({ receipt: id });
  });

const connected = await new Promise((resolve, reject) => {
  client.onConnect = resolve;
  client.onStompError = (frame) => reject(new Error(frame.headers.message));
  client.onWebSocketError = (error) => resolve({ refused: String(error.message) });
  client.activate();
});
if (connected.refused !== undefined) {
  console.log(JSON.stringify(connected));
  process.exit(0);
}

const destination = `/queue/${name}`;
const found = { version: connected.headers.version, bodies: [], redelivered: [] };
for (let n = 0; n < 10; n += 1) {
  const body = `mé${n}`;
  await receipt((headers) =>
    client.publish({ destination, body, headers: { ...headers, n: String(n), k: "a\nb:c" } }),
  );
}
const binaryBody = new Uint8Array([0, 1, 255, 10, 0]);
await receipt((headers) => client.publish({ destination, binaryBody, headers }));
const transaction = client.begin();
client.publish({ destination, body: "committed", headers: { transaction: transaction.id } });
transaction.commit();
await new Promise((resolve) => {
  let isRefused = false;
  client.subscribe(
    destination,
    (message) => {
      found.redelivered.push(message.headers.redelivered === "true");
      if (!isRefused) {
        isRefused = true;
        message.nack();
        return;
      }
      if (message.headers.n !== undefined) {
        found.header = message.headers.k;
        found.bodies.push(message.body);
      } else if (message.body === "committed") {
        found.bodies.push(message.body);
      } else {
        found.binary = Array.from(message.binaryBody);
      }
      message.ack();
      if (found.bodies.length === 11 && found.binary !== undefined) {
        resolve();
      }
    },
    { ack: "client-individual", "prefetch-count": "1" },
  );
});
const topic = `/topic/${name}`;
const heard = new Promise((resolve) => {
  receipt((headers) => client.subscribe(topic, resolve, headers)).then(() =>
    client.publish({ destination: topic, body: "to all" }),
  );
});
found.heard = (await heard).body;
await client.deactivate();
console.log(JSON.stringify(found));
