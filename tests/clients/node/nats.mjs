// nats.js at brokers: the core protocol, JetStream, keys and values.
import { connect, headers } from "@nats-io/transport-node";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";

const { urls, name } = JSON.parse(process.argv[2]);
const found = {};
const [here, there] = await Promise.all(
  urls.map((url) => connect({ servers: url, ignoreClusterUpdates: true })),
);
try {
  here.subscribe(`${name}.echo`, {
    queue: "workers",
    callback: (_, message) => message.respond(`${message.string()}!`, { headers: message.headers }),
  });
  await here.flush();
  const told = headers();
  told.set("kind", "question");
  const answer = await there.request(`${name}.echo`, "hello", { timeout: 30000, headers: told });
  found.answer = [answer.string(), answer.headers.get("kind")];
  found.nobody = await there.request(`${name}.none`).catch((error) => error.constructor.name);

  const manager = await jetstreamManager(here, { timeout: 30000 });
  await manager.streams.add({ name, subjects: [`${name}.stored.*`] });
  const stream = jetstream(here, { timeout: 30000 });
  for (let n = 0; n < 10; n += 1) {
    await stream.publish(`${name}.stored.${n % 2}`, `m${n}`, { msgID: `id${n}` });
  }
  found.duplicate = (await stream.publish(`${name}.stored.0`, "m0", { msgID: "id0" })).duplicate;
  found.messages = (await manager.streams.info(name)).state.messages;

  await manager.consumers.add(name, {
    durable_name: "worker",
    ack_policy: "explicit",
    filter_subject: `${name}.stored.1`,
  });
  const worker = await jetstream(there, { timeout: 30000 }).consumers.get(name, "worker");
  found.worked = [];
  const messages = await worker.consume({ max_messages: 3 });
  for await (const message of messages) {
    if (message.string() === "m1" && message.info.deliveryCount === 1) {
      message.nak();
      continue;
    }
    found.worked.push([message.string(), message.info.deliveryCount]);
    await message.ackAck();
    if (found.worked.length === 5) break;
  }
  found.pending = (await worker.info()).num_pending;

  const ordered = await stream.consumers.get(name);
  found.ordered = [];
  for await (const message of await ordered.fetch({ max_messages: 10, expires: 10000 })) {
    found.ordered.push(message.string());
  }

  const kvm = new Kvm(stream);
  const values = await kvm.create(`${name}_bucket`, { history: 5 });
  const revision = await values.create("a", "1");
  await values.update("a", "2", revision);
  found.stale = await values.update("a", "3", revision).catch((error) => error.code ?? error.name);
  await values.put("b", "x");
  await values.delete("b");
  found.a = (await values.get("a")).string();
  found.b = (await values.get("b")).operation;
  found.keys = [];
  for await (const key of await values.keys()) found.keys.push(key);
  found.history = [];
  for await (const entry of await values.history({ key: "a" })) found.history.push(entry.string());

  // A mirror of the bucket, and a bucket that has its keys from it under its own name.
  const until = async (look) => {
    for (let patience = 600; patience > 0; patience -= 1) {
      const seen = await look().catch(() => null);
      if (seen?.string() === "2") return seen;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return null;
  };
  await manager.streams.add({ name: `${name}_mirror`, mirror: { name: `KV_${name}_bucket` } });
  const key = { last_by_subj: `$KV.${name}_bucket.a` };
  found.mirrored = (await until(() => manager.streams.getMessage(`${name}_mirror`, key)))?.seq;
  const gathered = await kvm.create(`${name}_gathered`, { sources: [{ name: `${name}_bucket` }] });
  found.gathered = (await until(() => gathered.get("a")))?.key;
  found.sameRevision = (await values.get("a")).revision;
  const far = new Date("2100-01-01T00:00:00Z");
  found.paused = (await manager.consumers.pause(name, "worker", far)).paused;
  found.resumed = (await manager.consumers.resume(name, "worker")).paused;
} finally {
  await Promise.all([here.close(), there.close()]);
}
console.log(JSON.stringify(found));
