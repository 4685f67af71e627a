/**
 * Takes the pictures of both pages for the docs, of a real relay and a real daemon on loopback with made-up hosts and
 * agents, on a desktop and on a phone, light and dark:
 *
 *   npm run docs:screenshots
 *
 * Keys, times and texts are fixed, so that a run changes a picture only when the page has changed, or the fonts of the
 * machine are others. It needs Chromium.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type Page, chromium } from 'playwright-core';
import { CHROMIUM, findProgram } from '../test/support/programs.ts';
import { NOW_MS } from './screenshots/clock.ts';
import { startShownHost } from './screenshots/host.ts';
import { startShownRelay } from './screenshots/relay.ts';

const PICTURES = join(import.meta.dirname, '../docs/pictures');
const SIZES = { desktop: { width: 1200, height: 700 }, phone: { width: 390, height: 800 } } as const;
/** A busy machine takes long to show a page. */
const PATIENCE_MS = 120_000;
const SCHEMES = ['light', 'dark'] as const;

interface Shown {
  /** The first part of the file names. */
  name: string;
  /** A one-time link. */
  link: () => Promise<string>;
  /** The text that says that the page is complete. */
  ready: string;
}

/** A picture of the page as soon as two of them are the same: the edges of fields are drawn a little later. */
async function settled(page: Page): Promise<Buffer> {
  let last: Buffer = Buffer.alloc(0);
  for (;;) {
    const next = await page.screenshot({ animations: 'disabled' });
    if (next.equals(last)) return next;
    last = next;
  }
}

async function picture(browser: Browser, { name, link, ready }: Shown): Promise<void> {
  for (const [device, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of SCHEMES) {
      const context = await browser.newContext({
        viewport,
        colorScheme,
        timezoneId: 'UTC',
        locale: 'en-GB',
        reducedMotion: 'reduce',
      });
      context.setDefaultTimeout(PATIENCE_MS);
      const page = await context.newPage();
      await page.clock.setFixedTime(NOW_MS);
      await page.goto(await link());
      await page.getByText(ready).first().waitFor();
      await page.getByText('live', { exact: true }).waitFor();
      writeFileSync(join(PICTURES, `${name}-${device}-${colorScheme}.png`), await settled(page));
      await context.close();
    }
  }
}

const executablePath = findProgram(CHROMIUM);
if (executablePath === undefined) throw new Error('install Chromium, or name it with POSTE_CHROMIUM');
mkdirSync(PICTURES, { recursive: true });
const folder = mkdtempSync(join(tmpdir(), 'poste-pictures-'));
const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath, args: ['--disable-dev-shm-usage', ...asRoot] });
try {
  const relay = await startShownRelay(join(folder, 'relay'));
  try {
    await picture(browser, { name: 'console', link: relay.link, ready: 'All is well.' });
    const host = await startShownHost(join(folder, 'host'), relay.url);
    try {
      await picture(browser, { name: 'mail', link: host.link, ready: host.newestSubject });
    } finally {
      await host.stop();
    }
  } finally {
    await relay.stop();
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
