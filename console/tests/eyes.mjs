// A browser that looks closely: errors, broken policies, what hinders people.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import puppeteer from 'puppeteer-core';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const SHOWN_MS_MAX = 20_000;

export function launch() {
  return puppeteer.launch({
    executablePath: CHROMIUM,
    // Of a secured cluster: its authority is its own.
    acceptInsecureCerts: true,
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  });
}

export class Eyes {
  /** Everything that a page has complained of. */
  complaints = [];

  static async open(browser, { theme = 'light', width = 1280, height = 900 } = {}) {
    const eyes = new Eyes();
    eyes.page = await browser.newPage();
    await eyes.page.setViewport({ width, height });
    await eyes.page.emulateMediaFeatures([
      { name: 'prefers-color-scheme', value: theme },
      { name: 'prefers-reduced-motion', value: 'reduce' },
    ]);
    eyes.page.on('pageerror', (error) => eyes.complaints.push(`error: ${error.message}`));
    eyes.page.on('console', (message) => {
      // A broker that was killed on purpose, or an answer like 404, is no fault of the page.
      const isNetwork = message.text().startsWith('Failed to load resource');
      if (message.type() === 'error' && !isNetwork) eyes.complaints.push(`console: ${message.text()}`);
    });
    await eyes.page.evaluateOnNewDocument(() => {
      addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.sourceFile}`));
    });
    return eyes;
  }

  async go(url, text) {
    await this.page.goto('about:blank');
    await this.page.goto(url, { waitUntil: 'domcontentloaded' });
    if (text) await this.see(text);
  }

  /** Wait until a text is shown. */
  async see(text) {
    try {
      await this.page.waitForFunction(
        (wanted) => document.body.innerText.includes(wanted),
        { timeout: SHOWN_MS_MAX },
        text,
      );
    } catch {
      const shown = await this.page.evaluate(() => document.body.innerText);
      throw new Error(`never showed ${JSON.stringify(text)}, but:\n${shown.slice(0, 2_000)}`);
    }
  }

  text() {
    return this.page.evaluate(() => document.body.innerText);
  }

  /** What hinders people, as axe finds it for WCAG 2.2 AA. */
  async hindrances() {
    await this.page.evaluate(AXE);
    return this.page.evaluate(async () => {
      const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
      const found = await window.axe.run(document, { runOnly: tags });
      return found.violations.flatMap((each) =>
        each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 160)} ${node.failureSummary}`),
      );
    });
  }

  click(selector) {
    return this.page.locator(selector).click();
  }

  async close() {
    await this.page.close();
  }
}
