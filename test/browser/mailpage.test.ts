/**
 * The owner's page in headless Chromium: reading, searching, writing and following mail, by mouse and keyboard, and
 * words of others.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import { type IncomingHttpHeaders, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { platform } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Route } from 'playwright-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openInBrowser } from '../../src/cli/lib/browser.ts';
import { OWNER_ID } from '../../src/host/core/rows.ts';
import { useInbox } from '../../src/host/mail/inbox.ts';
import { SEARCH_MESSAGES_MAX } from '../../src/host/mail/search.ts';
import { printable } from '../../src/protocol/printable.ts';
import { commandContext } from '../support/command-run.ts';
import { deferred } from '../support/deferred.ts';
import { HOSTILE } from '../support/hostile-words.ts';
import { accepted, idOf, send } from '../support/mail-context.ts';
import { type MailPage, MailWindow, mailPage, putMail, writeToOwner } from '../support/mail-page.ts';
import { browserForSuite } from '../support/page-browser.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** The page may weigh this on its way, compressed. */
const SCRIPT_BYTES_MAX = 62_000;
const STYLE_BYTES_MAX = 5_000;

const suite = browserForSuite('mail');

async function started(agents?: readonly string[]): Promise<MailPage> {
  return mailPage({ pageFolder: suite.pageFolder, ...(agents && { agents }) });
}

describe('the page of the owner', () => {
  test('opens with a link that is good once, and stays open over a reload', async () => {
    const mail = await started();
    const url = await mail.link();
    const one = await MailWindow.open(suite);
    await one.page.goto(url);
    await one.heading('Inbox');
    expect(one.page.url()).not.toContain('token');
    await one.page.reload();
    await one.heading('Inbox');
    expect(await one.unsound()).toEqual([]);

    const other = await MailWindow.open(suite);
    await other.page.goto(url);
    await other.heading('Poste mail');
    await other.page.getByRole('alert').getByText('poste inbox --web prints another one').waitFor();
    await one.page.getByRole('button', { name: 'Sign out' }).click();
    await one.heading('Poste mail');
    await one.page.reload();
    await one.heading('Poste mail');
    expect((await one.context.cookies()).filter(({ value }) => value !== '')).toEqual([]);
  });

  test('is open in a second window too, and a server at another port can do nothing with its cookie', async () => {
    const mail = await started();
    const window = await MailWindow.entered(suite, mail);
    await window.heading('Inbox');
    const second = await window.context.newPage();
    await second.goto(window.page.url());
    await second.getByRole('heading', { name: 'Inbox' }).waitFor();

    const stolen: IncomingHttpHeaders[] = [];
    const thief = createServer(({ headers }, response) => {
      stolen.push(headers);
      response.end('a page of another user');
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void thief.close());
    await once(thief, 'listening');
    await second.goto(`http://127.0.0.1:${(thief.address() as AddressInfo).port}/mail/`);
    const [{ cookie = '' } = {}] = stolen;
    expect(cookie).toMatch(/^poste_mail_/);
    expect(JSON.stringify(await second.evaluate('[{...sessionStorage}, {...localStorage}]'))).toBe('[{},{}]');
    const { origin } = new URL(window.page.url());
    for (const path of ['session', 'live']) {
      expect((await fetch(`${origin}/mail/${path}`, { headers: { cookie } })).status).toBe(401);
    }
    const read = { method: 'POST', headers: { cookie, origin, 'content-type': 'application/json' }, body: '{}' };
    expect((await fetch(`${origin}/mail/mail-inbox`, read)).status).toBe(401);
    await window.page.reload();
    await window.heading('Inbox');
  });

  test('opens from the file that poste inbox --web gives to the browser', async () => {
    const mail = await started();
    const folder = await temporaryFolder();
    const [file, opener] = [
      join(folder, 'open-mail.html'),
      join(folder, platform() === 'darwin' ? 'open' : 'xdg-open'),
    ];
    await writeFile(opener, '#!/bin/sh\n', { mode: 0o755 });
    const context = commandContext({ environment: { PATH: folder, DISPLAY: ':7' } });
    expect(await openInBrowser(context, await mail.link(), file)).toBe(true);
    const one = await MailWindow.open(suite);
    await one.page.goto(`file://${file}`);
    await one.heading('Inbox');
    expect(one.page.url()).not.toContain('token');
  });

  test('weighs little, and asks nobody else for anything', async () => {
    expect(await sizeOf('page.js')).toBeLessThan(SCRIPT_BYTES_MAX);
    expect(await sizeOf('page.css')).toBeLessThan(STYLE_BYTES_MAX);
  });

  test('shows mail as it comes, counts what is unread, and marks it', async () => {
    const mail = await started();
    await writeToOwner(mail.context, 'alice', { subject: 'first', kind: 'request' });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    const list = page.getByRole('list', { name: 'Conversations' }).getByRole('listitem');
    await page.getByRole('link', { name: /Unread, from alice first/ }).waitFor();
    await writeToOwner(mail.context, 'bob', { subject: 'second', needs_reply: true, origin: 'external' });
    await page.getByRole('link', { name: /bob second/ }).waitFor();
    await expect.poll(() => list.count()).toBe(2);
    await list.getByText('needs a reply', { exact: true }).waitFor();
    await page.getByText('external', { exact: true }).waitFor();
    await page.getByRole('link', { name: /bob second – a body/ }).waitFor();
    await page.getByRole('link', { name: 'Inbox 2 unread' }).waitFor();
    await expect.poll(() => page.title()).toBe('(2) Poste mail');

    await page.getByRole('button', { name: 'Mark read: first' }).click();
    await expect.poll(() => list.count()).toBe(1);
    await page.getByLabel('Show').selectOption('Not done');
    await expect.poll(() => list.count()).toBe(2);
    await page.getByRole('button', { name: 'Done: first' }).click();
    await expect.poll(() => list.count()).toBe(1);
    await page.getByLabel('Show').selectOption('Everything');
    await expect.poll(() => list.count()).toBe(2);
    await page.getByText('done', { exact: true }).waitFor();
    expect(await window.unsound()).toEqual([]);
  });

  test('shows a conversation, reads it by showing it, and answers in it', async () => {
    const mail = await started();
    const { context } = mail;
    const asked = await writeToOwner(context, 'alice', {
      to: ['owner', 'bob'],
      subject: 'Which one?',
      body: 'Left\n\tor right?\r\nSay.',
      refs: ['src/map.ts:3'],
    });
    const window = await MailWindow.open(suite);
    const { page } = window;
    await page.clock.install();
    await window.enter(mail);
    await page.getByRole('link', { name: /Which one/ }).click();
    await window.heading('Which one?');
    await expect.poll(() => page.locator('.body').textContent()).toBe('Left\n\tor right?\nSay.');
    await page.getByText('src/map.ts:3').waitFor();
    const stateAtAlice = async (): Promise<string | undefined> => {
      const sent = await mail.handlers['mail-sent'](
        { agentId: await idOf(context, 'alice'), signal: AbortSignal.timeout(1000) },
        { message_id: asked },
      );
      return accepted(sent).messages[0]?.recipients.find(({ recipient }) => recipient === 'owner@here')?.state;
    };
    await expect.poll(stateAtAlice).toBe('read');
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByText('done', { exact: true }).waitFor();
    // The sender is told when it cannot be undone any more.
    expect(await stateAtAlice()).toBe('read');
    await page.clock.fastForward(6000);
    await expect.poll(stateAtAlice).toBe('acked');

    await page.getByRole('button', { name: 'Reply to all' }).click();
    await page.getByLabel('Message', { exact: true }).fill('Left, please.');
    await page.getByRole('button', { name: 'Send to all' }).click();
    const outcome = page.getByRole('region', { name: 'Sent' });
    await outcome.getByText('alice@here').first().waitFor();
    await outcome.getByText('bob@here').first().waitFor();
    await page.getByRole('article', { name: 'Message from owner@here' }).getByText('Left, please.').waitFor();
    for (const name of ['alice', 'bob']) {
      const inbox = accepted(await useInbox(context, await idOf(context, name), { state: 'all' }));
      expect(inbox.summaries?.[0]).toMatchObject({ subject: 'Re: Which one?', from: 'owner@here' });
    }
    expect(await window.unsound()).toEqual([]);
  });

  test('a long body is shown piece by piece, and is read at its end', async () => {
    const mail = await started();
    await writeToOwner(mail.context, 'alice', {
      subject: 'long',
      body: `${'x'.repeat(99)}\n`.repeat(1000) + 'THE END',
    });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    await page.getByRole('link', { name: /long/ }).click();
    const more = page.getByRole('button', { name: /Show more of/ });
    await more.waitFor();
    expect(accepted(await useInbox(mail.context, OWNER_ID, {})).unread).toBe(1);
    await more.click();
    await page.getByText('THE END').waitFor();
    await expect.poll(async () => (await page.locator('.body').textContent())?.length).toBe(100_007);
    expect(accepted(await useInbox(mail.context, OWNER_ID, {})).unread).toBe(0);
    await expect.poll(() => more.count()).toBe(0);
  });

  test('writes to whom is suggested, and shows what became of it at each recipient', async () => {
    const mail = await started(['alice', 'bob:review', 'carol:review']);
    const { context } = mail;
    const window = await MailWindow.entered(suite, mail);
    await window.go('Write');
    const { page } = window;
    const to = page.getByLabel('To', { exact: true });
    await to.fill('alcie, role:review');
    await to.press('Enter');
    await page.getByLabel('Subject').fill('Plan');
    await page.getByLabel('Message', { exact: true }).fill('Please look.');
    await page.getByLabel('Kind').selectOption('request');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByRole('alert').waitFor();
    await expect.poll(() => to.getAttribute('aria-invalid')).toBe('true');
    await page.getByRole('button', { name: 'Use alice instead' }).click();
    await expect.poll(() => page.getByRole('list', { name: 'Recipients' }).getByRole('listitem').count()).toBe(2);
    // What is being written is there again after a look elsewhere.
    await window.go('Inbox');
    await window.go('Write');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    const outcome = page.getByRole('region', { name: 'Sent' });
    for (const name of ['alice@here', 'bob@here', 'carol@here']) await outcome.getByText(name).waitFor();
    await outcome.getByRole('link', { name: 'Follow its delivery' }).click();
    await window.heading('Plan');
    const steps = page.getByRole('list', { name: 'Delivery to alice@here' }).getByRole('listitem');
    await expect.poll(() => steps.count()).toBe(1);

    const alice = await idOf(context, 'alice');
    const { summaries = [] } = accepted(await useInbox(context, alice, {}));
    const ids = summaries.map(({ message_id }) => message_id);
    context.clock.nowMs += 60_000;
    accepted(await useInbox(context, alice, { action: 'read', message_ids: ids }));
    context.clock.nowMs += 60_000;
    accepted(await useInbox(context, alice, { action: 'ack', message_ids: ids }));
    await expect
      .poll(() => steps.allTextContents())
      .toEqual([
        expect.stringMatching(/^In the mailbox/),
        expect.stringMatching(/^Its agent was notified/),
        expect.stringMatching(/^Its agent read it/),
        expect.stringMatching(/^Its agent is done with it/),
      ]);
    await window.go('Sent');
    await page.getByText('acked', { exact: true }).waitFor();
    expect(window.refusals.splice(0)).toEqual(['404 /mail/mail-send']);
    expect(await window.unsound()).toEqual([]);
  });

  test('what is sent again after an answer that was lost is sent once', async () => {
    const mail = await started();
    const window = await MailWindow.entered(suite, mail);
    await window.go('Write');
    const { page } = window;
    await page.route(
      '**/mail/mail-send',
      async (route) => {
        await route.fetch();
        await route.abort();
      },
      { times: 1 },
    );
    await page.getByLabel('To', { exact: true }).fill('bob');
    await page.getByLabel('Subject').fill('once');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByRole('alert').getByText('no answer').waitFor();
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByRole('region', { name: 'Sent' }).waitFor();
    expect(accepted(await useInbox(mail.context, await idOf(mail.context, 'bob'), {})).total).toBe(1);
  });

  test('what is typed while a message is sent stays in its form, and is sent as another one', async () => {
    const mail = await started();
    const { context } = mail;
    const answered = await writeToOwner(context, 'alice', { subject: 'Which one?' });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    const body = page.getByLabel('Message', { exact: true });
    const outcome = page.getByRole('region', { name: 'Sent' });
    /** Sends, types on, and lets the answer come. */
    const typeOn = async (operation: string, typed: string): Promise<void> => {
      const [asked, answer] = [deferred(), deferred()];
      const hold = async (route: Route): Promise<void> => {
        asked.resolve();
        await answer.promise;
        await route.continue();
      };
      await page.route(`**/mail/${operation}`, hold, { times: 1 });
      await body.press('Control+Enter');
      await asked.promise;
      await page.keyboard.type(typed);
      answer.resolve();
      await outcome.waitFor();
    };
    const bodiesAt = async (name: string): Promise<string[]> => {
      const found = accepted(await useInbox(context, await idOf(context, name), { state: 'all' }));
      const ids = (found.summaries ?? []).map(({ message_id }) => message_id);
      const { messages = [] } = accepted(
        await useInbox(context, await idOf(context, name), { action: 'read', message_ids: ids }),
      );
      return messages.map((message) => message.body);
    };
    await window.go('Write');
    await page.getByLabel('To', { exact: true }).fill('bob');
    await page.getByLabel('Subject').fill('Plan');
    await body.fill('Please look.');
    await typeOn('mail-send', ' Thanks');
    await expect.poll(() => body.inputValue()).toBe('Thanks');
    await page.keyboard.type('!');
    expect(await body.inputValue()).toBe('Thanks!');
    await page.reload();
    await window.heading('Write');
    expect([await body.inputValue(), await page.getByLabel('Subject').inputValue()]).toEqual(['Thanks!', 'Plan']);
    await body.press('Control+Enter');
    await outcome.waitFor();
    expect(await body.count()).toBe(0);
    expect(await bodiesAt('bob')).toEqual(['Thanks!', 'Please look.']);
    await page.getByRole('button', { name: 'Write another' }).click();
    expect([await body.inputValue(), await page.getByLabel('Subject').inputValue()]).toEqual(['', '']);

    await page.evaluate(`location.hash = '#/messages/${answered}'`);
    await page.getByRole('button', { name: 'Reply' }).click();
    await body.fill('Left.');
    // The same words once more are another message.
    await typeOn('mail-reply', 'Left.');
    await expect.poll(() => body.inputValue()).toBe('Left.');
    await body.press('Control+Enter');
    await expect.poll(() => body.count()).toBe(0);
    expect(await bodiesAt('alice')).toEqual(['Left.', 'Left.']);
    await page.getByRole('button', { name: 'Reply', exact: true }).click();
    await expect.poll(() => body.evaluate((field) => field.matches(':focus'))).toBe(true);
    expect(await window.unsound()).toEqual([]);
  });

  test('keeps what is being written over a reload, in each window its own, and for its owner alone', async () => {
    const mail = await started();
    const { context } = mail;
    const answered = await writeToOwner(context, 'alice', { subject: 'Which one?' });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    const { port } = new URL(page.url());
    const stored = (): Promise<string> => page.evaluate('JSON.stringify({ ...sessionStorage, ...localStorage })');
    const kept = async (): Promise<number> => (await stored()).split('poste-draft-1').length - 1;
    /** What lies in the storage changes with each change, when the browser has sealed it. */
    const whenSealed = async (change: () => Promise<void>): Promise<void> => {
      const before = await stored();
      await change();
      await expect.poll(stored).not.toBe(before);
    };
    const [to, subject] = [page.getByLabel('To', { exact: true }), page.getByLabel('Subject')];
    const body = page.getByLabel('Message', { exact: true });
    const chips = page.getByRole('list', { name: 'Recipients' }).getByRole('listitem');
    await page.keyboard.press('c');
    await window.heading('Write');
    await expect.poll(() => to.evaluate((field) => field.matches(':focus'))).toBe(true);
    await to.fill('bob');
    await to.press('Enter');
    await subject.fill('Not yet');
    await body.fill('secret words');
    await whenSealed(() => to.fill('ali'));
    expect(await stored()).not.toMatch(/secret|Not yet|bob/);

    const second = await window.context.newPage();
    await second.goto(page.url());
    await second.getByLabel('Subject').fill('of the second');
    expect(await second.getByLabel('Message', { exact: true }).inputValue()).toBe('');
    await second.close();
    await page.reload();
    await window.heading('Write');
    expect(await chips.allTextContents()).toEqual(['bob×']);
    expect([await to.inputValue(), await subject.inputValue()]).toEqual(['ali', 'Not yet']);
    expect(await body.inputValue()).toBe('secret words');

    // The page of another owner at the same address, in the same tab.
    await mail.web.stop();
    const listen = { host: '127.0.0.1', port: Number(port) };
    const other = await mailPage({ pageFolder: suite.pageFolder, listen });
    await page.goto(await other.link());
    await window.heading('Inbox');
    await window.go('Write');
    expect([await subject.inputValue(), await body.inputValue()]).toEqual(['', '']);
    expect(await kept()).toBe(1);
    await other.web.stop();
    const again = await mailPage({ pageFolder: suite.pageFolder, listen, context });
    await page.goto(await again.link());
    await window.heading('Inbox');
    await window.go('Write');
    expect(await body.inputValue()).toBe('secret words');

    // An answer that is lost and a reload: it is sent once all the same, and nothing of it stays.
    const [lost] = await Promise.all([
      page.waitForRequest('**/mail/mail-send'),
      page.route('**/mail/mail-send', async (route) => (await route.fetch(), route.abort()), { times: 1 }),
      body.press('Control+Enter'),
    ]);
    expect(lost.postDataJSON()).toMatchObject({ to: ['bob', 'ali'] });
    await page.getByRole('alert').waitFor();
    expect(window.refusals.splice(0)).toEqual([]);
    await page.reload();
    await window.heading('Write');
    await page.getByRole('button', { name: 'Remove ali' }).click();
    await body.press('Meta+Enter');
    await page.getByRole('region', { name: 'Sent' }).waitFor();
    expect(await kept()).toBe(0);
    expect(accepted(await useInbox(context, await idOf(context, 'bob'), {})).total).toBe(1);

    await page.evaluate(`location.hash = '#/messages/${answered}'`);
    await page.getByRole('button', { name: 'Reply' }).click();
    await whenSealed(() => body.fill('Left'));
    await page.reload();
    await expect.poll(() => body.inputValue()).toBe('Left');
    await page.getByRole('button', { name: 'Discard' }).click();
    await page.reload();
    await window.heading('Which one?');
    expect(await body.count()).toBe(0);
    expect(await kept()).toBe(0);
  });

  test('finds words in sender, subject and body, by filters too, however far back', async () => {
    const mail = await started();
    const { context } = mail;
    await writeToOwner(context, 'bob', { subject: 'old needle' });
    await context.store.transact((tx) => {
      for (let count = 0; count < SEARCH_MESSAGES_MAX; count++) putMail(tx, context, { subject: `hay ${count}` });
    });
    await writeToOwner(context, 'alice', { subject: 'new', body: 'a NEEDLE in it' });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    const list = page.getByRole('region', { name: 'Found' }).getByRole('listitem');
    await page.getByLabel('Search').fill('needle from:alice');
    await expect.poll(() => list.count()).toBe(1);
    // Without an index one answer does not reach the old one: the page goes on by itself.
    await page.getByLabel('Search').fill('needle');
    await expect.poll(() => list.count()).toBe(2);
    expect(await window.unsound()).toEqual([]);
    await page.getByLabel('Search').fill('form:alice');
    await page.getByRole('alert').getByText('has form:, which is no filter').waitFor();
  });

  test('goes by keyboard alone', async () => {
    const mail = await started();
    await writeToOwner(mail.context, 'alice', { subject: 'by keys' });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    await page.getByRole('link', { name: /by keys/ }).waitFor();
    await page.getByRole('link', { name: 'Skip to content' }).focus();
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('main');
    await page.getByRole('link', { name: 'Skip to content' }).focus();
    expect(await window.tabStops()).toEqual([
      'Inbox 1 unread',
      'Sent',
      'Waiting',
      'People',
      'Write',
      'Settings',
      'Sign out',
      'Search',
      'Show',
      'From',
      'Kind',
      'Needs a reply',
      'Mark all read',
      expect.stringMatching(/^Unread, from aliceby keys/),
      'Mark read: by keys',
      'Done: by keys',
      'Keys',
    ]);
    await page.getByRole('link', { name: /by keys/ }).focus();
    await page.keyboard.press('Enter');
    await window.heading('by keys');
    await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('H1');
    await page.getByRole('button', { name: 'Reply' }).focus();
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('TEXTAREA');
    await page.keyboard.type('with keys');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'Sent' }).waitFor();
  });
});

describe('a message that cannot be shown', () => {
  test('leaves the others of its conversation and of the inbox: one with a time that no calendar has', async () => {
    const mail = await started();
    const { context } = mail;
    await context.store.transact((tx) => {
      const first = putMail(tx, context, { subject: 'good', body: 'It can be read.' });
      // Of a host that took it before such times were malformed.
      tx.put('message', [first], { ...tx.get('message', first)!, createdAtMs: 8.64e15 + 1 });
    });
    const window = await MailWindow.entered(suite, mail);
    await window.page.getByRole('link', { name: /good/ }).click();
    await window.page.getByText('It can be read.').waitFor();
    await window.page.getByText('never', { exact: true }).waitFor();
    expect(await window.unsound()).toEqual([]);
  });

  test('is shown as that, whatever the reason', async () => {
    const mail = await started();
    const { context } = mail;
    const first = await writeToOwner(context, 'alice', { subject: 'one', body: 'The first.' });
    const second = await writeToOwner(context, 'alice', { subject: 'two', body: 'The second.', reply_to: first });
    const window = await MailWindow.entered(suite, mail);
    await window.page.getByRole('link', { name: /two/ }).waitFor();
    // A fault of ours that only the second message has.
    await window.page.evaluate(`{
      const split = String.prototype.split;
      String.prototype.split = function (...given) {
        if (String(this) === 'The second.') throw new Error('a fault');
        return split.apply(this, given);
      };
    }`);
    await window.page.evaluate(`location.hash = '#/messages/${second}'`);
    await window.page.getByText('The first.').waitFor();
    await window.page.getByRole('alert').getByText('A message of this conversation cannot be shown.').waitFor();
    expect(await window.page.getByText('The second.').count()).toBe(0);
  });
});

describe('words of others', () => {
  test('are words and nothing else in every view, at both widths, light and dark', async () => {
    const mail = await started([`a${'b'.repeat(63)}`, 'alice']);
    await fill(mail);
    const window = await MailWindow.entered(suite, mail, { reducedMotion: 'reduce' });
    const { page } = window;
    await page.getByLabel('Show').selectOption('Everything');
    await page.getByText(HOSTILE.image).first().waitFor();
    await page.getByText(printable(HOSTILE.turned)).first().waitFor();
    await window.soundInEveryLayout('mail-inbox');
    expect(await window.violations()).toEqual([]);
    await page
      .getByRole('link', { name: /Which one/ })
      .last()
      .click();
    await window.heading('Which one?');
    await page.getByRole('article').nth(2).waitFor();
    await window.soundInEveryLayout('mail-conversation');
    for (const [at, words] of Object.values(HOSTILE).entries()) {
      await window.go('Inbox');
      await page.getByLabel('Show').selectOption('Everything');
      await page
        .locator('.mail-link', { hasText: printable(words) })
        .first()
        .click();
      await page.locator('.body').first().waitFor();
      await expect
        .poll(() => page.locator('.body').first().textContent())
        .toBe(`${printable(words)}\n${printable(words)}`);
      await window.soundInEveryLayout(`mail-hostile-${at}`);
    }
    await window.go('Write');
    await page.getByLabel('To', { exact: true }).fill(`${HOSTILE.long},<b>hacked()</b>`);
    await page.getByLabel('To', { exact: true }).press('Enter');
    await page.getByLabel('Subject').fill(HOSTILE.image);
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByRole('alert').waitFor();
    expect(window.refusals.splice(0)).toEqual(['400 /mail/mail-send']);
    await window.soundInEveryLayout('mail-write');
    await window.go('Sent');
    await page.getByText('delivered', { exact: true }).first().waitFor();
    await window.soundInEveryLayout('mail-sent');
    expect(await window.violations()).toEqual([]);
    await page.locator('.mail-link').first().click();
    await page.locator('.steps').first().waitFor();
    await window.soundInEveryLayout('mail-delivery');
    expect(await window.violations()).toEqual([]);
  });

  test('a place that there is not leads to the inbox, or says that there is nothing', async () => {
    const mail = await started();
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    for (const path of ['nowhere', '__proto__', 'messages/%E0%A4%A', 'compose/x']) {
      await page.evaluate(`location.hash = '#/${path}'`);
      await page.locator('main h1').waitFor();
    }
    await page.evaluate(`location.hash = '#/messages/nothing'`);
    await page.getByText('Your mailbox has no message with this id').waitFor();
    await page.evaluate(`location.hash = '#/messages/%3Cimg%20src=x%3E'`);
    await page.getByRole('alert').waitFor();
    await page.evaluate(`location.hash = '#/sent/nothing'`);
    await page.getByRole('alert').waitFor();
    expect(window.refusals.splice(0)).toEqual(['400 /mail/mail-inbox', '404 /mail/mail-sent']);
    expect(await window.unsound()).toEqual([]);
  });
});

async function sizeOf(file: string): Promise<number> {
  return gzipSync(await readFile(join(suite.pageFolder, file))).length;
}

/** A mailbox in which everything that others may choose is bad, and a conversation as it should be. */
async function fill({ context }: MailPage): Promise<void> {
  await context.store.transact((tx) => {
    for (const words of Object.values(HOSTILE)) {
      putMail(tx, context, {
        subject: words,
        from: words,
        body: `${words}\n${words}`,
        refs: [words],
        needsReply: true,
        origin: 'external',
        forwardedFrom: words,
      });
    }
  });
  const long = `a${'b'.repeat(63)}`;
  context.clock.nowMs += 60_000;
  const asked = await writeToOwner(context, 'alice', {
    to: ['owner', long],
    subject: 'Which one?',
    body: 'The build fails on two branches since this morning.\n\nShould I mend the older one first, or leave it?',
    kind: 'request',
    refs: ['src/host/daemon.ts:120', 'https://ci.example/builds/4711'],
  });
  context.clock.nowMs += 240_000;
  const answered = await send(context, 'owner', {
    to: ['alice', long],
    subject: 'Re: Which one?',
    body: 'The newer one.',
    reply_to: asked,
    kind: 'decision',
  });
  context.clock.nowMs += 60_000;
  await writeToOwner(context, 'alice', {
    subject: 'Re: Which one?',
    body: 'Done: both are green.',
    reply_to: accepted(answered).message_id,
  });
  const alice = await idOf(context, 'alice');
  const { summaries = [] } = accepted(await useInbox(context, alice, {}));
  accepted(
    await useInbox(context, alice, { action: 'read', message_ids: summaries.map(({ message_id }) => message_id) }),
  );
}
