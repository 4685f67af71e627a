/** Who waits for whom on the owner's page, in headless Chromium: the picture, the table, and what changes meanwhile. */
import { expect, test } from 'vitest';
import { useInbox } from '../../src/host/mail/inbox.ts';
import { accepted, addPeer, idOf, send } from '../support/mail-context.ts';
import { MailWindow, mailPage, writeToOwner } from '../support/mail-page.ts';
import { browserForSuite } from '../support/page-browser.ts';

const HOUR_MS = 3_600_000;

const suite = browserForSuite('mail');

test('says that nobody waits until somebody does, without a reload', async () => {
  const mail = await mailPage({ pageFolder: suite.pageFolder, agents: ['alice', 'bob'] });
  const window = await MailWindow.entered(suite, mail);
  await window.go('Waiting');
  const { page } = window;
  await page.getByText('Nobody waits for an answer.').waitFor();
  accepted(await send(mail.context, 'alice', { to: ['bob'], subject: 'a question', needs_reply: true }));
  await page.getByRole('row', { name: /^alice bob a question/ }).waitFor();
  expect(await window.violations()).toEqual([]);
});

test('shows all agents of the host as a picture and as a table', async () => {
  const mail = await mailPage({ pageFolder: suite.pageFolder, agents: ['alice', 'bob', 'carol'] });
  const { context } = mail;
  await addPeer(context, 'laptop');
  // The page has the clock of this machine.
  context.clock.nowMs = Date.now() - 80 * HOUR_MS;
  const ask = async (from: string, to: string[], subject: string): Promise<string> =>
    accepted(await send(context, from, { to, subject, needs_reply: true })).message_id;
  await ask('alice', ['bob'], 'the oldest');
  context.clock.nowMs += 50 * HOUR_MS;
  await ask('alice', ['bob'], 'another');
  await ask('bob', ['carol', 'dan@laptop'], 'of bob');
  context.clock.nowMs = Date.now();
  await writeToOwner(context, 'carol', { subject: '<img src=x onerror=hacked()>', needs_reply: true });
  const window = await MailWindow.entered(suite, mail);
  await window.go('Waiting');
  const { page } = window;
  const rows = page.getByRole('table', { name: 'Answers that are owed' }).getByRole('row');
  await expect.poll(() => rows.count()).toBe(6);
  await page.getByRole('row', { name: /^alice bob the oldest .*, 3\.3 d delivered not running/ }).waitFor();
  await page.getByRole('row', { name: /^bob dan@laptop of bob .* stored its host is not reachable now/ }).waitFor();

  const picture = page.getByRole('img', { name: 'Who waits for whom' });
  expect(await picture.getAttribute('aria-description')).toMatch(
    /^alice waits for bob: 2 questions for 3\.3 d\. bob waits for carol: 1 question for 1\.2 d\. /,
  );
  await expect.poll(() => picture.locator('path.wait').count()).toBe(4);
  expect(await picture.locator('path.wait-old').count()).toBe(1);
  expect(await picture.locator('path.wait-late').count()).toBe(2);
  expect(await window.violations()).toEqual([]);
  expect(await window.unsound()).toEqual([]);

  // At the width of a phone every label is inside, and as large as other small text.
  await page.setViewportSize({ width: 360, height: 740 });
  const { x = 0, width = 0 } = (await picture.boundingBox()) ?? {};
  expect(width).toBeGreaterThan(290);
  expect(x + width).toBeLessThan(360);
  for (const label of await picture.locator('text').all()) {
    const at = (await label.boundingBox()) ?? { x: 0, width: 0, height: 0 };
    expect(at.x).toBeGreaterThan(x - 1);
    expect(at.x + at.width).toBeLessThan(x + width + 1);
    expect(at.height).toBeGreaterThan(10);
  }

  // An ack ends a debt, and the page shows that. On a phone the table has no row of titles.
  const bob = await idOf(context, 'bob');
  const { summaries = [] } = accepted(await useInbox(context, bob, {}));
  const message_ids = summaries.map(({ message_id }) => message_id);
  accepted(await useInbox(context, bob, { action: 'ack', message_ids }));
  await expect.poll(() => rows.count()).toBe(3);
  await page.getByRole('link', { name: '<img src=x' }).click();
  await window.heading('<img src=x onerror=hacked()>');
  expect(window.faults).toEqual([]);
});
