// nats.js, as a web page uses it. Its packages are CommonJS: a page would have a bundler for them.
import { given, tell } from "./page.mjs";

const PACKAGES = {
  "@nats-io/nats-core": "@nats-io/nats-core/lib/mod.js",
  "@nats-io/nkeys": "@nats-io/nkeys/lib/mod.js",
  "@nats-io/nuid": "@nats-io/nuid/lib/mod.js",
  tweetnacl: "tweetnacl/nacl-fast.js",
};
const loaded = new Map();

function load(url) {
  if (!loaded.has(url)) {
    const module = { exports: {} };
    loaded.set(url, module);
    const request = new XMLHttpRequest();
    request.open("GET", url, false);
    request.send();
    const need = (name) => {
      if (name in PACKAGES) return load(`/packages/${PACKAGES[name]}`);
      if (!name.startsWith(".")) throw new Error(`not in browsers: ${name}`);
      const there = new URL(name, new URL(url, location.href)).pathname;
      return load(there.endsWith(".js") ? there : `${there}.js`);
    };
    new Function("module", "exports", "require", request.responseText)(module, module.exports, need);
  }
  return loaded.get(url).exports;
}

const { wsconnect } = load(`/packages/${PACKAGES["@nats-io/nats-core"]}`);
const { ports, root } = given;
try {
  const connection = await wsconnect({
    servers: `ws://127.0.0.1:${ports[0]}/nats`,
    reconnect: false,
    ignoreClusterUpdates: true,
  });
  connection.subscribe(`${root}.>`, {
    callback: (_, message) => tell({ name: message.subject, text: message.string() }),
  });
  await connection.flush();
  await tell({ subscribed: true });
  for (let n = 0; n < 3; n += 1) {
    connection.publish(`${root}.page.${n}`, `mé${n}`);
  }
} catch (error) {
  await tell({ closed: true, error: String(error) });
}
