/** The list of the owner's page, its keys, undo, people and notifications, in headless Chromium. */
import type { Page, Route } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { OWNER_ID } from '../../src/host/core/rows.ts';
import { listSent } from '../../src/host/mail/sent.ts';
import { useInbox } from '../../src/host/mail/inbox.ts';
import { accepted, addPeer, addSession, idOf, send } from '../support/mail-context.ts';
import { type MailPage, MailWindow, mailPage, putMail, writeToOwner } from '../support/mail-page.ts';
import { browserForSuite } from '../support/page-browser.ts';
import type { TestContext } from '../support/test-context.ts';

const suite = browserForSuite('mail');

async function started(agents?: readonly string[]): Promise<MailPage> {
  return mailPage({ pageFolder: suite.pageFolder, ...(agents && { agents }) });
}

/** The subjects of the rows, in their order. */
function subjects(page: Page): Promise<string[]> {
  return page.locator('.mail-subject').allTextContents();
}

/** The name of what has the focus. */
function focused(page: Page): Promise<string> {
  return page.evaluate<string>(
    `(({ tagName, textContent }) => tagName + ': ' + textContent.trim())(document.activeElement)`,
  );
}

async function unreadIn(context: TestContext): Promise<number> {
  return accepted(await useInbox(context, OWNER_ID, {})).unread;
}

describe('the list', () => {
  test('shows twenty conversations on a screen, each with its preview, writers, count and marks', async () => {
    const mail = await started();
    const { context } = mail;
    await context.store.transact((tx) => {
      for (let at = 0; at < 30; at++) {
        const subject = `Subject ${at} ${'and so on '.repeat(15)}`;
        putMail(tx, context, { subject, body: '# A title\n\nand more', kind: 'request', origin: 'external' });
      }
      return undefined;
    });
    const first = await writeToOwner(context, 'alice', { to: ['owner', 'bob'], subject: 'Plan' });
    accepted(await send(context, 'owner', { to: ['alice'], subject: 'Re: Plan', reply_to: first }));
    await writeToOwner(context, 'bob', {
      subject: 'Re: Plan',
      body: '**Mine** is ready.',
      reply_to: first,
      kind: 'task',
    });
    const window = await MailWindow.entered(suite, mail, { viewport: { width: 1280, height: 900 } });
    const { page } = window;
    await page
      .getByRole('link', { name: /^Unread, from alice, you, bob 3 messages Re: Plan – Mine is ready. task/ })
      .waitFor();
    await page
      .getByRole('link', { name: /^Unread, from hay@there Subject 29 .* – A title and more request external/ })
      .waitFor();
    const rows = `[...document.querySelectorAll('.mail')].map((one) => one.getBoundingClientRect().bottom)`;
    const bottoms = await page.evaluate<number[]>(rows);
    expect(bottoms.filter((bottom) => bottom <= 900).length).toBeGreaterThanOrEqual(20);
    for (const [width, colorScheme] of [
      [1280, 'light'],
      [390, 'dark'],
    ] as const) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      expect(await window.unsound()).toEqual([]);
      expect(await window.violations()).toEqual([]);
    }
  });

  test('is narrowed by agent, kind and what needs a reply, and says the next step when it is empty', async () => {
    const mail = await started();
    const { context } = mail;
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    await page.getByText('No mail yet. Agents write to you as owner.').waitFor();
    await page.getByRole('link', { name: 'Write to an agent' }).waitFor();

    const asked = await writeToOwner(context, 'alice', { subject: 'asked', kind: 'request', needs_reply: true });
    await writeToOwner(context, 'alice', { subject: 'told', kind: 'status' });
    await writeToOwner(context, 'bob', { subject: 'alert', kind: 'alert' });
    await expect.poll(() => subjects(page)).toEqual(['alert', 'told', 'asked']);
    await page.getByLabel('From').selectOption('alice');
    await expect.poll(() => subjects(page)).toEqual(['told', 'asked']);
    await page.getByLabel('Kind').selectOption('status');
    await expect.poll(() => subjects(page)).toEqual(['told']);
    await page.getByLabel('Needs a reply').check();
    await page.getByText('No message matches.').waitFor();
    await page.getByRole('button', { name: 'Clear search and filters' }).click();
    await expect.poll(() => subjects(page)).toEqual(['alert', 'told', 'asked']);
    await page.getByLabel('Needs a reply').check();
    await expect.poll(() => subjects(page)).toEqual(['asked']);
    accepted(await send(context, 'owner', { to: ['alice'], subject: 'Re: asked', reply_to: asked }));
    await page.getByLabel('Show').selectOption('Everything');
    await page.getByText('No message matches.').waitFor();
    await page.getByLabel('Needs a reply').uncheck();
    await page.getByRole('button', { name: 'Mark all read' }).click();
    await page.getByLabel('Show').selectOption('Unread');
    await page.getByText('Nothing is unread.').waitFor();
    await page.getByRole('button', { name: 'Show everything' }).click();
    await expect.poll(() => subjects(page)).toEqual(['alert', 'told', 'asked']);
    expect(await window.unsound()).toEqual([]);
  });

  test('that is long comes in pages, and a change does not take away what was loaded', async () => {
    const mail = await started();
    const { context } = mail;
    await context.store.transact((tx) => {
      for (let at = 0; at < 500; at++) putMail(tx, context, { subject: `m${at}`, body: 'x '.repeat(100) });
      return undefined;
    });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    const rows = page.locator('.mail');
    await expect.poll(() => rows.count()).toBe(50);
    for (const shown of [100, 150]) {
      await page.getByRole('button', { name: 'Show older' }).click();
      await expect.poll(() => rows.count()).toBe(shown);
    }
    await writeToOwner(context, 'alice', { subject: 'new' });
    await expect.poll(() => rows.count()).toBe(151);
    expect((await subjects(page)).slice(0, 2)).toEqual(['new', 'm499']);
    expect((await subjects(page)).at(-1)).toBe('m350');
    await page.getByRole('button', { name: 'Show older' }).click();
    await expect.poll(async () => (await subjects(page)).at(-1)).toBe('m300');
    expect(await unreadIn(context)).toBe(501);
  });
});

test('on a narrow page a long subject of sent mail ends in its row, and its time is in line with it', async () => {
  const mail = await started();
  await send(mail.context, 'owner', { to: ['bob'], subject: 'a long subject '.repeat(10) });
  const window = await MailWindow.entered(suite, mail, { viewport: { width: 360, height: 700 } });
  const { page } = window;
  await window.go('Sent');
  const edges = (selector: string): Promise<{ left: number; right: number }> =>
    page.locator(`.mail-sent ${selector}`).evaluate((one) => one.getBoundingClientRect().toJSON());
  await page.locator('.mail-sent').waitFor();
  const subject = await edges('.mail-subject');
  expect(subject.right).toBeLessThan(345);
  expect((await edges('time')).left).toBe(subject.left);
});

test('a conversation that is longer than a page opens at its newest message', async () => {
  const mail = await started();
  const { context } = mail;
  const first = await writeToOwner(context, 'alice', { subject: 'long', body: 'x'.repeat(60_000) });
  for (const subject of ['second', 'third']) {
    await writeToOwner(context, 'alice', { subject, body: 'x'.repeat(60_000), reply_to: first });
  }
  await writeToOwner(context, 'alice', { subject: 'newest', body: 'Here.', reply_to: first });
  const window = await MailWindow.entered(suite, mail);
  const { page } = window;
  await page.getByRole('link', { name: /newest/ }).click();
  await window.heading('long');
  const isOnScreen = `document.querySelector('.is-meant .body')?.getBoundingClientRect().bottom <= innerHeight`;
  await expect.poll(() => page.evaluate(isOnScreen)).toBe(true);
  await expect.poll(() => unreadIn(context)).toBe(0);
});

test('a long conversation shows its next messages, or all at once, and the focus goes to what is new', async () => {
  const mail = await started();
  const { context } = mail;
  const long = { body: 'x'.repeat(60_000) };
  const first = await writeToOwner(context, 'alice', { subject: 'long', ...long });
  for (let at = 2; at <= 5; at++)
    await writeToOwner(context, 'alice', { subject: `number ${at}`, ...long, reply_to: first });
  const window = await MailWindow.entered(suite, mail);
  const { page } = window;
  await page.evaluate(`location.hash = '#/messages/${first}'`);
  await window.heading('long');
  const articles = page.getByRole('article');
  await expect.poll(() => articles.count()).toBe(1);
  const focusedAt = `[...document.querySelectorAll('main article')].indexOf(document.activeElement)`;
  await page.getByRole('button', { name: 'Show later messages' }).press('Enter');
  await expect.poll(() => articles.count()).toBe(2);
  await expect.poll(() => page.evaluate(focusedAt)).toBe(1);
  await page.getByRole('button', { name: 'Show all, go to the newest' }).press('Enter');
  await expect.poll(() => articles.count()).toBe(5);
  await expect.poll(() => page.evaluate(focusedAt)).toBe(4);
  expect(await page.getByRole('button', { name: /^Show (later|all)/ }).count()).toBe(0);
  // It stays whole, with what comes.
  await writeToOwner(context, 'alice', { subject: 'number 6', ...long, reply_to: first });
  await expect.poll(() => articles.count()).toBe(6);
  expect(await window.unsound()).toEqual([]);
});

test('the focus waits for what the owner asked for, and does not go to what an earlier request brought', async () => {
  const mail = await started();
  const { context } = mail;
  const long = { body: 'x'.repeat(60_000) };
  const first = await writeToOwner(context, 'alice', { subject: 'long', ...long });
  for (let at = 2; at <= 5; at++)
    await writeToOwner(context, 'alice', { subject: `number ${at}`, ...long, reply_to: first });
  const window = await MailWindow.entered(suite, mail);
  const { page } = window;
  await page.evaluate(`location.hash = '#/messages/${first}'`);
  const later = page.getByRole('button', { name: 'Show later messages' });
  await later.waitFor();
  // "Show all" is pressed when the second message has been drawn, but before the page has moved the focus to it.
  await page.evaluate(`new MutationObserver((_, observer) => {
    if (document.querySelectorAll('main article').length !== 2) return;
    observer.disconnect();
    [...document.querySelectorAll('main button')].find(({ textContent }) => textContent.startsWith('Show all')).click();
  }).observe(document.querySelector('main'), { childList: true, subtree: true })`);
  await later.press('Enter');
  await expect.poll(() => page.getByRole('article').count()).toBe(5);
  const focusedAt = `[...document.querySelectorAll('main article')].indexOf(document.activeElement)`;
  await expect.poll(() => page.evaluate(focusedAt)).toBe(4);
});

test('an answer that is not a full page is continued, and what was shown stays when mail comes', async () => {
  const mail = await started();
  const window = await MailWindow.entered(suite, mail);
  const { page } = window;
  const asked: (string | undefined)[] = [];
  const next: Readonly<Record<string, string | null>> = { '': 'one', one: 'two', two: null };
  await page.route('**/mail/mail-conversations', async (route) => {
    const { text, cursor } = route.request().postDataJSON() as { text?: string; cursor?: string };
    if (text === undefined) return route.continue();
    asked.push(cursor);
    const counts = { notice: '', unread: 0, total: 9, through: 9, conversations: [] };
    return route.fulfill({ json: { ...counts, next_cursor: next[cursor ?? ''] } });
  });
  await page.getByLabel('Search').fill('needle');
  await page.getByText('No message matches.').waitFor();
  expect(asked).toEqual([undefined, 'one', 'two']);
  await writeToOwner(mail.context, 'alice', { subject: 'new' });
  await expect.poll(() => asked.length).toBe(6);
  expect(await page.getByRole('button', { name: 'Show older' }).count()).toBe(0);
});

test('a burst of mail is shown as the answers come: no answer is given up for the next', async () => {
  const mail = await started();
  const { context } = mail;
  const window = await MailWindow.open(suite);
  const { page } = window;
  await page.addInitScript(`
    globalThis.mailEvents = 0;
    const pipe = ReadableStream.prototype.pipeThrough;
    ReadableStream.prototype.pipeThrough = function (...passed) {
      const [mine, counted] = pipe.apply(this, passed).tee();
      const write = (text) => void (mailEvents += text.split('event: mail').length - 1);
      void counted.pipeTo(new WritableStream({ write }));
      return mine;
    };
  `);
  await page.clock.install();
  await window.enter(mail);
  await page.getByText('No mail yet').waitFor();
  const held: Route[] = [];
  await page.route('**/mail/mail-conversations', (route) => void held.push(route));
  await writeToOwner(context, 'alice', { subject: 'first' });
  await expect.poll(() => held.length).toBe(1);
  const answer = await held[0]!.fetch();
  for (const [at, subject] of ['second', 'third'].entries()) {
    await writeToOwner(context, 'alice', { subject });
    await expect.poll(() => page.evaluate('mailEvents')).toBe(at + 2);
    await page.clock.runFor(1000);
  }
  await held[0]!.fulfill({ response: answer });
  await expect.poll(() => subjects(page)).toEqual(['first']);
  await expect.poll(() => held.length).toBe(2);
  await held[1]!.continue();
  await expect.poll(() => subjects(page)).toEqual(['third', 'second', 'first']);
  expect(held).toHaveLength(2);
});

describe('what the owner does', () => {
  test('can be undone by mouse and key, and is told to the senders when the page is left', async () => {
    const mail = await started();
    const { context } = mail;
    const ids: string[] = [];
    for (const subject of ['one', 'two', 'three']) ids.push(await writeToOwner(context, 'alice', { subject }));
    const stateOf = async (at: number): Promise<string | undefined> => {
      const sent = accepted(await listSent(context, await idOf(context, 'alice'), { message_id: ids[at] ?? '' }));
      return sent.messages[0]?.recipients[0]?.state;
    };
    const window = await MailWindow.open(suite);
    const { page } = window;
    await page.clock.install();
    await window.enter(mail);
    await page.getByRole('button', { name: 'Mark all read' }).click();
    await page.getByText('Nothing is unread.').waitFor();
    await page.getByText('All marked read.').waitFor();
    expect(await window.violations()).toEqual([]);
    await page.keyboard.press('z');
    await expect.poll(() => subjects(page)).toEqual(['three', 'two', 'one']);
    await page.getByText('Undone.').waitFor();

    await page.getByRole('button', { name: 'Done: three' }).click();
    await expect.poll(() => subjects(page)).toEqual(['two', 'one']);
    await page.getByRole('link', { name: 'Inbox 2 unread' }).waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await expect.poll(() => subjects(page)).toEqual(['three', 'two', 'one']);
    await page.clock.fastForward(60_000);
    expect(await unreadIn(context)).toBe(3);

    // Another action ends the time for the one before; the focus on Undo stops the time.
    await page.getByRole('button', { name: 'Mark read: three' }).click();
    await page.getByRole('button', { name: 'Done: two' }).click();
    await expect.poll(() => stateOf(2)).toBe('read');
    await page.getByRole('button', { name: 'Undo' }).focus();
    await page.clock.fastForward(60_000);
    expect(await stateOf(1)).toBe('notified');
    await page.goto('about:blank');
    await expect.poll(() => stateOf(1)).toBe('acked');
    expect(await unreadIn(context)).toBe(1);
  });

  test('can be undone for as long as the pointer or the focus is on the toast, whichever action it is of', async () => {
    const mail = await started();
    const { context } = mail;
    for (const subject of ['one', 'two', 'three', 'four']) await writeToOwner(context, 'alice', { subject });
    const window = await MailWindow.open(suite);
    const { page } = window;
    await page.clock.install();
    await window.enter(mail);
    const toast = page.locator('.toast');
    await page.getByRole('button', { name: 'Mark read: four' }).click();
    await toast.hover();
    // By key: the pointer stays where it is.
    await page.getByRole('link', { name: /three/ }).focus();
    await page.keyboard.press('m');
    await expect.poll(() => unreadIn(context)).toBe(3);
    await page.clock.fastForward(60_000);
    await toast.waitFor();
    expect(await unreadIn(context)).toBe(3);
    // The pointer leaves, and the focus is still there.
    await page.getByRole('button', { name: 'Undo' }).focus();
    await page.mouse.move(0, 0);
    await page.clock.fastForward(60_000);
    await toast.waitFor();
    expect(await unreadIn(context)).toBe(3);
    await page.keyboard.press('Enter');
    await expect.poll(() => subjects(page)).toEqual(['three', 'two', 'one']);
    // What went with the toast holds no later one.
    await page.getByRole('button', { name: 'Mark read: two' }).press('Enter');
    await toast.waitFor();
    await page.clock.fastForward(6000);
    await expect.poll(() => unreadIn(context)).toBe(2);
    await expect.poll(() => toast.count()).toBe(0);
  });

  test('marks everything read that the filters mean, and no later mail', async () => {
    const mail = await started();
    const { context } = mail;
    await context.store.transact((tx) => {
      for (let at = 0; at < 120; at++) putMail(tx, context, { subject: `m${at}`, from: 'hay@there', kind: 'status' });
      return undefined;
    });
    await writeToOwner(context, 'alice', { subject: 'of alice' });
    const window = await MailWindow.open(suite);
    const { page } = window;
    await page.clock.install();
    await window.enter(mail);
    await page.getByLabel('Kind').selectOption('status');
    await expect.poll(() => page.locator('.mail').count()).toBe(50);
    await page.getByRole('button', { name: 'Mark all read' }).click();
    await page.clock.fastForward(6000);
    await expect.poll(() => unreadIn(context)).toBe(1);
    await page.getByLabel('Kind').selectOption('');
    await expect.poll(() => subjects(page)).toEqual(['of alice']);
    await page.getByRole('link', { name: 'Inbox 1 unread' }).waitFor();
  });
});

describe('keys', () => {
  test('move, open, answer, finish, search, write and help; none acts while the owner types', async () => {
    const mail = await started();
    const { context } = mail;
    for (const subject of ['one', 'two', 'three']) await writeToOwner(context, 'alice', { subject });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    const press = async (...keys: string[]): Promise<void> => {
      for (const key of keys) await page.keyboard.press(key);
    };
    await page.getByRole('link', { name: /one/ }).waitFor();
    await press('j', 'j');
    expect(await focused(page)).toMatch(/^A: Unread, from alicetwo/);
    await press('k', 'k');
    expect(await focused(page)).toMatch(/^A: Unread, from alicethree/);
    // The row leaves the list of what is unread, and the next one has the focus.
    await press('e');
    await expect.poll(() => subjects(page)).toEqual(['two', 'one']);
    await expect.poll(() => focused(page)).toMatch(/^A: Unread, from alicetwo/);
    await press('m');
    await expect.poll(() => subjects(page)).toEqual(['one']);
    await press('z');
    await expect.poll(() => subjects(page)).toEqual(['two', 'one']);

    await page.getByLabel('Show').selectOption('Everything');
    await page.getByRole('link', { name: /two/ }).focus();
    await press('Enter');
    await window.heading('two');
    await press('u');
    await window.heading('Inbox');
    await expect.poll(() => focused(page)).toMatch(/two/);
    await press('Enter');
    await window.heading('two');
    await press('r');
    await expect.poll(() => focused(page)).toMatch(/^TEXTAREA/);
    await press('Escape', 'r');
    await expect.poll(() => focused(page)).toMatch(/^TEXTAREA/);
    await page.keyboard.type('jkecru/?');
    expect(await page.getByLabel('Message', { exact: true }).inputValue()).toBe('jkecru/?');
    // Esc leaves the field, and then the conversation.
    await press('Escape');
    await window.heading('two');
    await press('Escape');
    await window.heading('Inbox');
    // The reply that was begun is still there.
    await page.evaluate('history.back()');
    await expect.poll(() => page.getByLabel('Message', { exact: true }).inputValue()).toBe('jkecru/?');
    await page.getByRole('button', { name: 'Discard' }).click();

    await press('c');
    await window.heading('Write');
    await expect.poll(() => focused(page)).toMatch(/^INPUT/);
    await press('Escape', '/');
    await window.heading('Inbox');
    await expect.poll(() => page.evaluate('document.activeElement.type')).toBe('search');
    await page.keyboard.type('one');
    await expect.poll(() => subjects(page)).toEqual(['one']);
    expect(await window.unsound()).toEqual([]);
  });

  test('leave the selected row and the scroll place where they were, in every view and through updates', async () => {
    const mail = await started();
    const { context } = mail;
    const ids: string[] = [];
    const put = (from: number, until: number): Promise<undefined> =>
      context.store.transact((tx) => {
        for (let at = from; at < until; at++) ids[at] = putMail(tx, context, { subject: `m${at}.` });
        return undefined;
      });
    await put(0, 39);
    ids[39] = await writeToOwner(context, 'alice', { subject: 'm39.' });
    await put(40, 120);
    for (let at = 0; at < 30; at++)
      await send(context, 'owner', { to: ['bob'], subject: `s${at}.`, needs_reply: true });
    const window = await MailWindow.entered(suite, mail, { viewport: { width: 800, height: 600 } });
    const { page } = window;
    const top = (): Promise<number> =>
      page.evaluate(`document.activeElement.closest('[data-item]').getBoundingClientRect().top`);
    const isAt = async (name: RegExp, y: number): Promise<void> => {
      await expect.poll(() => focused(page)).toMatch(name);
      await expect.poll(async () => Math.abs((await top()) - y)).toBeLessThan(3);
    };
    await page.getByLabel('Show').selectOption('Everything');
    await page.getByRole('button', { name: 'Show older' }).click();
    await page.getByRole('link', { name: /m40\./ }).focus();
    await page.keyboard.press('j');
    await expect.poll(() => focused(page)).toMatch(/m39\./);
    // The page scrolls after the wheel's event was answered: its place counts once it is there.
    const y = (await top()) - 90;
    await page.mouse.wheel(0, 90);
    await isAt(/m39\./, y);
    for (const back of ['u', 'back', 'Escape']) {
      await page.keyboard.press('Enter');
      await window.heading('m39.');
      expect(await page.evaluate('scrollY')).toBe(0);
      await (back === 'back' ? page.evaluate('history.back()') : page.keyboard.press(back));
      await window.heading('Inbox');
      await isAt(/m39\./, y);
    }
    // Mail above it moves nothing that the owner looks at; mail in it moves the row, and the focus stays with it.
    await writeToOwner(context, 'alice', { subject: 'above' });
    await expect.poll(() => subjects(page)).toContain('above');
    await isAt(/m39\./, y);
    await writeToOwner(context, 'alice', { subject: 'Re: m39.', reply_to: ids[39] });
    await expect.poll(async () => (await subjects(page))[0]).toBe('Re: m39.');
    await expect.poll(() => focused(page)).toMatch(/Re: m39\./);
    // A row that leaves hands the focus to the one behind it.
    await page.getByLabel('Show').selectOption('Not done');
    await expect.poll(() => page.locator('.mail').count()).toBe(50);
    await page.getByRole('link', { name: /m110\./ }).focus();
    accepted(await useInbox(context, OWNER_ID, { action: 'ack', message_ids: [ids[110] ?? ''] }));
    await expect.poll(() => focused(page)).toMatch(/m109\./);

    await window.go('Sent');
    await page.getByRole('link', { name: 's3.', exact: true }).focus();
    const sentAt = await top();
    await page.keyboard.press('Enter');
    await window.heading('s3.');
    await page.keyboard.press('u');
    await window.heading('Sent');
    await isAt(/^A: s3\./, sentAt);

    // Rows of a table are opened by their link, and the way back leads to where the owner came from.
    await window.go('Waiting');
    await page.getByRole('row', { name: /s1\./ }).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    const [waiting, waitingAt] = [await focused(page), await top()];
    expect(waiting).toMatch(/^TR: youbob/);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Back to who waits' }).waitFor();
    await page.keyboard.press('u');
    await window.heading('Waiting');
    await isAt(new RegExp(waiting), waitingAt);
    await window.go('People');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await window.heading('Write');
    await page.keyboard.press('Escape');
    await page.keyboard.press('u');
    await window.heading('People');
    await expect.poll(() => focused(page)).toMatch(/^TR: alice/);
    expect(await window.unsound()).toEqual([]);
  });

  test('are shown in a dialog that keeps the focus and gives it back, and can be switched off', async () => {
    const mail = await started();
    await writeToOwner(mail.context, 'alice', { subject: 'one' });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    await page.getByRole('link', { name: /one/ }).focus();
    await page.keyboard.press('?');
    const dialog = page.getByRole('dialog', { name: 'Keys' });
    await dialog.waitFor();
    expect(await window.violations()).toEqual([]);
    // No key reaches the page behind it, and Tab does not leave it for the page.
    for (const key of ['j', 'e', 'c', 'Tab', 'Tab', 'Tab']) {
      await page.keyboard.press(key);
      expect(
        await page.evaluate(
          `document.activeElement === document.body || document.activeElement.closest('dialog') !== null`,
        ),
      ).toBe(true);
    }
    await page.keyboard.press('Escape');
    await expect.poll(() => dialog.count()).toBe(0);
    expect(await focused(page)).toMatch(/one/);
    expect(await subjects(page)).toEqual(['one']);

    await window.go('Settings');
    await page.getByLabel('Single keys act').uncheck();
    await page.keyboard.press('?');
    await page.keyboard.press('c');
    expect(await dialog.count()).toBe(0);
    await page.reload();
    await window.heading('Settings');
    expect(await page.getByLabel('Single keys act').isChecked()).toBe(false);
    expect(await window.violations()).toEqual([]);
    expect(await window.unsound()).toEqual([]);
  });
});

describe('people', () => {
  test('are shown with presence and the way to their hosts, and complete the recipients by keyboard', async () => {
    const mail = await started(['alice', 'bob:review', 'carol:review']);
    const { context } = mail;
    await addSession(context, 'alice');
    const reachedAtMs = context.nowMs();
    await addPeer(context, 'server', [{ name: 'dora', roles: ['ops'] }], { address: '10.0.0.2:1', reachedAtMs });
    const url = 'https://relay.example';
    Object.assign(mail.relay, { relay: { url, pubkey: '', fingerprint: '' }, state: 'two-histories' });
    const window = await MailWindow.entered(suite, mail);
    await window.go('People');
    const { page } = window;
    await page.getByText(`The relay: ${url} shows two histories`).waitFor();
    await page.getByText('poste relay evidence').waitFor();
    Object.assign(mail.relay, {
      relays: [
        { relay: { url }, state: 'ready' },
        { relay: { url }, state: 'failing' },
      ],
    });
    await page.reload();
    await page.getByText(`Relay 1: ${url} works`).waitFor();
    await page.getByText(`Relay 2: ${url} does not work`).waitFor();
    const row = (name: RegExp) => page.getByRole('row', { name });
    await row(/^alice – running/).waitFor();
    await row(/^bob review not running/).waitFor();
    await row(/^dora@server ops its host does not tell .*over the LAN/).waitFor();
    await row(/^server over the LAN/).waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await window.violations()).toEqual([]);
    expect(await window.unsound()).toEqual([]);
    // Somebody who comes is seen without a reload.
    await addSession(context, 'bob');
    context.emit({ type: 'session-registered', agentId: await idOf(context, 'bob'), sessionId: 's1' });
    await row(/bob .*running/).waitFor();

    await page.getByRole('link', { name: 'Write to dora@server' }).click();
    await window.heading('Write');
    const chips = page.getByRole('list', { name: 'Recipients' }).getByRole('listitem');
    await expect.poll(() => chips.allTextContents()).toEqual(['dora@server×']);
    const to = page.getByRole('combobox', { name: 'To' });
    await to.focus();
    await page.keyboard.type('o');
    const options = page.getByRole('listbox', { name: 'Known addresses' }).getByRole('option');
    await expect
      .poll(() => options.allTextContents())
      .toEqual([
        'owner you',
        'bob here, running',
        'carol here, not running',
        'role:review 2 agents',
        'role:ops one agent',
      ]);
    expect(await window.violations()).toEqual([]);
    expect(await window.unsound()).toEqual([]);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    expect(await options.locator('xpath=self::*[@aria-selected="true"]').textContent()).toBe('carol here, not running');
    expect(await to.getAttribute('aria-activedescendant')).toBe('address-choices-2');
    await page.keyboard.press('Enter');
    await expect.poll(() => chips.count()).toBe(2);
    // Esc closes the list and keeps the text; what is no known address stays as it was typed.
    await page.keyboard.type('bo');
    await page.keyboard.press('Escape');
    await expect.poll(() => options.count()).toBe(0);
    await page.keyboard.press('Enter');
    await expect.poll(() => chips.allTextContents()).toEqual(['dora@server×', 'carol×', 'bo×']);
    await page.keyboard.press('Backspace');
    await expect.poll(() => chips.count()).toBe(2);
  });
});

describe('notifications', () => {
  test('are asked for by a setting, come while the page is hidden, and say no more than the owner wants', async () => {
    const mail = await started();
    const { context } = mail;
    const window = await MailWindow.open(suite);
    const { page } = window;
    await page.addInitScript(`
      globalThis.shown = [];
      globalThis.Notification = class extends EventTarget {
        static permission = localStorage.getItem('permission') ?? 'default';
        static asked = 0;
        static async requestPermission() {
          this.asked++;
          localStorage.setItem('permission', 'granted');
          return (this.permission = 'granted');
        }
        constructor(title, { body, tag }) {
          super();
          shown.push({ title, body, tag, notification: this });
        }
        close() {}
      };
      let visibility = 'visible';
      Object.defineProperty(document, 'visibilityState', { get: () => visibility });
      globalThis.become = (state) => {
        visibility = state;
        document.dispatchEvent(new Event('visibilitychange'));
      };
    `);
    await window.enter(mail);
    await writeToOwner(context, 'alice', { subject: 'before' });
    await expect.poll(() => subjects(page)).toEqual(['before']);
    expect(await page.evaluate('Notification.asked')).toBe(0);
    await window.go('Settings');
    await page.getByLabel('What they say of new mail').selectOption('Who wrote');
    await expect.poll(() => page.evaluate('Notification.asked')).toBe(1);
    await page.reload();
    await page.getByText('live', { exact: true }).waitFor();
    const shown = (): Promise<unknown> => page.evaluate('shown.map(({ title, body }) => [title, body])');

    // What is unread is known once the stream of the hidden page is open.
    const hide = async (): Promise<void> => {
      await Promise.all([page.waitForResponse('**/mail/mail-conversations'), page.evaluate(`become('hidden')`)]);
    };
    await hide();
    const id = await writeToOwner(context, 'alice', { subject: 'secret', body: 'more secret' });
    await expect.poll(shown).toEqual([['Mail from alice@here', '']]);
    await expect.poll(() => page.title()).toBe('(2) Poste mail');
    await page.evaluate(`become('visible')`);
    await page.getByText('live', { exact: true }).waitFor();
    await writeToOwner(context, 'bob', { subject: 'seen' });
    await expect.poll(() => page.title()).toBe('(3) Poste mail');
    expect(await shown()).toHaveLength(1);

    await page.getByLabel('What they say of new mail').selectOption('Who wrote, and the subject');
    await hide();
    await writeToOwner(context, 'bob', { subject: 'Lunch', body: 'secret' });
    await expect.poll(shown).toEqual([
      ['Mail from alice@here', ''],
      ['Mail from bob@here', 'Lunch'],
    ]);
    await page.evaluate(`shown[0].notification.dispatchEvent(new Event('click'))`);
    await window.heading('secret');
    expect(page.url()).toContain(id);
    expect(await window.unsound()).toEqual([]);
  });
});
