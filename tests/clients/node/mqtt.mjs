// mqtt.js at brokers: the three qualities, retained messages, sessions, request and response.
import mqtt from "mqtt";

const { url, root, version } = JSON.parse(process.argv[2]);
const found = { messages: [] };
const options = { protocolVersion: version, reconnectPeriod: 0 };

async function connect(more) {
  const client = await mqtt.connectAsync(url, { ...options, ...more });
  const waiting = [];
  const waiters = [];
  client.on("message", (topic, payload, packet) => {
    const one = { topic, text: payload.toString(), packet };
    if (waiters.length) {
      waiters.shift()(one);
    } else {
      waiting.push(one);
    }
  });
  const next = () =>
    waiting.length
      ? Promise.resolve(waiting.shift())
      : new Promise((resolve) => waiters.push(resolve));
  return { client, next };
}

const { client, next } = await connect({ clientId: `${root}-plain` });
found.granted = (await client.subscribeAsync(`${root}/+`, { qos: 2 })).map((each) => each.qos);
for (let n = 0; n < 9; n += 1) {
  await client.publishAsync(`${root}/${n}`, `m${n}`, { qos: n % 3 });
}
for (let n = 0; n < 9; n += 1) {
  const { topic, text, packet } = await next();
  found.messages.push([topic, text, packet.qos]);
}
await client.publishAsync(`${root}/kept`, "kept", { qos: 1, retain: true });
await next();

const other = await connect({ clientId: `${root}-other` });
await other.client.subscribeAsync(`${root}/kept`, { qos: 1 });
const { topic, text, packet } = await other.next();
found.retained = [topic, text, packet.retain];
await client.publishAsync(`${root}/kept`, "", { qos: 1, retain: true });
await other.next();

// A session that is kept.
const kept = { clientId: `${root}-session`, clean: false };
if (version === 5) {
  kept.properties = { sessionExpiryInterval: 300 };
}
const resumed = [];
const session = mqtt.connect(url, { ...options, ...kept });
resumed.push(await new Promise((resolve) => session.once("connect", (ack) => resolve(ack.sessionPresent))));
await session.subscribeAsync(`${root}/waits/#`, { qos: 1 });
await session.endAsync();
for (let n = 0; n < 3; n += 1) {
  await client.publishAsync(`${root}/waits/here`, `w${n}`, { qos: 1 });
}
const back = mqtt.connect(url, { ...options, ...kept });
const waited = [];
const all = new Promise((resolve) => {
  back.on("message", (_, payload) => {
    waited.push(payload.toString());
    if (waited.length === 3) {
      resolve();
    }
  });
});
resumed.push(await new Promise((resolve) => back.once("connect", (ack) => resolve(ack.sessionPresent))));
await all;
found.resumed = resumed;
found.waited = waited;

if (version === 5) {
  const service = await connect({ clientId: `${root}-service` });
  await service.client.subscribeAsync(`${root}/asks/now`, { qos: 1 });
  await other.client.subscribeAsync(`${root}/answers/now`, { qos: 1 });
  await other.client.publishAsync(`${root}/asks/now`, "ping", {
    qos: 1,
    properties: { responseTopic: `${root}/answers/now`, correlationData: Buffer.from("c-1") },
  });
  const asked = await service.next();
  const { responseTopic, correlationData } = asked.packet.properties;
  await service.client.publishAsync(responseTopic, "pong", {
    qos: 1,
    properties: { correlationData },
  });
  const answer = await other.next();
  found.answer = [answer.text, answer.packet.properties.correlationData.toString()];
  found.refused = await client
    .publishAsync("$SYS/mine", "no", { qos: 1 })
    .then(() => 0, (error) => error.code);
  await service.client.endAsync();
}
for (const each of [client, other.client, back]) {
  await each.endAsync();
}
console.log(JSON.stringify(found));
