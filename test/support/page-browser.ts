/**
 * A page of ours in a real browser: headless Chromium against a process that the test runs. Whatever the page should
 * never do (a violated policy, an error, a dialog, a word too wide) is kept.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Browser, type BrowserContext, type BrowserContextOptions, type Page, chromium } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, onTestFinished, vi } from 'vitest';
import { buildPage } from '../../scripts/build-pages.ts';
import { CHROMIUM, findProgram, neededProgram } from './programs.ts';
import { disposableFolder } from './temporary-folder.ts';
import { IS_THOROUGH } from './thorough.ts';
import { PATIENCE_MS } from './patience.ts';

export interface BrowserSuite {
  browser: Browser;
  /** The folder in which the page was built. */
  pageFolder: string;
}

const WIDE = { width: 1440, height: 900 };
const NARROW = { width: 360, height: 740 };
/** Both widths in both colours where all is tried, else the narrow one in the dark. The last one stays. */
const LAYOUTS = [
  ...(IS_THOROUGH
    ? ([
        { size: WIDE, colorScheme: 'light' },
        { size: WIDE, colorScheme: 'dark' },
        { size: NARROW, colorScheme: 'light' },
      ] as const)
    : []),
  { size: NARROW, colorScheme: 'dark' },
] as const;

/** The checker of accessibility, as a script for a page. */
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** A folder that is to keep screenshots: each costs as much as a view that is opened. */
const SCREENSHOTS = process.env['POSTE_SCREENSHOTS'];

/** A browser and a built page for the tests of a file; call it there. */
export function browserForSuite(page: 'console' | 'mail'): BrowserSuite {
  const suite = {} as BrowserSuite;
  let remove: (() => Promise<void>) | undefined;
  const executablePath = findProgram(CHROMIUM);
  beforeEach((context) => {
    neededProgram(context, CHROMIUM);
  });
  beforeAll(async () => {
    if (executablePath === undefined) return;
    const disposable = await disposableFolder();
    remove = disposable.remove;
    suite.pageFolder = join(disposable.folder, page);
    await buildPage(page, suite.pageFolder);
    const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
    suite.browser = await chromium.launch({ executablePath, args: ['--disable-dev-shm-usage', ...asRoot] });
  });
  afterAll(async () => {
    await suite.browser?.close();
    await remove?.();
  });
  return suite;
}

/** What a test still holds of the page's requests ends with its window: otherwise it would fail in nobody's name. */
async function letGo(page: Page): Promise<void> {
  if (!page.isClosed()) await page.unrouteAll({ behavior: 'ignoreErrors' });
}

type WindowClass<Opened> = new (context: BrowserContext, page: Page) => Opened;

/** A window of its own, for a page of `Source`; everything that its page did wrong is in `faults`. */
export abstract class PageWindow<Source> {
  readonly context: BrowserContext;
  readonly page: Page;
  readonly faults: string[] = [];
  /** Status and path of what was refused; a test that means it takes it out. */
  readonly refusals: string[] = [];

  constructor(context: BrowserContext, page: Page) {
    this.context = context;
    this.page = page;
    page.on('pageerror', (error) => this.faults.push(`error: ${error.message}`));
    page.on('console', (message) => {
      // What was refused is told below.
      if (message.text().startsWith('Failed to load resource')) return;
      if (message.type() === 'error' || message.type() === 'warning') this.faults.push(message.text());
    });
    page.on('response', (response) => {
      if (response.status() >= 400) this.refusals.push(`${response.status()} ${new URL(response.url()).pathname}`);
    });
    page.on('dialog', (dialog) => {
      this.faults.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('request', (request) => {
      if (new URL(request.url()).hostname !== '127.0.0.1') this.faults.push(`asked elsewhere: ${request.url()}`);
    });
  }

  /** For one test; its page is nowhere yet. */
  static async open<Opened extends PageWindow<never>>(
    this: WindowClass<Opened>,
    { browser }: BrowserSuite,
    options: BrowserContextOptions = {},
  ): Promise<Opened> {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
    onTestFinished(() => context.close());
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    onTestFinished(() => letGo(page));
    const opened = new this(context, page);
    await opened.watch();
    return opened;
  }

  /** A window in which the page is live. */
  static async entered<Source, Opened extends PageWindow<Source>>(
    this: WindowClass<Opened>,
    suite: BrowserSuite,
    source: Source,
    options?: BrowserContextOptions,
  ): Promise<Opened> {
    const opened = (await PageWindow.open.call(this, suite, options)) as Opened;
    await opened.enter(source);
    return opened;
  }

  /** Opens the page with a fresh link; it is live when this resolves. */
  abstract enter(source: Source): Promise<void>;

  /** Closes the window before its test ends. */
  async close(): Promise<void> {
    await letGo(this.page);
    await this.context.close();
  }

  /** To be called before the page goes anywhere. */
  protected async watch(): Promise<void> {
    await this.page.exposeFunction('posteFault', (fault: string) => this.faults.push(fault));
    await this.page.addInitScript(`
      addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
        posteFault('policy: ' + violatedDirective + ' ' + blockedURI));
      globalThis.hacked = () => posteFault('script of others ran');
    `);
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

  /** Everything that is wrong: what is too wide, selects that cut their text, and every fault and refusal so far. */
  async unsound(): Promise<string[]> {
    const [wide, widest] = await this.page.evaluate<[number, string[]]>(`(() => {
      const width = document.documentElement.clientWidth;
      const isOutside = (one) => {
        const { left, right, width: own } = one.getBoundingClientRect();
        return own > 1 && (right > width + 1 || left < -1);
      };
      // A box in the window that cuts or scrolls what is in it.
      const isInBox = (one) => {
        for (let box = one.parentElement; box && box !== document.body; box = box.parentElement) {
          if (getComputedStyle(box).overflowX !== 'visible' && !isOutside(box)) return true;
        }
        return false;
      };
      // A select that is narrower than its text.
      const isCut = (one) => {
        const whole = one.cloneNode(true);
        whole.value = one.value;
        Object.assign(whole.style, { position: 'absolute', width: 'max-content', maxWidth: 'none' });
        one.after(whole);
        const width = whole.getBoundingClientRect().width;
        whole.remove();
        return one.getBoundingClientRect().width < width - 1;
      };
      const cut = [...document.querySelectorAll('main select')].filter(isCut);
      const wider = [...document.querySelectorAll('main *, header *')].filter((one) => isOutside(one) && !isInBox(one));
      const shown = [...wider, ...cut].map((one) => one.outerHTML.slice(0, 120));
      return [document.documentElement.scrollWidth - width, shown];
    })()`);
    const scrolls = wide === 0 ? [] : [`scrolls sideways by ${wide}`];
    return [...scrolls, ...widest, ...this.faults, ...this.refusals];
  }

  /** Every violation that axe finds in the page as it is now, contrast included: the rule, and what breaks it. */
  async violations(): Promise<string[]> {
    // Half way from one colour to the next the contrast is that of neither. A transition may begin when another ends.
    await this.page.evaluate(`(async () => {
      for (let moving; (moving = document.getAnimations()).length > 0; )
        await Promise.allSettled(moving.map(({ finished }) => finished));
    })()`);
    // The policy of the page lets no script of others in: the browser's debugger runs this one.
    await this.page.evaluate(`globalThis.axe ?? (() => {${readFileSync(AXE, 'utf8')}})()`);
    return this.page.evaluate<string[]>(`axe.run().then(({ violations }) =>
      violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) =>
        [id, html.slice(0, 120), any[0]?.message ?? ''].join(': '))))`);
  }

  /** The view is sound in every layout, and in the last one when this resolves. `name` is that of its screenshots. */
  async soundInEveryLayout(name: string): Promise<void> {
    for (const { size, colorScheme } of LAYOUTS) {
      await this.page.setViewportSize(size);
      await this.page.emulateMedia({ colorScheme });
      // Charts take their new width in the next frame.
      await vi.waitFor(
        async () => {
          const faults = await this.unsound();
          if (faults.length > 0) throw new Error(`${name}, ${size.width} wide: ${faults.join('; ')}`);
        },
        { timeout: PATIENCE_MS },
      );
      if (SCREENSHOTS === undefined) continue;
      const path = join(SCREENSHOTS, `${name}-${size.width}-${colorScheme}.png`);
      await this.page.screenshot({ path, fullPage: true });
    }
  }

  /** Returns what the focus is on, by its name, as Tab goes from here; until it leaves the page or comes around. */
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
