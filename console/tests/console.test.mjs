// The console in a real browser, over a real cluster: empty, filled, and with a broker killed.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { CHANGE, Cluster, HOSTILE, TRACE } from './cluster.mjs';
import { Eyes, launch } from './eyes.mjs';

const PAGES = [
  ['', 'brokers up'],
  ['topics', 'New topic'],
  ['queues', 'the same in a terminal'],
  ['exchanges', 'amq.topic'],
  ['exchanges/amq.default', 'the queue that the routing key names'],
  ['exchanges/amq.fanout', 'Nothing is bound here'],
  ['transformations', 'Write its rule'],
  ['transformations/new-one', 'There is no transformation new-one yet'],
  ['sessions', 'connection list'],
  ['groups', 'the same in a terminal'],
  ['brokers', 'broker 3'],
  ['brokers/2', 'metadata offset'],
  ['connections', 'ANONYMOUS'],
  ['connections?tab=listeners', 'accepted'],
  ['controllers', 'high watermark'],
  ['transactions', 'the same in a terminal'],
  ['doctor', 'as of'],
  ['pipelines', 'the same in a terminal'],
  ['traces', 'Only what brokers still have'],
  ['transactions?tab=open', 'Nothing is open in any partition'],
  ['schemas', 'search'],
  ['why', 'Why does it wait?'],
  ['access', 'the same in a terminal'],
  ['access?tab=roles', 'the same in a terminal'],
  ['access?tab=rules', 'the same in a terminal'],
  ['access?tab=explain', 'Who may do this?'],
  ['keys', 'Nothing is encrypted'],
  ['keys?tab=certificates', 'in the clear'],
  ['audit', 'Nothing was audited'],
  ['account', 'Nobody has to log in here'],
];
const FILLED = [
  ['topics', 'orders'],
  ['topics/orders', 'order number 59'],
  ['topics/orders?tab=partitions', 'first offset'],
  ['topics/orders?tab=groups', 'billing'],
  ['topics/orders?tab=options', 'retention.ms'],
  ['topics/empty', 'No messages here'],
  ['queues', 'mails'],
  ['queues/mails', 'hello 2'],
  ['queues/mails?tab=state', 'kept from'],
  ['queues/mails?tab=options', 'delivery.limit'],
  ['queues/letters', 'attempts in mails after 1'],
  ['exchanges', 'everything'],
  ['exchanges/logs', 'audit.#'],
  ['transformations', 'region IS NOT NULL'],
  ['transformations/v2', 'moves $.customer to $.customer_id'],
  ['sessions', 'kitchen'],
  ['sessions?tab=retained&filter=lamps/%2B', 'lamps/kitchen'],
  ['sessions?tab=streams', 'PARCELS'],
  ['sessions?tab=streams&stream=PARCELS', 'packer'],
  ['sessions/mqtt.session.kitchen', 'lamps/kitchen'],
  ['pipelines', '0d3c-shout'],
  ['pipelines/0d3c-shout', 'spark-sink-0d3c-shout-0'],
  ['pipelines/flow-of-orders', 'Partition by partition'],
  ['traces', TRACE],
  [`traces/${TRACE}`, 'until it was committed'],
  ['groups', 'billing'],
  ['groups/billing', 'Nobody is in the group'],
  ['why?kind=group&name=billing', 'What helps'],
  ['why?kind=queue&name=mails&offset=1', 'kafkaesque why queue mails 1'],
  ['why?kind=exchange&name=logs&key=nothing', 'no binding of logs wants it'],
  ['why?kind=record&name=orders&offset=0&who=User:nobody', 'User:nobody may not read the topic orders'],
  ['access?tab=roles', 'who looks'],
  ['access?tab=rules', 'orders-'],
  ['access?tab=explain&operation=read&type=topic&name=orders-eu', 'Nobody else may'],
  ['schemas', 'orders-value'],
  ['schemas/orders-value', '"Order"'],
];

let cluster;
let browser;

before(async () => {
  [cluster, browser] = await Promise.all([Cluster.start(), launch()]);
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

async function lookAt(pages, options) {
  const eyes = await Eyes.open(browser, options);
  for (const [page, text] of pages) {
    await eyes.go(cluster.url(`/#/${page}`), text);
    assert.deepEqual(await eyes.hindrances(), [], `#/${page}`);
    assert.deepEqual(eyes.complaints, [], `#/${page}`);
  }
  await eyes.close();
}

test('every page of an empty cluster says what to do', async () => {
  await lookAt(PAGES);
  const eyes = await Eyes.open(browser);
  for (const [page, command] of [
    ['', 'kafkaesque publish greetings hello'],
    ['topics', 'kafkaesque topic create orders'],
    ['queues', 'kafkaesque queue create mails'],
    ['transformations', 'kafkaesque transformation create v2 --rule v2.json'],
    ['sessions', 'mosquitto_sub'],
    ['sessions?protocol=stomp', 'No sessions of stomp'],
    ['connections?protocol=stomp', 'Nobody is connected by stomp'],
    ['sessions?tab=retained', 'mosquitto_pub'],
    ['sessions?tab=streams', 'nats stream add ORDERS'],
    ['pipelines', 'kafkaesque pipeline init'],
    ['traces', 'KAFKAESQUE_TRACING_ENDPOINT='],
    ['groups', 'kafkaesque consume greetings --group my-group'],
    ['schemas', '/subjects/names-value/versions'],
    ['access', 'kafkaesque user create app'],
    ['access?tab=roles', 'kafkaesque role create readers'],
    ['access?tab=rules', 'kafkaesque rule create User:app'],
  ]) {
    await eyes.go(cluster.url(`/#/${page}`), command);
  }
  await eyes.close();
});

for (const theme of ['light', 'dark']) {
  test(`every page of a filled cluster is free of hindrances, ${theme}`, async () => {
    if (theme === 'light') await cluster.fill();
    await lookAt([...PAGES, ...FILLED], { theme });
  });
}

test('what means harm is shown as text', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/topics/orders?order=oldest'), HOSTILE);
  await eyes.go(cluster.url('/#/groups'), HOSTILE);
  await eyes.go(cluster.url('/#/exchanges'), HOSTILE);
  await eyes.go(cluster.url('/#/transformations'), HOSTILE);
  await eyes.go(cluster.url(`/#/transformations/${encodeURIComponent(HOSTILE)}`), `writes “${HOSTILE}”`);
  await eyes.click('main form button::-p-text(Show)');
  await eyes.page.waitForSelector('td::-p-text(onerror)');
  await eyes.go(cluster.url('/#/pipelines'), HOSTILE);
  await eyes.go(cluster.url('/#/sessions'), HOSTILE);
  await eyes.go(cluster.url('/#/sessions?tab=retained'), HOSTILE);
  await eyes.go(cluster.url('/#/sessions?tab=streams'), HOSTILE);
  await eyes.go(cluster.url(`/#/sessions/${encodeURIComponent(`mqtt.session.${HOSTILE}`)}`), `lamps/${HOSTILE}`);
  await eyes.go(cluster.url(`/#/exchanges/${encodeURIComponent(HOSTILE)}`), HOSTILE);
  await eyes.go(cluster.url(`/#/groups/${encodeURIComponent(HOSTILE)}`), HOSTILE);
  await eyes.go(cluster.url(`/#/topics/${encodeURIComponent(HOSTILE)}`), 'does not exist');
  await eyes.go(cluster.url(`/#/topics?q=${encodeURIComponent(HOSTILE)}`), HOSTILE);
  assert.equal(await eyes.page.evaluate(() => window.isHacked), undefined);
  assert.equal(await eyes.page.evaluate(() => document.querySelectorAll('main img').length), 0);
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('integers beyond 53 bits and bytes are shown as they were written', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/topics/orders?key=c1'), '12345678901234567890');
  const isWhole = (each) => each.scrollWidth <= each.clientWidth && each.scrollHeight <= each.clientHeight;
  assert.ok(await eyes.page.$eval('td:has(+ td.value)', isWhole), 'the key is seen');
  await eyes.go(cluster.url('/#/topics/orders?order=oldest'), 'ff0001');
  await eyes.close();
});

test('keys and values are decoded, with a link to their schema, or say why not', async () => {
  // The schema of orders; its subject is another topic's.
  await cluster.fillSchemas();
  await cluster.change('POST', '/topics', { name: 'coded', partitions: 1, replication_factor: 1 });
  const publish = (bytes) => cluster.change('POST', '/topics/coded/messages', {
    value: Buffer.from(bytes).toString('base64'), encoding: 'base64',
  });
  await publish([0, 0, 0, 0, 1, 6, ...Buffer.from('a-7')]);
  await publish([0, 0, 0, 0, 99, 1]);
  await publish([0x81, 0xa3, ...Buffer.from('lam'), 42]);
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/topics/coded'), '{"id":"a-7"}');
  await eyes.see('orders-value version 1');
  await eyes.see('not decoded: there is no schema 99');
  await eyes.see('{"lam":42}');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.page.select('select[name=value_format]', 'hex');
  await eyes.click('button::-p-text(Show)');
  await eyes.see('000000000106612d37');
  await eyes.go(cluster.url('/#/topics/coded?field=id&value=a-7'), '1 found; looked at 3');
  await eyes.click('td a::-p-text(orders-value version 1)');
  await eyes.see('id of this version');
  await eyes.close();
  await cluster.change('DELETE', '/topics/coded');
});

test('a message is found by its content and sent again, with nothing but clicks', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url(), 'brokers up');
  await eyes.click('nav a::-p-text(Topics)');
  await eyes.click('a::-p-text(orders)');
  await eyes.see('order number 59');
  await eyes.page.locator('input[name=contains]').fill('number 17');
  await eyes.click('button::-p-text(Show)');
  await eyes.see('1 found; looked at');
  await eyes.see('That was all');
  await eyes.click('button::-p-text(send again…)');
  await eyes.click('dialog button::-p-text(Try)');
  await eyes.see('it would go to partition');
  await eyes.click('dialog button.main');
  await eyes.see('it is committed: partition');
  await eyes.click('dialog button::-p-text(close)');
  await eyes.see('2 found; looked at');
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('what is sent again is what was written: headers, a tombstone, bytes that are no text', async () => {
  await cluster.change('POST', '/topics', { name: 'repeated', partitions: 1, replication_factor: 1 });
  const headers = [{ name: 'traceparent', value: 'abc' }, { name: 'nothing', value: null }];
  const nameless = { value: 'many', headers: [{ name: '', value: 'a' }, { name: '', value: 'b' }] };
  const text = { key: 'k', value: 'a\r\nb', headers };
  const avro = { key: 'AAE=', value: Buffer.from([0, 0, 0, 0, 1, 6, 97, 45, 55]).toString('base64'), encoding: 'base64', headers: [{ name: 'raw', value: '/w==' }] };
  for (const each of [text, { key: 'gone', value: null }, avro, nameless]) await cluster.change('POST', '/topics/repeated/messages', each);
  const eyes = await Eyes.open(browser);
  for (const offset of [0, 1, 2, 3]) {
    await eyes.go(cluster.url(`/#/topics/repeated?partition=0&offset=${offset}`), 'send again…');
    await eyes.click('button::-p-text(send again…)');
    await eyes.page.waitForSelector('dialog button.main');
    assert.deepEqual(await eyes.hindrances(), []);
    await eyes.click('dialog button.main');
    await eyes.see(`it is committed: partition 0, offset ${4 + offset}`);
  }
  const { stdout } = await cluster.kafkaesque('consume', 'repeated', '--from-beginning', '--until-end', '--json');
  const found = stdout.trim().split('\n').map((line) => JSON.parse(line)).map(({ key, value, headers }) => ({ key, value, headers }));
  assert.deepEqual(found.slice(4), found.slice(0, 4));
  // One that is edited has the headers that the page says.
  await eyes.go(cluster.url('/#/topics/repeated?partition=0&offset=0'), 'send again…');
  await eyes.click('button::-p-text(send again…)');
  await eyes.click('dialog button[aria-label="remove header 2"]');
  await eyes.page.locator('dialog textarea').fill('edited');
  await eyes.see("kafkaesque publish repeated --partition 0 --key k --header traceparent=abc -- edited");
  await eyes.click('dialog button.main');
  await eyes.see('it is committed: partition 0, offset 8');
  // There may be more headers than are shown: that is left to the command line.
  const many = Array.from({ length: 100 }, (_, i) => ({ name: `h${i}`, value: '' }));
  await cluster.change('POST', '/topics/repeated/messages', { value: 'many', headers: many });
  await eyes.go(cluster.url('/#/topics/repeated?partition=0&offset=9'), 'send again…');
  await eyes.click('button::-p-text(send again…)');
  await eyes.see('It is too long to be sent again from here.');
  await eyes.see('kafkaesque consume repeated --partition 0 --offset 9 --max 1 --json | kafkaesque publish repeated');
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
  await cluster.change('DELETE', '/topics/repeated');
});

test('no plot shows a sample before it is known which of them are counters', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.page.evaluateOnNewDocument(() => {
    const Real = window.EventSource;
    window.samples = 0;
    window.EventSource = class extends Real {
      constructor(...words) {
        super(...words);
        this.addEventListener('samples', () => (window.samples += 1));
      }
    };
  });
  await eyes.page.setRequestInterception(true);
  const held = [];
  eyes.page.on('request', (request) => (request.url().endsWith('/series') ? held.push(request) : request.continue()));
  await eyes.go(cluster.url(), 'brokers up');
  await eyes.page.waitForFunction(() => window.samples >= 2);
  assert.equal(await eyes.page.$('.legend li'), null);
  for (const request of held) await request.continue();
  await eyes.page.waitForSelector('.legend li');
  await eyes.close();
});

test('a link to a later page leads to the first one, and not away', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/topics/orders?tab=partitions&after=1'), 'first offset');
  await eyes.click('button::-p-text(first page)');
  await eyes.page.waitForFunction(() => document.querySelectorAll('main tbody tr').length === 3);
  assert.equal(await eyes.page.evaluate(() => location.hash), '#/topics/orders?tab=partitions');
  await eyes.close();
});

test('a search that is not whole says what it lacks', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/topics/orders'), 'order number 59');
  await eyes.page.locator('input[name=offset]').fill('5');
  await eyes.click('button::-p-text(Show)');
  await eyes.see('An offset is of one partition: say of which one.');
  await eyes.page.locator('input[name=partition]').fill('0');
  await eyes.click('button::-p-text(Show)');
  await eyes.see('offsets 0 to');
  await eyes.page.locator('input[name=value]').fill('c1');
  await eyes.click('button::-p-text(Show)');
  await eyes.see('Which JSON field is to be c1?');
  await eyes.close();
});

test('a topic is made, changed and deleted, each with its command', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/topics'), 'orders');
  await eyes.click('button::-p-text(New topic)');
  await eyes.page.locator('dialog input').fill('made-here');
  await eyes.see('kafkaesque topic create made-here');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.see('No messages here');
  await eyes.click('.tabs a::-p-text(options)');
  await eyes.click('button[aria-label="change retention.ms"]');
  await eyes.page.locator('dialog input').fill('60000');
  await eyes.see('kafkaesque topic alter made-here --config retention.ms=60000');
  await eyes.click('dialog button.main');
  await eyes.see('own');
  await eyes.page.waitForSelector('main .note.good');
  await eyes.click('button[aria-label="change retention.ms"]');
  await eyes.see('kafkaesque topic alter made-here --delete-config retention.ms');
  await eyes.click('dialog[open] button::-p-text(close)');
  await eyes.click('button::-p-text(Delete topic…)');
  await eyes.see('would be deleted for good');
  await eyes.page.locator('dialog input').fill('made-here');
  await eyes.click('dialog button.danger');
  await eyes.page.waitForFunction(() => location.hash === '#/topics');
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('a queue is made, purged and deleted, each with its command', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/queues'), 'mails');
  await eyes.click('button::-p-text(New queue)');
  await eyes.page.locator('dialog input').fill('made-here');
  await eyes.page.locator('dialog input[type=number]').fill('3');
  await eyes.see('kafkaesque queue create made-here --config delivery.limit=3');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.see('No messages here');
  await cluster.kafkaesque('queue', 'put', 'made-here', 'one', HOSTILE);
  await eyes.see(HOSTILE);
  await eyes.click('button::-p-text(Purge…)');
  await eyes.see('2 messages that wait in queue made-here would be removed for good');
  await eyes.page.locator('dialog input').fill('made-here');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.danger');
  await eyes.see('No messages here');
  await eyes.click('.tabs a::-p-text(options)');
  await eyes.click('button[aria-label="change max.priority"]');
  await eyes.page.locator('dialog input').fill('5');
  await eyes.see('kafkaesque queue alter made-here --config max.priority=5');
  await eyes.click('dialog button.main');
  await eyes.see('own');
  await eyes.click('button::-p-text(Delete queue…)');
  await eyes.see('would be deleted for good');
  await eyes.page.locator('dialog input').fill('made-here');
  await eyes.click('dialog button.danger');
  await eyes.page.waitForFunction(() => location.hash === '#/queues');
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('an exchange is made, bound, asked, unbound and deleted, each with its command', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/exchanges'), 'amq.topic');
  await eyes.click('button::-p-text(New exchange)');
  await eyes.page.locator('dialog input').fill('made-here');
  await eyes.page.select('dialog select', 'topic');
  await eyes.see('kafkaesque exchange create made-here --type topic');
  await eyes.click('dialog button::-p-text(Try (dry run))');
  await eyes.see('exchange made-here would be declared');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.see('Nothing is bound here');
  await eyes.click('button::-p-text(Bind…)');
  await eyes.page.waitForFunction(() => document.activeElement?.matches('dialog select'));
  await eyes.page.locator('dialog input').fill('nobody');
  await eyes.click('dialog button.main');
  await eyes.see("no queue 'nobody'");
  await eyes.page.locator('dialog input').fill('mails');
  await eyes.page.locator('dialog label:nth-child(3) input').fill('*.error');
  await eyes.see("kafkaesque binding create made-here --key '*.error' --queue mails");
  // Between exchanges nothing is changed; on the way to a queue it is, by what there is.
  await eyes.page.select('dialog label:nth-child(1) select', 'exchange');
  assert.equal(await eyes.page.$('dialog label:nth-child(4) select'), null);
  await eyes.page.select('dialog label:nth-child(1) select', 'queue');
  await eyes.page.waitForSelector('dialog option::-p-text(v2)');
  await eyes.page.select('dialog label:nth-child(4) select', 'v2');
  await eyes.see("kafkaesque binding create made-here --key '*.error' --queue mails -a x-transformation=v2");
  await eyes.page.locator('dialog label:nth-child(5) input').fill('{"x-match": "all", "depth": 2}');
  await eyes.see("--queue mails -a x-transformation=v2 -a x-match=all -a depth=2");
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.page.waitForSelector('svg a[href="#/queues/mails"]');
  await eyes.page.waitForSelector('main td a[href="#/transformations/v2"]');
  await eyes.page.locator('main form input').fill('db.error');
  await eyes.click('main form button::-p-text(Show)');
  await eyes.page.waitForSelector('main li a::-p-text(mails)');
  await eyes.page.locator('main form input').fill('db.warning');
  await eyes.click('main form button::-p-text(Show)');
  await eyes.see('nobody would have it');
  await eyes.click('button[aria-label="unbind queue mails"]');
  await eyes.click('dialog button.main');
  await eyes.see('Nothing is bound here');
  await eyes.click('button::-p-text(Delete exchange…)');
  await eyes.see('exchange made-here would be deleted');
  await eyes.page.locator('dialog input').fill('made-here');
  await eyes.click('dialog button.danger');
  await eyes.page.waitForFunction(() => location.hash === '#/exchanges');
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('a transformation is written, tried, saved, changed and deleted, each with its command', async () => {
  const eyes = await Eyes.open(browser);
  const rule = 'main section textarea';
  await eyes.go(cluster.url('/#/transformations'), 'region IS NOT NULL');
  await eyes.page.locator('main form input').fill('made-here');
  await eyes.click('button::-p-text(Write its rule)');
  await eyes.see('There is no transformation made-here yet');
  await eyes.click('main form button::-p-text(Show)');
  await eyes.page.waitForSelector('td::-p-text({"customer_id":"c1"})');
  await eyes.page.locator(rule).fill('{"steps": [{"do": "fly", "at": "$.a"}]}');
  await eyes.click('main form button::-p-text(Show)');
  await eyes.see("Invalid value 'fly'");
  // Of two numbers beyond 53 bits each stays what it is.
  await eyes.page.locator(rule).fill('{"steps": [{"do": "set", "at": "$.id", "value": 1234567890123456789}]}');
  await eyes.click('main form button::-p-text(Show)');
  await eyes.page.waitForSelector('td::-p-text({"customer":"c1","id":1234567890123456789})');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('button::-p-text(Save…)');
  await eyes.see('kafkaesque transformation create made-here --rule');
  await eyes.click('dialog button::-p-text(Try (dry run))');
  await eyes.see('transformation made-here would be put');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.see('puts a constant at $.id');
  await eyes.see('"value":1234567890123456789}');
  await eyes.see('kafkaesque binding create EXCHANGE --queue QUEUE -a x-transformation=made-here');
  await eyes.see("kafkaesque transformation test --name made-here -H region=eu -- '{");
  await eyes.page.select('main section select', 'queued');
  await eyes.page.locator('main form input').fill('mails');
  await eyes.see('kafkaesque transformation test --name made-here --queue mails');
  await eyes.click('main form button::-p-text(Show)');
  await eyes.see('The rule fails: the body is no JSON');
  await eyes.page.locator(rule).fill('{"steps": [{"do": "set", "at": "headers.by", "value": "console"}]}');
  await eyes.click('main form button::-p-text(Show)');
  await eyes.see('and stays in the queue');
  await eyes.page.waitForSelector('td::-p-text(console)');
  await eyes.click('button::-p-text(Save…)');
  await eyes.see('No binding names it');
  await eyes.click('dialog button.main');
  await eyes.see('puts a constant at headers.by');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('button::-p-text(Delete transformation…)');
  await eyes.see('transformation made-here would be removed');
  await eyes.page.locator('dialog input').fill('made-here');
  await eyes.click('dialog button.danger');
  await eyes.page.waitForFunction(() => location.hash === '#/transformations');
  // One that a binding names stays.
  await eyes.go(cluster.url('/#/transformations/v2'), 'moves $.customer');
  await eyes.click('button::-p-text(Delete transformation…)');
  await eyes.see('end them first');
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('a transformation is written and tried with nothing but the keyboard', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/transformations'), 'region IS NOT NULL');
  const { keyboard } = eyes.page;
  await eyes.page.focus('main form input');
  await keyboard.type('by-keys');
  await keyboard.press('Enter');
  await eyes.see('There is no transformation by-keys yet');
  assert.equal(await eyes.page.evaluate(() => document.activeElement.tagName), 'H1');
  for (let i = 0; i < 12; i += 1) {
    await keyboard.press('Tab');
    if ((await eyes.page.evaluate(() => document.activeElement.textContent)) === 'Show') break;
  }
  await keyboard.press('Enter');
  await eyes.page.waitForSelector('td::-p-text({"customer_id":"c1"})');
  await eyes.close();
});

test('a session is ended with what waits for it, after it was said what that is', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/sessions?kept=true'), 'hall');
  await eyes.click('main a::-p-text(hall)');
  await eyes.see('a will is its connection');
  await eyes.click('button::-p-text(End session…)');
  await eyes.see('the session of hall would be ended, with its subscriptions and');
  await eyes.see('kafkaesque queue delete mqtt.session.hall --yes');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.page.locator('dialog input').fill('hall');
  await eyes.click('dialog button.danger');
  await eyes.page.waitForFunction(() => location.hash === '#/sessions');
  await eyes.page.waitForFunction(() => !document.querySelector('main')?.innerText.includes('hall'));
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('replicas are moved after it was said what is copied', async () => {
  await cluster.change('POST', '/topics', { name: 'single', partitions: 1, replication_factor: 1 });
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/topics/single?tab=partitions'), 'first offset');
  await eyes.click('button::-p-text(Move replicas…)');
  await eyes.page.locator('dialog input').fill('1,2,3');
  await eyes.see('kafkaesque topic reassign single --replicas 1,2,3');
  await eyes.click('dialog button::-p-text(Try (dry run))');
  await eyes.see('the replicas of 1 partition of single would be moved');
  await eyes.see('from each leader');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.see('the replicas of 1 partition of single are moved');
  await eyes.click('dialog[open] button::-p-text(close)');
  await eyes.see('1, 2, 3');
  await eyes.see('in sync');
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('a group is deleted, and what hangs is aborted', async () => {
  await cluster.kafkaesque('consume', 'orders', '--group', 'short-lived', '--from-beginning', '--max', '1', '--timeout', '60');
  const stop = await cluster.beginTransaction('open-one');
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/groups/short-lived'), 'Nobody is in the group');
  await eyes.click('button::-p-text(Delete group…)');
  await eyes.see('group short-lived would be deleted');
  await eyes.see('kafkaesque group delete short-lived');
  await eyes.page.locator('dialog input').fill('short-lived');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.danger');
  await eyes.page.waitForFunction(() => location.hash === '#/groups');
  await eyes.go(cluster.url('/#/transactions?tab=open'), 'open-one');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.go(cluster.url('/#/transactions'), 'Ongoing');
  await eyes.click('button[aria-label="abort the transaction of open-one"]');
  await eyes.see('the transaction of open-one in 1 partition would be aborted');
  await eyes.see('kafkaesque txn abort open-one');
  await eyes.page.locator('dialog input').fill('open-one');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.danger');
  await eyes.see('CompleteAbort');
  stop();
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('a new service gets access to one prefix, with nothing but clicks', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url(), 'brokers up');
  await eyes.click('nav a::-p-text(Access)');
  await eyes.click('button::-p-text(New user)');
  await eyes.page.locator('dialog input').fill('shop');
  await eyes.page.locator('dialog input[type=password]').fill('a long password');
  await eyes.see('kafkaesque user create shop --password-file FILE');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.see('SCRAM-SHA-512');
  await eyes.click('.tabs a::-p-text(rules)');
  await eyes.click('button::-p-text(New rule)');
  await eyes.page.locator('dialog input').fill('User:shop');
  await eyes.page.locator('dialog label:nth-child(4) input').fill('ord');
  await eyes.click('dialog input[value=write]');
  await eyes.click('dialog button::-p-text(Try (dry run))');
  await eyes.see('There are 1 now that it is for: orders');
  await eyes.see('kafkaesque rule create User:shop -o read -o write --topic ord --prefix');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.see('User:shop');
  await eyes.click('.tabs a::-p-text(explain)');
  await eyes.page.locator('input[name=name]').fill('orders');
  await eyes.page.locator('input[name=who]').fill('User:shop');
  await eyes.click('main button.main');
  await eyes.see('User:shop may: allowed by rule');
  await eyes.page.locator('input[name=name]').fill('empty');
  await eyes.click('main button.main');
  await eyes.see('User:shop may not: no rule allows it');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('.tabs a::-p-text(users)');
  await eyes.click('button[aria-label="delete of shop"]');
  await eyes.see('user shop would be deleted');
  await eyes.page.locator('dialog input').fill('shop');
  await eyes.click('dialog button.danger');
  await eyes.page.waitForFunction(() => !document.querySelector('main')?.innerText.includes('shop'));
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('a group that stands still at one message is repaired, with nothing but clicks', async () => {
  await cluster.change('POST', '/topics', { name: 'parcels', partitions: 1 });
  for (const value of ['first', 'poison', 'last']) await cluster.change('POST', '/topics/parcels/messages', { value });
  assert.equal(await cluster.work('parcels', 'packing', 3), 'first');
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url(), 'brokers up');
  await eyes.click('nav a::-p-text(Groups)');
  await eyes.click('main a::-p-text(packing)');
  await eyes.see('Nobody is in the group');
  await eyes.click('main a::-p-text(Why does it stand still?)');
  await eyes.see('What helps');
  await eyes.click('main a::-p-text(group packing, its members and offsets)');
  await eyes.see('Nobody is in the group');
  // What is next to be read?
  await eyes.click('main a[href="#/topics/parcels?partition=0&offset=1"]');
  await eyes.see('poison');
  await eyes.page.goBack();
  await eyes.click('button[aria-label="set the offset in parcels-0"]');
  await eyes.see('parcels, partition 0: 1 is the next to be read.');
  await eyes.see('kafkaesque group reset-offsets packing --topic parcels:0 --to 2 --execute');
  await eyes.click('dialog button::-p-text(Try (dry run))');
  await eyes.see('group packing would go on elsewhere in 1 of 1 partition of parcels');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.see('group packing goes on elsewhere');
  await eyes.click('dialog[open] button::-p-text(close)');
  // Whoever keeps the service running starts it again.
  assert.equal(await cluster.work('parcels', 'packing', 1), 'last');
  await eyes.page.waitForFunction(() => /lag\s+0\s/.test(document.querySelector('main')?.innerText ?? ''));
  await eyes.click('button::-p-text(Set offsets…)');
  await eyes.page.select('dialog select:last-of-type', 'latest');
  await eyes.see('kafkaesque group reset-offsets packing --topic parcels --to latest --execute');
  assert.deepEqual(await eyes.hindrances(), []);
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('a connection is found by its client id and closed', async () => {
  const stopClient = cluster.keepConnected('a-client-to-be-closed');
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/connections'), 'a-client-to-be-closed');
  await eyes.page.select('main select', 'kafka');
  await eyes.page.locator('main input[type=search]').fill('a-client-to-be-closed');
  await eyes.see('kafkaesque connection list --protocol kafka');
  await eyes.page.waitForFunction(() => !document.querySelector('main table')?.innerText.includes('admin'));
  // The second answer has rates.
  await eyes.page.waitForFunction(() => / B\/s/.test(document.querySelector('main table')?.innerText ?? ''));
  const before = await eyes.page.$$eval('main tbody th', (cells) => cells.map((each) => each.innerText));
  await eyes.click('main tbody tr:first-child button');
  await eyes.see('The client may connect again at once');
  await eyes.click('dialog button::-p-text(Try (dry run))');
  await eyes.see('would be closed');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog button.main');
  await eyes.page.waitForFunction(
    (gone) => !document.querySelector('main table')?.innerText.includes(gone),
    {},
    before[0],
  );
  assert.deepEqual(eyes.complaints, []);
  stopClient();
  await eyes.close();
});

test('why a group stands still is shown, with what helps', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/groups/billing'), 'Nobody is in the group');
  await eyes.click('main a::-p-text(Why does it stand still?)');
  await eyes.see('What helps');
  await eyes.see('kafkaesque why group billing');
  await eyes.page.select('main select', 'record');
  await eyes.page.locator('input[name=name]').fill('orders');
  await eyes.page.locator('input[name=offset]').fill('1000000');
  await eyes.click('main button.main');
  await eyes.see('kafkaesque why record orders 0 1000000');
  assert.deepEqual(await eyes.hindrances(), []);
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('with nothing but the keyboard everything is found', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url(), 'brokers up');
  const { keyboard } = eyes.page;
  await keyboard.down('Control');
  await keyboard.press('k');
  await keyboard.up('Control');
  await eyes.page.waitForSelector('dialog[open] input');
  assert.deepEqual(await eyes.hindrances(), []);
  await keyboard.type('billing');
  await eyes.page.waitForFunction(() => document.querySelector('[aria-selected=true]')?.textContent.includes('billing'));
  await keyboard.press('Enter');
  await eyes.see('Nobody is in the group');
  assert.equal(await eyes.page.evaluate(() => document.activeElement.tagName), 'H1');
  await eyes.go(cluster.url('/#/topics'), 'orders');
  await keyboard.press('/');
  await keyboard.type('empt');
  await eyes.page.waitForFunction(() => !document.body.innerText.includes('orders'));
  assert.match(await eyes.page.evaluate(() => location.hash), /q=empt/);
  await keyboard.press('Tab');
  const reached = new Set();
  for (let i = 0; i < 25; i += 1) {
    await keyboard.press('Tab');
    reached.add(await eyes.page.evaluate(() => document.activeElement.textContent.trim().slice(0, 30)));
  }
  assert.ok(reached.has('empty'), [...reached].join());
  await eyes.close();
});

test('on a phone nothing is wider than the screen', async () => {
  const eyes = await Eyes.open(browser, { width: 375, height: 700 });
  for (const [page, text] of [...PAGES, ...FILLED]) {
    await eyes.go(cluster.url(`/#/${page}`), text);
    const overflow = await eyes.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `#/${page} is ${overflow} px too wide`);
    const trouble = await eyes.page.evaluate(() => {
      const { left, right } = document.querySelector('nav.side [aria-current]').getBoundingClientRect();
      if (left < 0 || right > innerWidth) return 'the page is out of view in the row of pages';
      const isCut = (each) => each.innerText.length < 12 && !/\s/.test(each.innerText) && each.getClientRects().length > 1;
      return [...document.querySelectorAll('tbody th a')].find(isCut)?.innerText;
    });
    assert.equal(trouble, undefined, `#/${page}`);
  }
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.close();
});

test('dead letters are moved back, and looking takes nothing', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/queues/letters'), 'attempts in mails');
  await eyes.click('button::-p-text(Redrive…)');
  await eyes.page.locator('dialog input').fill('mails');
  await eyes.see('kafkaesque queue redrive letters --to mails');
  await eyes.click('dialog button::-p-text(Try (dry run))');
  await eyes.see('1 message of queue letters would be moved to mails');
  await eyes.click('dialog button.main');
  await eyes.see('No messages here');
  const { items } = await (await fetch(cluster.url('/api/v1/queues?q=mails'))).json();
  assert.equal(items[0].ready + items[0].moving, 3);
  assert.equal(items[0].in_flight, 0);
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('live values come over one stream, and stop where nobody looks', async () => {
  const eyes = await Eyes.open(browser);
  const streams = [];
  eyes.page.on('request', (each) => each.url().includes('/api/v1/live') && streams.push(each.url()));
  await eyes.go(cluster.url(), 'Messages in');
  await eyes.page.waitForFunction(() => document.querySelectorAll('.canvas canvas').length >= 9, { timeout: 20_000 });
  assert.equal(streams.length, 1);
  await eyes.click('.plot button.plain');
  await eyes.see('time');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.close();
});

function ask(path, { method = 'GET', headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const sent = request(cluster.url(path), { method, headers }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

test('pages of others are refused', async () => {
  const body = JSON.stringify({ name: 'stolen' });
  const own = `127.0.0.1:${cluster.admin}`;
  assert.equal(await ask('/api/v1/topics'), 200);
  assert.equal(await ask('/api/v1/topics', { headers: { host: 'evil.example' } }), 403);
  assert.equal(await ask('/', { headers: { host: 'evil.example' } }), 403);
  assert.equal(await ask('/api/v1/topics', { headers: { origin: 'http://evil.example' } }), 403);
  assert.equal(await ask('/api/v1/topics', { headers: { origin: 'null' } }), 403);
  assert.equal(await ask('/api/v1/topics', { headers: { origin: `http://${own}` } }), 200);
  assert.equal(await ask('/api/v1/topics', { headers: { 'sec-fetch-site': 'same-site' } }), 403);
  const { 'x-kafkaesque-request': _, ...plain } = CHANGE;
  assert.equal(await ask('/api/v1/topics', { method: 'POST', headers: plain, body }), 403);
  const form = { ...CHANGE, 'content-type': 'text/plain' };
  assert.equal(await ask('/api/v1/topics', { method: 'POST', headers: form, body }), 400);
  assert.equal(await ask('/api/v1/topics/stolen'), 404);
});

test('a page of another origin gets nothing in a real browser', async () => {
  const eyes = await Eyes.open(browser);
  // Another port is another origin, though the same site.
  await eyes.page.goto(cluster.url('/health/live', 2));
  const got = await eyes.page.evaluate(async (target) => {
    const tries = [
      fetch(target),
      fetch(target, { mode: 'no-cors' }).then((response) => response.text()),
      fetch(target, { method: 'POST', headers: { 'x-kafkaesque-request': '1' }, body: '{}' }),
    ];
    return (await Promise.allSettled(tries)).map((each) => each.status === 'rejected' || !each.value);
  }, cluster.url('/api/v1/topics'));
  assert.deepEqual(got, [true, true, true]);
  await eyes.close();
});

test('a broker is killed while pages are open', async () => {
  const eyes = await Eyes.open(browser);
  // A partition on each broker: the third one's is lost with it.
  await cluster.change('POST', '/topics', { name: 'alone', partitions: 3, replication_factor: 1 });
  const { partitions } = await (await fetch(cluster.url('/api/v1/topics/alone'))).json();
  const lost = partitions.find((each) => each.replicas[0] === 3).partition;
  await cluster.change('POST', '/topics/alone/messages', { value: 'lost for now', partition: lost });
  await eyes.go(cluster.url('/#/brokers'), 'ready');
  await cluster.kill(3);
  await eyes.see('Not in here: broker 3');
  await eyes.see('down');
  for (const [page, text] of [
    ['', '2 of 3'],
    ['topics', 'orders'],
    ['topics/orders', 'order number 59'],
    ['groups', 'billing'],
    ['sessions', 'kitchen'],
    ['sessions/mqtt.session.kitchen', 'lamps/kitchen'],
    ['sessions?tab=streams', 'PARCELS'],
    ['pipelines', '0d3c-shout'],
    ['traces', 'Only what brokers still have'],
    ['controllers', 'down'],
    ['doctor', 'broker 3 is down'],
  ]) {
    await eyes.go(cluster.url(`/#/${page}`), text);
    assert.deepEqual(await eyes.hindrances(), [], `#/${page}`);
  }
  // What cannot be read is not said to be empty.
  await eyes.go(cluster.url('/#/topics/alone'), `Not in here: partition ${lost}.`);
  await eyes.see('cannot be read at the moment');
  assert.equal((await eyes.text()).includes('Nobody has published'), false);
  // What is bad looks so, although it leads somewhere.
  await eyes.go(cluster.url(), '2 of 3');
  assert.ok(await eyes.page.$eval('dd.bad a', (link) => getComputedStyle(link).color === getComputedStyle(link.parentElement).color));
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});
