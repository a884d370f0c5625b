// amqplib at brokers: confirms, consumers, returns, errors by code.
import amqp from "amqplib";

const { url, name } = JSON.parse(process.argv[2]);
const found = {};
const connection = await amqp.connect(url, { heartbeat: 5 });
connection.on("error", () => {});
try {
  const channel = await connection.createConfirmChannel();
  found.declared = await channel.assertQueue(name, { durable: true, maxPriority: 3 });
  const returned = new Promise((resolve) => channel.once("return", resolve));
  channel.publish("", `${name}-absent`, Buffer.from("lost"), { mandatory: true });
  found.returned = (await returned).fields.replyText;
  for (let n = 0; n < 10; n += 1) {
    channel.sendToQueue(name, Buffer.from(`m${n}`), {
      persistent: true,
      headers: { n, nested: { list: [1, "zwei", null] } },
      contentType: "text/plain",
      correlationId: `c${n}`,
    });
  }
  await channel.waitForConfirms();
  found.count = (await channel.checkQueue(name)).messageCount;
  await channel.prefetch(3);
  const seen = [];
  await new Promise((resolve, reject) => {
    channel.consume(name, (message) => {
      if (message === null) {
        reject(new Error("cancelled"));
        return;
      }
      seen.push([message.content.toString(), message.fields.redelivered]);
      if (seen.length === 1) {
        found.first = message.properties;
        channel.nack(message);
      } else {
        channel.ack(message);
      }
      if (seen.length === 11) {
        resolve();
      }
    });
  });
  found.seen = seen;
  await channel.close();
  const other = await connection.createChannel();
  other.on("error", () => {});
  found.error = await other.checkQueue(`${name}-absent`).catch((error) => [error.code, error.message]);
  const third = await connection.createChannel();
  found.deleted = await third.deleteQueue(name);
} finally {
  await connection.close();
}
console.log(JSON.stringify(found));
