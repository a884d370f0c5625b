// Makes the pictures of docs/console.md: node console/tests/screenshots.mjs FOLDER
import { mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Cluster } from './cluster.mjs';
import { Eyes, launch } from './eyes.mjs';

const folder = join(process.argv[2] ?? 'docs', 'screenshots');
/** So long something is published before the pictures, for plots to show. */
const TRAFFIC_MS = 60_000;
/** All pictures together: they are part of every checkout. */
const BYTES_MAX = 2_000_000;
const SIZE = { width: 1200, height: 760 };

/** Each page: the name of its picture, its address, and what it shows when it is ready. */
const PAGES = [
  ['overview', '', 'Messages in'],
  ['topics', 'topics', 'orders'],
  ['topic-messages', 'topics/orders', 'order number'],
  ['topic-partitions', 'topics/orders?tab=partitions', 'first offset'],
  ['topic-groups', 'topics/orders?tab=groups', 'billing'],
  ['topic-options', 'topics/orders?tab=options', 'retention.ms'],
  ['queues', 'queues', 'mails'],
  ['queue-messages', 'queues/letters', 'attempts in mails'],
  ['queue-state', 'queues/mails?tab=state', 'kept from'],
  ['exchanges', 'exchanges', 'everything'],
  ['exchange', 'exchanges/logs', 'audit.#'],
  ['transformations', 'transformations', 'region IS NOT NULL'],
  ['transformation', 'transformations/v2', 'moves $.customer'],
  ['sessions', 'sessions', 'kitchen'],
  ['session', 'sessions/mqtt.session.kitchen', 'lamps/kitchen'],
  ['retained', 'sessions?tab=retained', 'lamps/kitchen'],
  ['streams', 'sessions?tab=streams', 'PARCELS'],
  ['stream-consumers', 'sessions?tab=streams&stream=PARCELS', 'packer'],
  ['groups', 'groups', 'billing'],
  ['group', 'groups/billing', 'Nobody is in the group'],
  ['brokers', 'brokers', 'broker 3'],
  ['broker', 'brokers/2', 'metadata offset'],
  ['connections', 'connections', 'shop-frontend'],
  ['listeners', 'connections?tab=listeners', 'accepted'],
  ['controllers', 'controllers', 'high watermark'],
  ['transactions', 'transactions', 'shop-orders'],
  ['open-transactions', 'transactions?tab=open', 'shop-orders'],
  ['pipelines', 'pipelines', '0d3c-shout'],
  ['pipeline', 'pipelines/0d3c-shout', 'spark-sink-0d3c-shout-0'],
  ['traces', 'traces', '0af7651916cd43dd8448eb211c80319c'],
  ['trace', 'traces/0af7651916cd43dd8448eb211c80319c', 'until it was committed'],
  ['schemas', 'schemas', 'orders-value'],
  ['schema', 'schemas/orders-value', '"Order"'],
  ['why', 'why?kind=group&name=billing', 'What helps'],
  ['users', 'access', 'app'],
  ['roles', 'access?tab=roles', 'who looks'],
  ['rules', 'access?tab=rules', 'orders-'],
  ['explain', 'access?tab=explain&operation=read&type=topic&name=orders-eu', 'Nobody else may'],
  ['keys', 'keys', 'Nothing is encrypted'],
  ['certificates', 'keys?tab=certificates', 'in the clear'],
  ['audit', 'audit', 'Nothing was audited'],
  ['account', 'account', 'Nobody has to log in here'],
  ['doctor', 'doctor', 'as of'],
];

async function publishFor(cluster, ms) {
  const until = Date.now() + ms;
  for (let i = 0; Date.now() < until; i += 1) {
    const burst = 4 + Math.round(4 * Math.sin(i / 6));
    await Promise.all(
      Array.from({ length: burst }, (_, k) =>
        cluster.change('POST', '/topics/orders/messages', { key: `k${i}-${k}`, value: `order number ${i}` }),
      ),
    );
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
}

let stopProducer = () => {};
const [cluster, browser] = await Promise.all([Cluster.start(), launch()]);
try {
  await mkdir(folder, { recursive: true });
  await cluster.fill({ isHostile: false });
  const stopClient = cluster.keepConnected('shop-frontend');
  await publishFor(cluster, TRAFFIC_MS);
  // Written with the schema orders-value.
  for (const id of ['o-17', 'o-18', 'o-19']) {
    const value = Buffer.from([0, 0, 0, 0, 1, 2 * id.length, ...Buffer.from(id)]).toString('base64');
    await cluster.change('POST', '/topics/orders/messages', { value, encoding: 'base64' });
  }
  stopProducer = await cluster.beginTransaction('shop-orders');
  const eyes = await Eyes.open(browser, SIZE);
  for (const [name, page, text] of PAGES) {
    await eyes.go(cluster.url(`/#/${page}`), text);
    if (name === 'overview') {
      await eyes.page.waitForFunction(() => document.querySelectorAll('.canvas canvas').length >= 9);
      await new Promise((resolve) => setTimeout(resolve, 4_000));
    }
    if (name === 'transformation') {
      const body = 'main section:nth-of-type(2) textarea';
      await eyes.page.locator(body).fill('{"customer": "c1", "total": "12.50", "name": "Ada Byron"}');
      await eyes.click('main form button::-p-text(Show)');
      await eyes.page.waitForSelector('td::-p-text("first":"Ada")');
      await eyes.page.evaluate(() => document.querySelectorAll('main section')[1].scrollIntoView());
    }
    // Lists that were shown before are asked for again within three seconds, with rates then.
    if (name === 'connections') await new Promise((resolve) => setTimeout(resolve, 4_000));
    await eyes.page.screenshot({ path: join(folder, `${name}.webp`), type: 'webp', quality: 60 });
  }
  await eyes.close();
  stopClient();
} finally {
  stopProducer();
  await browser.close();
  await cluster.stop();
}
const sizes = await Promise.all((await readdir(folder)).map(async (name) => (await stat(join(folder, name))).size));
const total = sizes.reduce((sum, size) => sum + size, 0);
console.log(`${sizes.length} pictures, ${total} bytes`);
if (total > BYTES_MAX) throw new Error(`they take more than ${BYTES_MAX} bytes`);
