// nats.js logs in by an NKey, over TLS, and gets what it publishes.
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";

const { url, ca, seed, subject } = JSON.parse(process.argv[2]);
const found = { refused: "", received: "" };
try {
  const client = await connect({
    servers: url,
    reconnect: false,
    authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)),
    tls: { caFile: ca, handshakeFirst: true },
  });
  const subscription = client.subscribe(subject, { max: 1 });
  client.publish(subject, "by an NKey");
  for await (const message of subscription) {
    found.received = message.string();
  }
  await client.close();
} catch (error) {
  found.refused = error.constructor.name;
}
console.log(JSON.stringify(found));
