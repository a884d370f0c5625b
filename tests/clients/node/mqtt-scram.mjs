// mqtt.js logs in by enhanced authentication: SCRAM-SHA-512 or -256 (RFC 5802), over TLS.
import crypto from "node:crypto";
import fs from "node:fs";
import mqtt from "mqtt";

const { url, ca, method, user, password, topic } = JSON.parse(process.argv[2]);
const hash = method === "SCRAM-SHA-512" ? "sha512" : "sha256";
const hmac = (key, text) => crypto.createHmac(hash, key).update(text).digest();
const nonce = crypto.randomBytes(18).toString("base64");
const bare = `n=${user},r=${nonce}`;
let serverSignature;

function answer(challenge) {
  const said = Object.fromEntries(
    challenge.split(",").map((each) => [each[0], each.slice(2)]),
  );
  if (!said.r.startsWith(nonce)) {
    throw new Error("another nonce");
  }
  const salt = Buffer.from(said.s, "base64");
  const length = hash === "sha512" ? 64 : 32;
  const salted = crypto.pbkdf2Sync(password, salt, Number(said.i), length, hash);
  const clientKey = hmac(salted, "Client Key");
  const stored = crypto.createHash(hash).update(clientKey).digest();
  const bound = `c=${Buffer.from("n,,").toString("base64")},r=${said.r}`;
  const signed = `${bare},${challenge},${bound}`;
  const signature = hmac(stored, signed);
  const proof = Buffer.from(clientKey.map((each, at) => each ^ signature[at]));
  serverSignature = hmac(hmac(salted, "Server Key"), signed).toString("base64");
  return `${bound},p=${proof.toString("base64")}`;
}

const client = mqtt.connect(url, {
  protocolVersion: 5,
  reconnectPeriod: 0,
  ca: fs.readFileSync(ca),
  properties: { authenticationMethod: method, authenticationData: Buffer.from(`n,,${bare}`) },
});
client.handleAuth = (packet, callback) => {
  const data = Buffer.from(answer(packet.properties.authenticationData.toString()));
  callback(null, {
    cmd: "auth",
    reasonCode: 0x18,
    properties: { authenticationMethod: method, authenticationData: data },
  });
};
const found = { is_proved: false, refused: 0, received: "" };
try {
  const ack = await new Promise((resolve, reject) => {
    client.once("connect", resolve);
    client.once("error", reject);
  });
  found.is_proved = ack.properties.authenticationData.toString() === `v=${serverSignature}`;
  const received = new Promise((resolve) =>
    client.once("message", (_, payload) => resolve(payload.toString())),
  );
  await client.subscribeAsync(topic, { qos: 1 });
  await client.publishAsync(topic, "by SCRAM", { qos: 1 });
  found.received = await received;
} catch (error) {
  found.refused = error.code;
}
await client.endAsync(true);
console.log(JSON.stringify(found));
