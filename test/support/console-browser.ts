/**
 * The console in a real browser: headless Chromium against a relay in this process, whose samples come when the test says
 * that time has passed. Whatever the page should never do (a violated policy, an error, a dialog, a word too wide) is kept.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, type BrowserContext, type BrowserContextOptions, type Page, chromium } from 'playwright-core';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { buildPage } from '../../scripts/build-pages.ts';
import { ControlClient } from '../../src/cli/control-client.ts';
import type { HttpRelay } from './http-relay.ts';
import { disposableFolder } from './temporary-folder.ts';

const CHROMIUM = '/usr/bin/chromium';
/** How long the page may take for anything. */
const PATIENCE_MS = 8_000;
const SAMPLE_MS = 2_000;

export interface BrowserSuite {
  browser: Browser;
  /** Where the page was built. */
  consoleFolder: string;
  /** For screenshots; gone at the end unless POSTE_SCREENSHOTS names another folder. */
  screenshots: string;
}

/** A browser and a built page for the tests of a file; call it there. */
export function browserForSuite(): BrowserSuite {
  const suite = {} as BrowserSuite;
  let remove: (() => Promise<void>) | undefined;
  beforeAll(async () => {
    if (!existsSync(CHROMIUM)) {
      throw new Error(`these tests need Chromium at ${CHROMIUM}: apt-get install chromium, as .ci/run does`);
    }
    const disposable = await disposableFolder();
    remove = disposable.remove;
    suite.consoleFolder = join(disposable.folder, 'console');
    suite.screenshots = process.env['POSTE_SCREENSHOTS'] ?? join(disposable.folder, 'screenshots');
    await buildPage('console', suite.consoleFolder);
    const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
    suite.browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--disable-dev-shm-usage', ...asRoot] });
  });
  afterAll(async () => {
    await suite.browser?.close();
    await remove?.();
  });
  return suite;
}

/** The one-time URL that `poste relay console` prints. */
export async function consoleUrl(relay: HttpRelay): Promise<string> {
  return String((await new ControlClient(relay.folder).post('/v1/console', {}))['url']);
}

/** Two seconds pass: the relay takes a sample and sends it. */
export function sample(relay: HttpRelay, times = 1): void {
  for (let time = 0; time < times; time++) {
    relay.clock.move(SAMPLE_MS);
    relay.timers.pass(SAMPLE_MS);
  }
}

/** A window of its own; everything that its page did wrong is in `faults`. */
export class ConsoleWindow {
  readonly context: BrowserContext;
  readonly page: Page;
  readonly faults: string[] = [];
  /** Status and path of what the relay refused; a test that means it takes it out. */
  readonly refusals: string[] = [];

  private constructor(context: BrowserContext, page: Page) {
    this.context = context;
    this.page = page;
  }

  static async open({ browser }: BrowserSuite, options: BrowserContextOptions = {}): Promise<ConsoleWindow> {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
    onTestFinished(() => context.close());
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    const opened = new ConsoleWindow(context, page);
    page.on('pageerror', (error) => opened.faults.push(`error: ${error.message}`));
    page.on('console', (message) => {
      // What was refused is told below.
      if (message.text().startsWith('Failed to load resource')) return;
      if (message.type() === 'error' || message.type() === 'warning') opened.faults.push(message.text());
    });
    page.on('response', (response) => {
      if (response.status() >= 400) opened.refusals.push(`${response.status()} ${new URL(response.url()).pathname}`);
    });
    page.on('dialog', (dialog) => {
      opened.faults.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('request', (request) => {
      if (new URL(request.url()).hostname !== '127.0.0.1') opened.faults.push(`asked elsewhere: ${request.url()}`);
    });
    await page.exposeFunction('posteFault', (fault: string) => opened.faults.push(fault));
    await page.addInitScript(`
      addEventListener('securitypolicyviolation', (event) => posteFault('policy: ' + event.violatedDirective + ' ' + event.blockedURI));
      globalThis.hacked = () => posteFault('script of others ran');
    `);
    return opened;
  }

  /** Opens the console of `relay` with a fresh link; it is live when this resolves. */
  async enter(relay: HttpRelay): Promise<void> {
    await this.page.goto(await consoleUrl(relay));
    await this.heading('Overview');
    await this.page.getByText('live', { exact: true }).waitFor();
  }

  /** Goes to a view by its name in the navigation. */
  async go(name: string): Promise<void> {
    await this.page.getByRole('navigation').getByRole('link', { name }).click();
    await this.heading(name);
  }

  /** Resolves when the view with this heading is there. */
  async heading(name: string | RegExp): Promise<void> {
    await this.page.getByRole('heading', { level: 1, name }).waitFor();
  }

  /** Everything that is wrong: what is wider than the window, and every fault and refusal so far. */
  async unsound(): Promise<string[]> {
    const [wide, widest] = await this.page.evaluate<[number, string[]]>(`(() => {
      const width = document.documentElement.clientWidth;
      const wider = [...document.querySelectorAll('main *, header *')].filter((one) => {
        const { left, right, width: own } = one.getBoundingClientRect();
        return own > 1 && (right > width + 1 || left < -1);
      });
      return [document.documentElement.scrollWidth - width, wider.map((one) => one.outerHTML.slice(0, 120))];
    })()`);
    const scrolls = wide === 0 ? [] : [`scrolls sideways by ${wide}`];
    return [...scrolls, ...widest, ...this.faults, ...this.refusals];
  }

  /** What the focus is on, by its name, as Tab goes from here; until it leaves the page or comes around. */
  async tabStops(max = 40): Promise<string[]> {
    const stops: string[] = [];
    for (let at = 0; at < max; at++) {
      await this.page.keyboard.press('Tab');
      const name = await this.page.evaluate<string>(`(() => {
        const one = document.activeElement;
        if (!one || one === document.body) return '';
        const label = one.labels?.[0]?.querySelector('span')?.textContent;
        return (label ?? one.getAttribute('aria-label') ?? one.textContent).trim();
      })()`);
      if (name === '') break;
      stops.push(name);
    }
    return stops;
  }
}
