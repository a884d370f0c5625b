// Measures the console in headless Chromium, over three local brokers; not part of the tests:
//   node console/tests/figures.mjs                 first paint, and what ten open consoles cost
//   node console/tests/figures.mjs TOPICS GROUPS   the overview, a page of topics and the API with so many
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Cluster } from './cluster.mjs';
import { Eyes, launch } from './eyes.mjs';

const PYTHON = join(import.meta.dirname, '../../.venv/bin/python');
const TRIES = 11;
const API_TRIES = 5;
const CONSOLES = 10;
const WATCHED_S = 30;
const SETTLED_MS = 5_000;
/** The kernel's clock ticks in a second: 100 on every Linux that we know. */
const TICKS = 100;
const VIEWS = ['/cluster', '/topics?limit=100', '/topics?limit=100&sort=-bytes', '/groups?limit=100&sort=-lag', '/doctor'];

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function told(name, values, unit) {
  const sorted = [...values].sort((a, b) => a - b);
  const shown = (value) => value.toFixed(value < 10 ? 2 : 0);
  console.log(`${name}: median ${shown(sorted[sorted.length >> 1])}, ${shown(sorted[0])} to ${shown(sorted.at(-1))} ${unit}`);
}

async function firstPaints(browser, cluster) {
  const found = [];
  for (let i = 0; i < TRIES; i += 1) {
    // Each in a profile of its own: nothing is cached.
    const context = await browser.createBrowserContext();
    const page = await context.newPage();
    await page.goto(cluster.url('/'));
    await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
    found.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime));
    await context.close();
  }
  told('first contentful paint', found, 'ms');
}

/** Processor time of each broker so far, in seconds. */
async function usedBy(cluster) {
  return Promise.all(cluster.brokers.map(async ({ pid }) => {
    const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1].split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS;
  }));
}

async function watch(cluster, name) {
  await pause(SETTLED_MS);
  const before = await usedBy(cluster);
  await pause(WATCHED_S * 1_000);
  const after = await usedBy(cluster);
  const used = after.map((each, i) => (100 * (each - before[i])) / WATCHED_S);
  console.log(`${name}: ${used.map((each) => each.toFixed(2)).join(', ')} % of a core at brokers 1, 2, 3`);
}

async function openConsoles(browser, cluster) {
  await watch(cluster, 'no console');
  const eyes = [];
  for (let i = 0; i < CONSOLES; i += 1) {
    // A page that is not in front does not ask: each is in a window of its own.
    const context = await browser.createBrowserContext();
    const page = await context.newPage();
    await page.emulateFocusedPage(true);
    await page.goto(cluster.url('/'));
    eyes.push(context);
  }
  await watch(cluster, `${CONSOLES} consoles on broker 1's overview`);
  for (const each of eyes) await each.close();
}

async function fill(cluster, topics, groups) {
  const program = [
    'import sys, confluent_kafka as kafka, confluent_kafka.admin as admin',
    'servers, topics, groups = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])',
    'client = admin.AdminClient({"bootstrap.servers": servers})',
    'names = [f"topic-{number:05}" for number in range(topics)]',
    'for at in range(0, topics, 100):',
    '    made = client.create_topics([admin.NewTopic(name, 1) for name in names[at:at + 100]], request_timeout=120)',
    '    [each.result() for each in made.values()]',
    'at = lambda number: kafka.TopicPartition(names[number % topics], 0, 0)',
    'for number in range(groups):',
    '    wanted = kafka.ConsumerGroupTopicPartitions(f"group-{number:04}", [at(number)])',
    '    [each.result() for each in client.alter_consumer_group_offsets([wanted], request_timeout=60).values()]',
  ].join('\n');
  await promisify(execFile)(PYTHON, ['-c', program, cluster.kafka, String(topics), String(groups)]);
}

/** From the address until what leaders and coordinators had to be asked for is shown. */
async function shown(eyes, url, isThere) {
  await eyes.page.goto('about:blank');
  const begin = performance.now();
  await eyes.page.goto(url, { waitUntil: 'domcontentloaded' });
  await eyes.page.waitForFunction(isThere, { polling: 'mutation', timeout: 60_000 });
  return performance.now() - begin;
}

async function large(browser, cluster, topics, groups) {
  const begin = performance.now();
  await fill(cluster, topics, groups);
  console.log(`${topics} topics of one partition and ${groups} groups made in ${((performance.now() - begin) / 1_000).toFixed(0)} s`);
  await pause(SETTLED_MS);
  const eyes = await Eyes.open(browser);
  const overview = [];
  const listed = [];
  for (let i = 0; i < TRIES; i += 1) {
    overview.push(await shown(eyes, cluster.url('/'), () => document.querySelectorAll('.facts dd').length >= 12));
    listed.push(await shown(eyes, cluster.url('/#/topics'), () => document.querySelectorAll('tbody tr').length >= 100));
  }
  await eyes.close();
  told('overview, until its numbers are there', overview, 'ms');
  told('topics, until a page of them is there', listed, 'ms');
  for (const view of VIEWS) {
    const took = [];
    for (let i = 0; i < API_TRIES; i += 1) {
      const asked = performance.now();
      await (await fetch(cluster.url(`/api/v1${view}`))).text();
      took.push(performance.now() - asked);
      // What was added up for the last one is not used again.
      await pause(2_100);
    }
    told(`GET ${view}`, took, 'ms');
  }
}

const [topics, groups] = process.argv.slice(2).map(Number);
const [cluster, browser] = await Promise.all([Cluster.start(), launch()]);
try {
  if (topics) await large(browser, cluster, topics, groups ?? 0);
  else {
    await firstPaints(browser, cluster);
    await openConsoles(browser, cluster);
  }
} finally {
  await browser.close();
  await cluster.stop();
}
