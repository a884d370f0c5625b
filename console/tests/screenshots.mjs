// Makes the pictures of the documentation: node console/tests/screenshots.mjs FOLDER
import { join } from 'node:path';
import { Cluster } from './cluster.mjs';
import { Eyes, launch } from './eyes.mjs';

const folder = process.argv[2] ?? 'docs';
/** So long something is published before the picture, for plots to show. */
const TRAFFIC_MS = 60_000;

const [cluster, browser] = await Promise.all([Cluster.start(), launch()]);
try {
  await cluster.fill();
  const until = Date.now() + TRAFFIC_MS;
  for (let i = 0; Date.now() < until; i += 1) {
    const burst = 4 + Math.round(4 * Math.sin(i / 6));
    await Promise.all(
      Array.from({ length: burst }, (_, k) =>
        cluster.change('POST', '/topics/orders/messages', { key: `k${i}-${k}`, value: `{"order": ${i}}` }),
      ),
    );
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  const eyes = await Eyes.open(browser, { width: 1280, height: 860 });
  await eyes.go(cluster.url(), 'Messages in');
  await eyes.page.waitForFunction(() => document.querySelectorAll('.canvas canvas').length >= 9);
  await new Promise((resolve) => setTimeout(resolve, 4_000));
  await eyes.page.screenshot({ path: join(folder, 'console.png') });
  await eyes.close();
} finally {
  await browser.close();
  await cluster.stop();
}
