// mqtt.js, as a web page uses it. It connects again by itself where `reconnect_ms` is not 0.
import mqtt from "/packages/mqtt/dist/mqtt.esm.js";
import { given, tell } from "./page.mjs";

const { ports, root, client: clientId, reconnect_ms: reconnectPeriod, kept } = given;
// Of `servers` each has a host and a port; the path is that of the URL.
const client = mqtt.connect(`ws://127.0.0.1:${ports[0]}/mqtt`, {
  servers: ports.map((port) => ({ host: "127.0.0.1", port, protocol: "ws" })),
  clientId,
  protocolVersion: 5,
  clean: !kept,
  properties: kept ? { sessionExpiryInterval: 300 } : {},
  reconnectPeriod: reconnectPeriod ?? 0,
});
client.on("message", (topic, payload, packet) =>
  tell({ name: topic, text: payload.toString(), qos: packet.qos }),
);
client.on("close", () => tell({ closed: true }));
client.on("connect", (ack) => tell({ connected: { session: ack.sessionPresent } }));
client.once("connect", async (ack) => {
  if (ack.sessionPresent) return;
  const granted = await client.subscribeAsync(`${root}/#`, { qos: 2 });
  await tell({ subscribed: granted.map((each) => each.qos) });
  for (const qos of kept ? [] : [0, 1, 2]) {
    await client.publishAsync(`${root}/page/${qos}`, `mé${qos}`, { qos });
  }
});
