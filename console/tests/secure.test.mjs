// The console of a cluster with TLS and a log-in: the audit log, the account, and who is turned away.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cluster } from './cluster.mjs';
import { Eyes, launch } from './eyes.mjs';

let cluster;
let browser;
let codes;

before(async () => {
  [cluster, browser] = await Promise.all([Cluster.start(1, { secure: true }), launch()]);
  codes = await cluster.lines('admin.recovery-codes');
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

async function logIn(eyes, user, password, code) {
  await eyes.go(cluster.url('/login.html'), 'Log in');
  await eyes.page.locator('input[name=user]').fill(user);
  await eyes.page.locator('input[name=password]').fill(password);
  if (code) await eyes.page.locator('input[name=code]').fill(code);
  await eyes.click('form button.main');
  await eyes.see('brokers up');
}

test('a stranger is led to the log-in, and to the page that was asked for from there', async () => {
  const eyes = await Eyes.open(browser);
  await eyes.go(cluster.url('/#/audit'), 'Log in');
  assert.match(eyes.page.url(), /login\.html#\/audit$/);
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.close();
});

test('the audit log is read, searched, and shows the log-in', async () => {
  const eyes = await Eyes.open(browser);
  const [password] = await cluster.lines('admin.password');
  await logIn(eyes, 'admin', password, codes[0]);
  // The audit log is for those who are named by a rule: also for super users it is a topic.
  await eyes.go(cluster.url('/#/audit'), 'User:admin');
  await eyes.see('succeeded');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.page.select('select[name=kind]', 'log-in');
  await eyes.page.locator('input[name=q]').fill('nobody-like-this');
  await eyes.click('main button.main');
  await eyes.see('No entry is like this');
  await eyes.page.locator('input[name=q]').fill('User:admin');
  await eyes.click('main button.main');
  await eyes.see('found; looked at');
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('a person gets an access key and a second factor, each shown once', async () => {
  const eyes = await Eyes.open(browser);
  const [password] = await cluster.lines('admin.password');
  await logIn(eyes, 'admin', password, codes[1]);
  await eyes.go(cluster.url('/#/account'), 'Second factor');
  await eyes.see('admin');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.go(cluster.url('/#/access'), 'super user');
  await eyes.click('button[aria-label="key of app"]');
  await eyes.click('dialog button.main');
  await eyes.see('AWS_SECRET_ACCESS_KEY');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.click('dialog[open] button::-p-text(close)');
  await eyes.see('access-key');
  await eyes.go(cluster.url('/#/account'), 'Second factor');
  await eyes.click('button::-p-text(Add a second factor…)');
  await eyes.see('kafkaesque user totp add admin');
  await eyes.click('dialog button.main');
  await eyes.see('recovery codes, each for one log-in');
  const shown = await eyes.text();
  assert.match(shown, /otpauth:\/\/totp\//);
  assert.deepEqual(await eyes.hindrances(), []);
  assert.deepEqual(eyes.complaints, []);
  await eyes.close();
});

test('who may do nothing is told so, and sees nothing', async () => {
  const eyes = await Eyes.open(await browser.createBrowserContext());
  const [password] = await cluster.lines('app.password');
  await eyes.go(cluster.url('/login.html'), 'Log in');
  await eyes.page.locator('input[name=user]').fill('app');
  await eyes.page.locator('input[name=password]').fill(password);
  await eyes.click('form button.main');
  await eyes.go(cluster.url('/#/access'), 'no rule allows Describe on the cluster');
  assert.ok(!(await eyes.text()).includes('super user'));
  await eyes.go(cluster.url('/#/audit'), 'Nothing was audited, or you may not read it');
  await eyes.go(cluster.url('/#/exchanges'), 'No exchanges that you may see');
  await eyes.go(cluster.url('/#/topics'), 'Nothing is listed that app may not see');
  await eyes.go(cluster.url(), 'no rule allows Describe on the cluster');
  await eyes.page.waitForFunction(() => !document.body.innerText.includes('No samples yet'));
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.close();
});

test('a log-in says what was wrong with it, also where nobody answers', async () => {
  const eyes = await Eyes.open(await browser.createBrowserContext());
  await eyes.go(cluster.url('/login.html'), 'Log in to Kafkaesque');
  await eyes.page.locator('input[name=user]').fill('app');
  await eyes.page.locator('input[name=password]').fill('not this one');
  await eyes.click('form button.main');
  await eyes.see('the log-in is refused');
  assert.deepEqual(await eyes.hindrances(), []);
  await eyes.page.setOfflineMode(true);
  await eyes.click('form button.main');
  await eyes.see('the broker that served this page does not answer');
  await eyes.close();
});
