/**
 * The operator's console in headless Chromium: every view by mouse and by keyboard, its actions, and words of others.
 */
import { rm } from 'node:fs/promises';
import type { Route } from 'playwright-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { displayFingerprint } from '../../src/protocol/public-key.ts';
import { printable } from '../../src/protocol/printable.ts';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import { enrolOf } from '../support/commands.ts';
import { deferred } from '../support/deferred.ts';
import { SOUND_ROWS, heldRowsChecks } from '../support/held-rows-check.ts';
import { envelopeWire, itemTo, receiptId, receiptWire } from '../support/mail.ts';
import { ConsoleWindow, consoleUrl, sample } from './console-browser.ts';
import { browserForSuite } from '../support/page-browser.ts';
import { HOSTILE } from '../support/hostile-words.ts';
import { type HostedRelay, deny, enrolWithToken, hostedRelayForTest } from '../support/hosted-relay.ts';
import { type HttpRelay, type HttpRelayChanges, relayForTest } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed, relay as relayHost } from '../support/hosts.ts';
import { rotationBody } from '../support/rotations.ts';
import {
  faulty,
  newServer,
  node,
  passUntil,
  sharing,
  startFollowing,
  started as startedOn,
} from '../support/shared-nodes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ADMIN = { host: '127.0.0.1', port: 0 };

const suite = browserForSuite('console');

async function started(changes: HttpRelayChanges = {}): Promise<HttpRelay> {
  return relayForTest('node', { adminListen: ADMIN, consoleFolder: suite.pageFolder, ...changes });
}

/** Mail that waits, mail that was acked, and a push that was rejected. */
async function traffic(relay: HttpRelay): Promise<void> {
  const client = relay.client(alice);
  await client.push([
    itemTo([bob], 'first'),
    itemTo([bob, carol], 'both'),
    itemTo([carol], 'large', envelopeWire('large', 90_000)),
  ]);
  await client.push([itemTo([hostNamed('nobody')], 'lost')]);
  const page = await relay.client(carol).pull();
  await relay.client(carol).ack(page.epoch, page.items[0]?.seq ?? 0);
}

/** Longer than a busy machine takes for a test: the clocks of these relays run on. */
const LEASE_MS = 120_000;

describe('the console of relays that share a log', () => {
  test('says who leads, what this relay does and how far it is behind, on both', async () => {
    const server = newServer();
    const shown = { adminListen: ADMIN, consoleFolder: suite.pageFolder };
    const leader = await startedOn(server, { ...sharing(server.client(), { leaseMs: LEASE_MS }), ...shown });
    await leader.enrol(alice, bob);
    const name = server.row?.holder ?? '';
    const { log, fail } = faulty(server.client());
    const stopped = new AbortController();
    const follower = await node(server, {
      ...sharing(log, { leaseMs: LEASE_MS }),
      ...shown,
      stopFollowing: stopped.signal,
    });
    const { leads } = await startFollowing(follower, server);
    let letGo: (() => void) | undefined;
    onTestFinished(async () => {
      letGo?.();
      stopped.abort();
      await leads.catch(() => undefined);
    });

    const atLeader = await ConsoleWindow.entered(suite, leader);
    const leading = atLeader.page.getByRole('region', { name: 'Shared log' });
    await leading.getByText(`${name} leads: it serves the hosts`).waitFor();
    await leading.getByText('nothing', { exact: true }).waitFor();
    await atLeader.page.getByText('All is well.').waitFor();

    const window = await ConsoleWindow.entered(suite, follower);
    const { page } = window;
    const following = page.getByRole('region', { name: 'Shared log' });
    await following.getByText('follows: it serves no hosts').waitFor();
    await following.getByText(`${name} leads, since`).waitFor();
    await expect.poll(() => page.getByRole('navigation').getByRole('link').allTextContents()).toEqual(['Overview']);
    // The hash of an earlier visit.
    await page.evaluate(`location.hash = '#/hosts'`);
    await page.getByText('The relay that leads shows hosts, log and invites, and checks its rows').waitFor();
    await page.evaluate(`location.hash = '#/'`);
    await expect
      .poll(async () => {
        leader.timers.pass(LEASE_MS / 6);
        follower.timers.pass(100);
        return following.getByText('nothing', { exact: true }).count();
      })
      .toBe(1);
    await page.getByText(`This relay follows ${name} and is ready to take its place.`).waitFor();
    expect(await page.getByRole('button', { name: 'Check the rows now' }).count()).toBe(0);
    fail.payloads = () => new Promise((resolve) => (letGo = resolve));
    await leader.client(alice).push([itemTo([bob], 'one')]);
    leader.timers.pass(LEASE_MS / 6);
    await passUntil(follower, () => letGo !== undefined);
    follower.clock.move(45_000);
    await following.getByText('1 batch, 45 s').waitFor();
    await page.getByRole('alert').getByText('seconds behind its shared log').waitFor();
    await window.soundInEveryLayout('following');
    expect(await window.violations()).toEqual([]);
    delete fail.payloads;
    letGo?.();
    await page.reload();
    await expect
      .poll(async () => {
        leader.timers.pass(LEASE_MS / 6);
        follower.timers.pass(100);
        return following.getByText('nothing', { exact: true }).count();
      })
      .toBe(1);
    expect(await window.unsound()).toEqual([]);
    expect(await atLeader.unsound()).toEqual([]);
  });
});

describe('the console', () => {
  test('shows in one sentence how the relay is, its backups, and how far back its log goes', async () => {
    const folder = await temporaryFolder();
    const relay = await started({ backups: { folder, keep: 3, everyMs: 86_400_000 } });
    await relay.enrol(alice, bob);
    const window = await ConsoleWindow.entered(suite, relay);
    const { page } = window;
    const backups = page.getByRole('region', { name: 'Backups' });
    relay.clock.move(1000);
    await page.getByRole('button', { name: 'Take a backup' }).click();
    await page.getByText(/The backup poste-.* is complete/).waitFor();
    await backups.getByText(folder).waitFor();
    await backups.getByText(', in 23.9 h').waitFor();
    sample(relay);
    await page.getByText('All is well. 2 hosts, no mail waits. The last backup is from').waitFor();
    await page.getByRole('region', { name: 'Log of the relay' }).getByText('; nothing was removed').waitFor();

    await rm(folder, { recursive: true });
    await page.getByRole('button', { name: 'Take a backup' }).click();
    await page.getByText('the backup could not be taken').waitFor();
    relay.logged.length = 0;
    expect(window.refusals.splice(0)).toEqual(['500 /console/backup']);
    expect(await window.unsound()).toEqual([]);
    // The session ends with the idle days.
    await window.close();
    relay.clock.move(3 * 86_400_000);
    const later = await ConsoleWindow.entered(suite, relay);
    await later.page.getByRole('alert').getByText('The last good backup is older than two intervals.').waitFor();
    await later.page.getByText('Look at the room and the rights of the backup folder').waitFor();
    expect(await later.unsound()).toEqual([]);
  });

  test('tells the operator of a relay without hosts what comes next, with commands to copy', async () => {
    const relay = await started({ admission: 'invite' });
    const window = await ConsoleWindow.open(suite);
    const { page, context } = window;
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await window.enter(relay);
    const first = page.getByRole('region', { name: 'The first host' });
    const fingerprint = displayFingerprint(relayHost.key);
    const command = `poste relay set ${relay.url} --key ${fingerprint} --token-file invite.txt`;
    await first.getByText(command, { exact: true }).waitFor();
    await first.getByText('Only programs of this machine reach it.').waitFor();
    await first.getByRole('button', { name: 'Copy the command' }).nth(1).click();
    await first.getByText('Copied').first().waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(command);
    await window.soundInEveryLayout('welcome');
    expect(await window.violations()).toEqual([]);
    await window.go('Hosts');
    await page.getByText('No host has enrolled yet.').waitFor();
    expect(await window.unsound()).toEqual([]);
  });

  test('opens with a link that is good once, and stays open over a reload', async () => {
    const relay = await started();
    const url = await consoleUrl(relay);
    const one = await ConsoleWindow.open(suite);
    await one.page.goto(url);
    await one.heading('Overview');
    expect(one.page.url()).not.toContain('token');
    await one.page.reload();
    await one.heading('Overview');
    expect(await one.unsound()).toEqual([]);

    const other = await ConsoleWindow.open(suite);
    await other.page.goto(url);
    await other.heading('Poste relay');
    await other.page.getByRole('alert').getByText('this link was used before').waitFor();
    await one.page.getByRole('button', { name: 'Sign out' }).click();
    await one.heading('Poste relay');
    await one.page.reload();
    await one.heading('Poste relay');
    expect((await one.context.cookies()).filter(({ value }) => value !== '')).toEqual([]);
  });

  test('a link that was opened twice leads to the session that it began', async () => {
    const relay = await started();
    const url = await consoleUrl(relay);
    const window = await ConsoleWindow.open(suite);
    await window.page.goto(url);
    await window.heading('Overview');
    await window.page.goto('about:blank');
    await window.page.goto(url);
    await window.heading('Overview');
    expect(window.page.url()).not.toContain('token');
    expect(window.refusals).toEqual(['403 /console/session']);
    await window.page.getByText('live', { exact: true }).waitFor();
  });

  test('asks once a second while the log is read, however long that takes', async () => {
    const relay = await started();
    const window = await ConsoleWindow.open(suite);
    const { page } = window;
    let asked = 0;
    await page.route('**/console/overview', async (route) => {
      const response = await route.fetch();
      const document = (await response.json()) as object;
      await route.fulfill({ response, json: { ...document, epochs_read: 'under way' } });
      asked++;
    });
    await page.clock.install();
    await page.goto(await consoleUrl(relay));
    await window.heading('Overview');
    await page.getByText('The log is still being read').waitFor();
    const seconds = 35;
    for (let second = 0; second < seconds; second++) {
      await page.clock.runFor(1000);
      // Another answer comes after those that were asked for before it.
      await page.evaluate(`fetch('/console/session').then((answer) => answer.text())`);
    }
    expect(asked).toBeGreaterThan(seconds / 2);
    expect(asked).toBeLessThan(seconds + 10);
  });

  test('warns of queues at fault and of damaged rows, and says what to run', async () => {
    const relay = await started();
    await relay.enrol(bob);
    const window = await ConsoleWindow.open(suite);
    const { page } = window;
    await page.route('**/console/overview', async (route) => {
      const response = await route.fetch();
      const document = (await response.json()) as object;
      const broken = { host_pubkey: bob.key, host: HOSTILE.template, reason: 'usage never falls below zero' };
      const faults = { broken_queues: [broken], damaged_rows: ['the dedup row'], damaged_rows_found: 3 };
      await route.fulfill({ response, json: { ...document, ...faults } });
    });
    await window.enter(relay);
    await expect.poll(() => page.getByRole('alert').count()).toBe(2);
    const [queue, rows] = await page.getByRole('alert').allInnerTexts();
    expect(queue).toContain(HOSTILE.template);
    expect(queue).toContain('(usage never falls below zero)');
    expect(queue).toContain('poste relay log verify');
    expect(rows).toContain('the dedup row and 2 more');
    expect(rows).toContain('poste relay log rebuild');
    await page.getByRole('alert').getByRole('link').click();
    await window.heading(bob.name);
    expect(await window.unsound()).toEqual([]);
  });

  test('shows how the relay does, as it happens', async () => {
    const relay = await started();
    await relay.enrol(alice, bob, carol);
    const window = await ConsoleWindow.entered(suite, relay);
    await traffic(relay);
    sample(relay);
    const { page } = window;
    await page
      .getByText('items waiting', { exact: true })
      .locator('xpath=..')
      .getByText('3', { exact: true })
      .waitFor();
    await page.getByRole('img', { name: /Items a second, now: accepted 1.5, delivered 0.5, rejected 0.5/ }).waitFor();
    sample(relay);
    await page.getByRole('img', { name: /Items a second, now: accepted 0, delivered 0/ }).waitFor();
    await page.reload();
    await page.getByRole('table', { name: 'Biggest queues' }).getByRole('link', { name: 'bob' }).waitFor();
    const refused = page.getByRole('table', { name: 'Refused in the last hour' });
    // The minute in which it was refused may be over by now; the hour is not.
    await refused.getByRole('row', { name: /unknown target item [01] 1/ }).waitFor();
    await page.getByRole('table', { name: 'Epochs' }).getByText('initialised').waitFor();
    // Both of the last minutes are drawn.
    await expect.poll(() => page.locator('.chart canvas').count()).toBe(4);
    expect(await window.unsound()).toEqual([]);
  });

  test('draws the last hour, day and week and a time of the user, and so does the log', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    const window = await ConsoleWindow.entered(suite, relay);
    const { page } = window;
    const startMs = relay.clock.nowMs();
    await relay.client(alice).push([itemTo([bob], 'one')]);
    sample(relay, 500);
    const [item] = (await relay.client(bob).pull()).items;
    await relay.client(bob).ack(relay.epoch, item?.seq ?? 0);
    sample(relay, 5);
    const measured = page.getByRole('region', { name: 'Measurements' });
    await measured.getByRole('img', { name: /Items waiting, now: all queues 0/ }).waitFor();
    for (const range of ['last hour', 'last day', 'last week']) {
      const asked = page.waitForRequest(/samples\?since=/);
      await measured.getByRole('combobox', { name: 'Time' }).selectOption(range);
      const since = Number(new URL((await asked).url()).searchParams.get('since'));
      expect(relay.clock.nowMs() - since).toBeGreaterThan(3_000_000);
      await measured.getByText('The relay keeps them in memory for a week').waitFor();
      await measured.getByRole('img', { name: /Items waiting, now: all queues/ }).waitFor();
    }
    // The time when it waited.
    await measured.getByRole('combobox', { name: 'Time' }).selectOption('from … to …');
    const local = (atMs: number): Promise<string> =>
      page.evaluate(`(() => {
        const date = new Date(${atMs} - new Date(${atMs}).getTimezoneOffset() * 60000);
        return date.toISOString().slice(0, 19);
      })()`);
    await measured.getByRole('textbox', { name: 'From' }).fill(await local(startMs));
    await measured.getByRole('textbox', { name: 'To' }).fill(await local(startMs + 10_000));
    await measured.getByRole('img', { name: /Items waiting, now: all queues 1/ }).waitFor();
    await window.soundInEveryLayout('range');
    expect(await window.violations()).toEqual([]);
    await page.setViewportSize({ width: 390, height: 800 });
    await expect.poll(() => window.unsound()).toEqual([]);

    await window.go('Log');
    const events = page.getByRole('region', { name: 'Events' }).getByRole('listitem');
    await expect.poll(() => events.count()).toBe(7);
    await page.getByRole('combobox', { name: 'Time' }).selectOption('from … to …');
    await page.getByRole('textbox', { name: 'From' }).fill(await local(startMs + 60_000));
    await page.getByRole('button', { name: 'Filter' }).click();
    await expect.poll(() => events.count()).toBe(1);
    await events.getByText('items acked').waitFor();
    await page.getByRole('combobox', { name: 'Time' }).selectOption('last hour');
    await page.getByRole('button', { name: 'Filter' }).click();
    await expect.poll(() => events.count()).toBe(7);
    expect(await window.unsound()).toEqual([]);
  });

  test('finds a host, shows its quotas and keys, and revokes it when its name is typed', async () => {
    const relay = await started();
    const next = { ...hostNamed('bob-next'), name: bob.name };
    await relay.enrol(alice, bob, carol);
    await traffic(relay);
    await relay.client(bob).request('POST', '/v2/relay/rotate', rotationBody(bob, next));
    const window = await ConsoleWindow.entered(suite, relay);
    await window.go('Hosts');
    const { page } = window;
    await page.getByText('4 of 4 host keys').waitFor();
    await page.getByLabel('State').selectOption('live');
    await page.getByText('3 of 4 host keys').waitFor();
    await page.getByLabel('Search').fill('BOB');
    await page.getByText('1 of 4 host keys').waitFor();
    await page.getByRole('link', { name: 'bob' }).click();
    await window.heading(/bob/);
    await expect.poll(() => page.getByRole('table', { name: 'Keys of this host' }).getByRole('row').count()).toBe(3);
    await page.getByRole('meter', { name: 'queue, items: 2 of 10,000 items' }).waitFor();
    await page.getByText('everybody').waitFor();
    expect(await window.unsound()).toEqual([]);

    await page.getByRole('button', { name: 'Revoke…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Revoke bob?' });
    const revoke = dialog.getByRole('button', { name: 'Revoke for good' });
    await expect.poll(() => revoke.isDisabled()).toBe(true);
    await dialog.getByLabel('Type its name to confirm').fill('bo');
    await expect.poll(() => revoke.isDisabled()).toBe(true);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    expect(relay.relay.engine.directory.get(next.key)?.revokedAtMs).toBeNull();

    await page.getByRole('button', { name: 'Revoke…' }).click();
    await dialog.getByLabel('Type its name to confirm').fill('bob');
    await page.keyboard.press('Enter');
    await page.getByText('bob is revoked, for good.').waitFor();
    expect(relay.relay.engine.directory.get(next.key)?.revokedAtMs).toBe(relay.clock.wallMs);
    await expect.poll(() => page.getByRole('button', { name: 'Revoke…' }).count()).toBe(0);
    expect(await window.unsound()).toEqual([]);
  });

  test('sorts hosts by a click or a key, turns the order around, and shows them a page at a time', async () => {
    const relay = await started();
    await relay.enrol(alice, bob, carol);
    const others = Array.from({ length: 60 }, (_none, at) => hostNamed(`host-${String(at).padStart(2, '0')}`));
    await Promise.all(others.map((host) => relay.relay.engine.admissions.enrol(enrolOf(host))));
    await relay.client(alice).push([itemTo([carol], 'one')]);
    await relay.client(bob).pull();
    const window = await ConsoleWindow.entered(suite, relay);
    await window.go('Hosts');
    const { page } = window;
    const table = page.getByRole('table', { name: 'Hosts' });
    const first = (): Promise<string | null> => table.getByRole('link').first().textContent();
    await page.getByText('63 of 63 host keys, 1 to 50 are shown').waitFor();
    await expect.poll(first).toBe('carol');
    expect(await window.violations()).toEqual([]);
    await table.getByRole('columnheader', { name: 'name' }).getByRole('button').click();
    await expect.poll(first).toBe('alice');
    await table.getByRole('button', { name: 'name' }).focus();
    await page.keyboard.press('Enter');
    await expect.poll(first).toBe('host-59');
    const header = table.getByRole('columnheader', { name: 'name' });
    await expect.poll(() => header.getAttribute('aria-sort')).toBe('descending');
    await page.getByLabel('Sort by').selectOption('last seen');
    await page.getByRole('button', { name: 'Reverse' }).click();
    await expect.poll(first).toBe('bob');
    await page.getByLabel('Sort by').selectOption('name');
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('51 to 63 are shown').waitFor();
    await expect.poll(() => page.getByRole('button', { name: 'Next' }).isDisabled()).toBe(true);
    await page.getByRole('button', { name: 'Earlier' }).click();
    await page.getByText('1 to 50 are shown').waitFor();
    await page.getByRole('button', { name: 'Next' }).click();
    // Another list begins at its first page.
    await page.getByLabel('Search').fill('host-1');
    await page.getByText('10 of 63 host keys').waitFor();
    await expect.poll(() => page.getByRole('navigation', { name: 'Pages' }).count()).toBe(0);
    expect(await window.unsound()).toEqual([]);
  });

  test('makes an invite, shows it once with the command for the host, and revokes it', async () => {
    const relay = await started({ admission: 'invite' });
    const window = await ConsoleWindow.entered(suite, relay);
    await window.go('Invites');
    const { page } = window;
    await page.getByText('No invite is open.').waitFor();
    await page.getByLabel('For whom').fill(HOSTILE.image);
    await page.getByLabel('Valid for').selectOption('a day');
    await page.getByLabel('Valid for').focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const issued = page.getByRole('region', { name: 'The new invite' });
    const token = (await issued.getByText(/^poste-invite-/).textContent()) ?? '';
    await issued.getByText(`poste relay set ${relay.url} --key`).waitFor();
    const table = page.getByRole('table', { name: 'Open invites' });
    await table.getByText(HOSTILE.image, { exact: true }).waitFor();
    expect(await window.violations()).toEqual([]);
    await window.soundInEveryLayout('invites');
    const { admissions } = relay.relay.engine;
    const open = await admissions.openInvites(relay.clock.nowMs());
    expect(open.map(({ inviteHash }) => inviteHash)).toEqual([sha256Hex(token)]);
    // It is shown once.
    await page.reload();
    await table.getByRole('button', { name: `Revoke the invite for ${HOSTILE.image}` }).waitFor();
    expect(await page.getByText(token).count()).toBe(0);
    await table.getByRole('button').click();
    await page.getByText(`The invite for ${HOSTILE.image} is revoked.`).waitFor();
    await page.getByText('No invite is open.').waitFor();
    expect(await admissions.openInvites(relay.clock.nowMs())).toEqual([]);
    expect(await window.unsound()).toEqual([]);
  });

  test('shows what waits for a host as it comes', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    const window = await ConsoleWindow.entered(suite, relay);
    await window.go('Hosts');
    const { page } = window;
    await page.getByRole('link', { name: 'bob' }).click();
    await page.getByRole('meter', { name: 'queue, items: 0 of 10,000 items' }).waitFor();
    await relay.client(alice).push([itemTo([bob], 'first')]);
    sample(relay);
    await page.getByRole('meter', { name: 'queue, items: 1 of 10,000 items' }).waitFor();

    // An answer that comes after a later one does not replace it.
    const [isAnswered, mayArrive] = [deferred(), deferred()];
    const hold = async (route: Route): Promise<void> => {
      const response = await route.fetch();
      isAnswered.resolve();
      await mayArrive.promise;
      await route.fulfill({ response });
    };
    await page.route('**/console/host?*', hold, { times: 1 });
    await relay.client(alice).push([itemTo([bob], 'second')]);
    sample(relay);
    await isAnswered.promise;
    await relay.client(alice).push([itemTo([bob], 'third')]);
    sample(relay);
    await page.getByRole('meter', { name: 'queue, items: 3 of 10,000 items' }).waitFor();
    const arrived = page.waitForEvent('requestfinished', (request) => request.url().includes('/console/host?'));
    mayArrive.resolve();
    await arrived;
    // The page has handled that answer when this later one has come.
    await page.evaluate(`fetch('session').then((response) => response.json())`);
    expect(await page.getByRole('meter', { name: 'queue, items: 3 of 10,000 items' }).count()).toBe(1);

    // The dialog forgets what went wrong in it, and leaves the focus on something that is there.
    await page.route('**/console/revoke', (route) => route.abort(), { times: 1 });
    await page.getByRole('button', { name: 'Revoke…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Type its name to confirm').fill('bob');
    await page.keyboard.press('Enter');
    await dialog.getByRole('alert').getByText('no answer: check that poste is still running').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Revoke…' }).click();
    await expect.poll(() => dialog.getByRole('alert').count()).toBe(0);
    await dialog.getByLabel('Type its name to confirm').fill('bob');
    await page.keyboard.press('Enter');
    await page.getByText('bob is revoked, for good.').waitFor();
    await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('H1');
  });

  test('finds a host in the log by its name after its key was rotated', async () => {
    const relay = await started();
    const next = { ...hostNamed('bob-next'), name: bob.name };
    await relay.enrol(alice, bob);
    await relay.client(alice).push([itemTo([bob], 'before')]);
    await relay.client(bob).request('POST', '/v2/relay/rotate', rotationBody(bob, next));
    const window = await ConsoleWindow.entered(suite, relay);
    await window.go('Log');
    const { page } = window;
    await page.getByRole('link', { name: 'Trace of item before' }).waitFor();
    await page.getByLabel('Host', { exact: true }).fill('bob');
    await page.getByLabel('Kind').selectOption('ItemAccepted');
    await page.keyboard.press('Enter');
    const events = page.getByRole('region', { name: 'Events' }).getByRole('listitem');
    await expect.poll(() => events.count()).toBe(1);
    await expect.poll(() => page.getByRole('alert').count()).toBe(0);
  });

  test('an answer that comes after the log was filtered anew is not mixed in', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    const window = await ConsoleWindow.entered(suite, relay);
    await window.go('Log');
    const { page } = window;
    const events = page.getByRole('region', { name: 'Events' }).getByRole('listitem');
    await expect.poll(() => events.count()).toBe(5);
    const asked = deferred();
    const go = deferred();
    const answered = deferred();
    await page.route(
      '**/console/log?*after=*',
      async (route) => {
        asked.resolve();
        await go.promise;
        await route.continue();
        answered.resolve();
      },
      { times: 1 },
    );
    await relay.client(alice).push([itemTo([bob], 'late')]);
    sample(relay);
    await asked.promise;
    await page.getByLabel('Kind').selectOption('HostEnrolled');
    await page.getByRole('button', { name: 'Filter' }).click();
    await expect.poll(() => events.count()).toBe(2);
    go.resolve();
    await answered.promise;
    await page.getByLabel('Kind').selectOption('');
    await page.getByLabel('Item', { exact: true }).fill('late');
    // Something that is asked after it was answered after it too.
    sample(relay);
    await relay.client(alice).push([itemTo([bob], 'later')]);
    sample(relay);
    await page.waitForResponse(/after=/);
    await expect
      .poll(() => events.allTextContents())
      .toEqual([
        expect.stringContaining('host enrolled') as unknown,
        expect.stringContaining('host enrolled') as unknown,
      ]);
  });

  test('looking back twice at once leaves nothing out and shows nothing twice', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    await relay.client(alice).push(Array.from({ length: 120 }, (_none, at) => itemTo([bob], `item-${at}`)));
    const window = await ConsoleWindow.entered(suite, relay);
    await window.go('Log');
    const { page } = window;
    const events = page.getByRole('region', { name: 'Events' }).getByRole('listitem');
    await expect.poll(() => events.count()).toBe(50);
    const asked = deferred();
    const go = deferred();
    await page.route('**/console/log?*before=*', async (route) => {
      asked.resolve();
      await go.promise;
      await route.continue();
    });
    const back = page.getByRole('button', { name: 'Look further back' });
    await back.dispatchEvent('click');
    await asked.promise;
    await back.dispatchEvent('click');
    // What comes meanwhile stays.
    await relay.client(alice).push([itemTo([bob], 'meanwhile')]);
    sample(relay);
    await page.getByRole('link', { name: 'Trace of item meanwhile' }).waitFor();
    go.resolve();
    await expect.poll(() => events.count()).toBe(101);
    await back.click();
    await expect.poll(() => events.count()).toBe(126);
    const marks = await page.locator('.event-when').allTextContents();
    const records = marks.map((mark) => Number(mark.split('· record ')[1]));
    expect(records).toEqual(Array.from({ length: 126 }, (_none, at) => 126 - at));
    expect(await window.unsound()).toEqual([]);
  });

  test('goes on behind answers without an event, and ends where the log does', async () => {
    const relay = await started();
    const window = await ConsoleWindow.open(suite);
    const { page } = window;
    const before: (string | null)[] = [];
    // As a log of many records answers, of which the first 90,000 are kept no more.
    await page.route('**/console/log*', async (route) => {
      const asked = new URL(route.request().url()).searchParams.get('before');
      before.push(asked);
      const position = 150_000;
      const down = Math.max(90_001, Number(asked ?? position + 1) - 20_000);
      await route.fulfill({
        json: { events: [], searched_down_to: down, searched_down_at: 1, log_position: position },
      });
    });
    await window.enter(relay);
    await window.go('Log');
    await page.getByText('No event matches.').waitFor();
    expect(before).toEqual([null, '130001', '110001', '90001']);
    await expect.poll(() => page.getByRole('button', { name: 'Look further back' }).count()).toBe(0);
  });

  test('shows the log live, filters it, and traces an item from its acceptance to its ack', async () => {
    const relay = await started();
    await relay.enrol(alice, bob, carol);
    const window = await ConsoleWindow.entered(suite, relay);
    await window.go('Log');
    const { page } = window;
    const events = page.getByRole('region', { name: 'Events' }).getByRole('listitem');
    await events.first().waitFor();
    await expect.poll(() => events.count()).toBe(7);
    await traffic(relay);
    sample(relay);
    await page.getByRole('link', { name: 'Trace of item both' }).waitFor();
    await expect.poll(() => events.first().textContent()).toContain('items acked');

    await page.getByLabel('Kind').selectOption('HostEnrolled');
    await page.getByRole('button', { name: 'Filter' }).click();
    await expect.poll(() => events.count()).toBe(3);
    await page.getByLabel('Host', { exact: true }).fill('CAROL');
    await page.keyboard.press('Enter');
    await expect.poll(() => events.count()).toBe(1);
    await page.getByLabel('Kind').selectOption('');
    await page.getByLabel('Host', { exact: true }).fill('');
    await page.getByLabel('Item', { exact: true }).fill('both');
    await page.keyboard.press('Enter');
    // One event was shown before as well: only its link tells that the item's is there.
    await page.getByRole('link', { name: 'Trace of item both' }).waitFor();
    await expect.poll(() => events.count()).toBe(1);
    await page.getByLabel('Host', { exact: true }).fill('nobody');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('No host matches.').waitFor();
    expect(await window.unsound()).toEqual([]);

    await page.getByRole('link', { name: 'Trace of item both' }).click();
    await window.heading(/both/);
    await page.getByRole('region', { name: 'To bob' }).getByText('waiting').waitFor();
    const toCarol = page.getByRole('region', { name: 'To carol' });
    await expect
      .poll(() => toCarol.getByRole('listitem').allTextContents())
      .toEqual([expect.stringContaining('accepted') as unknown, expect.stringContaining('acked') as unknown]);
    // It is followed while it waits.
    const { epoch, items } = await relay.client(bob).pull();
    sample(relay);
    await relay.client(bob).ack(epoch, items.at(-1)?.seq ?? 0);
    sample(relay);
    await page.getByRole('region', { name: 'To bob' }).getByText('acked', { exact: true }).first().waitFor();
    expect(await window.unsound()).toEqual([]);
  });

  test('leaves filters, what was loaded, the selected row and the scroll place as they were', async () => {
    const relay = await started();
    const others = Array.from({ length: 60 }, (_none, at) => hostNamed(`host-${String(at).padStart(2, '0')}`));
    await relay.enrol(alice, bob);
    await Promise.all(others.map((host) => relay.relay.engine.admissions.enrol(enrolOf(host))));
    await relay.client(alice).push(Array.from({ length: 120 }, (_none, at) => itemTo([bob], `item-${at}.`)));
    const window = await ConsoleWindow.entered(suite, relay, { viewport: { width: 800, height: 600 } });
    const { page } = window;
    const focused = '#main [data-item]:is(:focus, :focus-within)';
    const top = (): Promise<number> => page.locator(focused).evaluate((row) => row.getBoundingClientRect().top);
    const isAt = async (name: string, y: number): Promise<void> => {
      await expect.poll(() => page.locator(focused).allTextContents()).toEqual([expect.stringContaining(name)]);
      await expect.poll(async () => Math.abs((await top()) - y)).toBeLessThan(3);
    };
    /** Opens what has the focus, and goes back when it is there. */
    const openAndReturn = async (opened: string | RegExp, left: string): Promise<void> => {
      await page.keyboard.press('Enter');
      await window.heading(opened);
      expect(await page.evaluate('scrollY')).toBe(0);
      await page.evaluate('history.back()');
      await window.heading(left);
    };
    await page.getByRole('combobox', { name: 'Time' }).selectOption('last day');
    await window.go('Hosts');
    await page.getByLabel('State').selectOption('live');
    await page.getByLabel('Sort by').selectOption('name');
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('62 of 62 host keys, 51 to 62 are shown').waitFor();
    await page.getByRole('link', { name: 'host-55' }).focus();
    const hostAt = await top();
    expect(hostAt).toBeLessThan(600);
    await openAndReturn(/host-55/, 'Hosts');
    await page.getByText('62 of 62 host keys, 51 to 62 are shown').waitFor();
    expect(await page.getByLabel('State').inputValue()).toBe('live');
    expect(await page.getByLabel('Sort by').inputValue()).toBe('name');
    await isAt('host-55', hostAt);

    await window.go('Log');
    const events = page.getByRole('region', { name: 'Events' }).getByRole('listitem');
    await page.getByLabel('Kind').selectOption('ItemAccepted');
    await page.getByRole('button', { name: 'Filter' }).click();
    await expect.poll(() => events.last().textContent()).toContain('item-70.');
    await page.getByRole('button', { name: 'Look further back' }).click();
    await expect.poll(() => events.count()).toBe(100);
    await page.getByRole('link', { name: 'Trace of item item-40.' }).focus();
    const y = (await top()) - 90;
    await page.mouse.wheel(0, 90);
    await isAt('item-40.', y);
    await openAndReturn(/item-40\./, 'Log');
    expect(await page.getByLabel('Kind').inputValue()).toBe('ItemAccepted');
    expect(await events.count()).toBe(100);
    await isAt('item-40.', y);
    // What came meanwhile is added above it, and so is what comes now.
    await page.keyboard.press('Enter');
    await window.heading(/item-40\./);
    await relay.client(alice).push([itemTo([bob], 'meanwhile')]);
    sample(relay);
    await page.evaluate('history.back()');
    await expect.poll(() => events.first().textContent()).toContain('meanwhile');
    await isAt('item-40.', y);
    await relay.client(alice).push([itemTo([bob], 'now')]);
    sample(relay);
    await expect.poll(() => events.first().textContent()).toContain('now');
    await isAt('item-40.', y);

    // The link of a host shows its events, whatever the log was filtered by.
    await page.locator(focused).getByRole('link', { name: 'bob' }).click();
    for (const kind of ['', 'HostEnrolled', '']) {
      await page.getByRole('link', { name: 'Events of this host' }).click();
      await window.heading('Log');
      await expect.poll(() => events.count()).toBe(50);
      expect([await page.getByLabel('Kind').inputValue(), await page.evaluate('scrollY')]).toEqual(['', 0]);
      await page.getByLabel('Kind').selectOption(kind);
      await page.getByRole('button', { name: 'Filter' }).click();
      await expect.poll(() => events.count()).toBe(kind === '' ? 50 : 1);
      await page.evaluate('history.back()');
      await window.heading(/bob/);
    }
    await window.go('Overview');
    expect(await page.getByRole('combobox', { name: 'Time' }).inputValue()).toBe('day');
    expect(await window.unsound()).toEqual([]);
  });

  test('offers a backup only where there is one to take, and says how it went', async () => {
    const without = await ConsoleWindow.open(suite);
    await without.enter(await started());
    await expect.poll(() => without.page.getByRole('button', { name: 'Take a backup' }).count()).toBe(0);

    let taken = 0;
    const takeBackup = async (): Promise<{ name: string; bytes: number }> => {
      if (++taken > 1) throw new Error('no room');
      return { name: 'copy-1', bytes: 2048 };
    };
    const relay = await started({ takeBackup });
    const window = await ConsoleWindow.entered(suite, relay);
    await window.page.getByRole('button', { name: 'Take a backup' }).click();
    await window.page.getByText('The backup copy-1 is complete: 2 KiB.').waitFor();
    expect(await window.unsound()).toEqual([]);
    await window.page.getByRole('button', { name: 'Take a backup' }).click();
    await window.page.getByText('the backup could not be taken').waitFor();
    expect(relay.errors).toHaveLength(1);
  });

  test('says when the rows were checked and what differs, and begins a check by keyboard', async () => {
    const without = await ConsoleWindow.open(suite);
    await without.enter(await started());
    await expect.poll(() => without.page.getByRole('button', { name: 'Check the rows now' }).count()).toBe(0);

    const { runs, start } = heldRowsChecks();
    const relay = await started({ startRowsCheck: start });
    const window = await ConsoleWindow.entered(suite, relay);
    const { page } = window;
    await page.getByText('The rows were not checked since the start').waitFor();
    const button = page.getByRole('button', { name: 'Check the rows now' });
    await button.focus();
    await page.keyboard.press('Enter');
    await page.getByText('The rows are being compared with the log (log: 1 of 9, 11 %).').waitFor();
    // It stays where it is, and begins nothing more.
    await page.keyboard.press('Enter');
    expect(await button.evaluate((one) => one.ownerDocument.activeElement === one)).toBe(true);
    expect(await button.getAttribute('aria-disabled')).toBe('true');
    expect(runs).toHaveLength(1);
    runs[0]!.end(SOUND_ROWS);
    await page.getByRole('status').getByText('The rows are checked: nothing differs.').waitFor();
    await page.getByText(/^Rows checked .*, now: nothing differs\. /).waitFor();
    expect(await button.getAttribute('aria-disabled')).toBe('false');

    await page.keyboard.press('Enter');
    await expect.poll(() => runs.length).toBe(2);
    const finding = {
      code: 'ROW_DIFFERS' as const,
      message: `the enrolment row of ${HOSTILE.image} differs`,
      details: {},
    };
    const others = Array.from({ length: 11 }, (_, at) => ({ ...finding, message: `the usage row of host ${at}` }));
    runs[1]!.end({ ...SOUND_ROWS, findings: [finding, ...others], found: 30 });
    await page.getByRole('status').getByText('30 rows differ from what the log gives.').waitFor();
    await page.getByRole('alert').getByText('The last check found 30 rows that the log does not give.').waitFor();
    const rows = page.getByRole('list', { name: 'Rows that differ' }).getByRole('listitem');
    expect([await rows.count(), await rows.first().textContent(), await rows.last().textContent()]).toEqual([
      11,
      printable(finding.message),
      '20 more',
    ]);
    await window.soundInEveryLayout('rows-check');
    expect(await window.violations()).toEqual([]);

    await page.keyboard.press('Enter');
    await expect.poll(() => runs.length).toBe(3);
    runs[2]!.fail(new Error('the disk is gone'));
    await page.getByRole('status').getByText('The check of the rows failed').waitFor();
    expect(await window.unsound()).toEqual([]);

    // One that began elsewhere since this page last looked.
    const other = await ConsoleWindow.open(suite);
    // It looks again when it is told to.
    await other.page.clock.install();
    await other.enter(relay);
    await button.press('Enter');
    await expect.poll(() => runs.length).toBe(4);
    await other.page.getByRole('button', { name: 'Check the rows now' }).press('Enter');
    await other.page.getByRole('status').getByText('the rows are being checked already').waitFor();
    await other.page.getByText('The rows are being compared with the log').waitFor();
    expect(other.refusals).toEqual(['409 /console/rows-check']);
    relay.logged.length = 0;
  });

  test('marks the axes of its charts at steps that people read, and none twice', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    const window = await ConsoleWindow.open(suite);
    const { page } = window;
    await page.addInitScript(`
      const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        this.canvas.drawn = [...(this.canvas.drawn ?? []), text];
        return fillText.call(this, text, ...place);
      };
      CanvasRenderingContext2D.prototype.clearRect = function (...place) {
        this.canvas.drawn = [];
        return clearRect.call(this, ...place);
      };
    `);
    await window.enter(relay);
    await page.getByText('The first measurements come in a few seconds.').waitFor();
    await expect.poll(() => page.locator('.chart').count()).toBe(0);
    await relay.client(alice).push([itemTo([bob], 'only')]);
    const marks = (): Promise<string[][]> =>
      page.evaluate(`Array.from(document.querySelectorAll('.chart canvas'), ({ drawn = [] }) =>
        drawn.filter((text) => !text.includes(':')))`);
    await expect
      .poll(async () => {
        sample(relay, 5);
        return (await marks())[3];
      })
      .toContain('1 min');
    const drawn = await marks();
    expect(drawn[2]).toEqual(['0', '1']);
    for (const texts of drawn) expect(new Set(texts).size).toBe(texts.length);
    expect(await window.unsound()).toEqual([]);
  });

  test('leaves out of a narrow page what says nothing, and keeps a place for what is said aloud', async () => {
    const relay = await started();
    await relay.enrol(alice);
    const window = await ConsoleWindow.entered(suite, relay, { viewport: { width: 360, height: 780 } });
    await window.go('Hosts');
    const { page } = window;
    await page.getByRole('link', { name: 'alice' }).waitFor();
    const titles = await page
      .getByRole('cell')
      .evaluateAll((cells) => cells.map((cell) => cell.getAttribute('data-title')));
    expect(titles).toEqual(['name', 'state', 'fingerprint', 'items', 'bytes', 'full']);
    await expect.poll(() => page.evaluate(`getComputedStyle(document.querySelector('.notice')).display`)).toBe('block');
  });

  test('goes by keyboard alone', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    const window = await ConsoleWindow.entered(suite, relay);
    const { page } = window;
    await page.getByRole('link', { name: 'Skip to content' }).focus();
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('main');
    await page.getByRole('link', { name: 'Overview' }).focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await window.heading('Hosts');
    await page.getByText('2 of 2 host keys').waitFor();
    // The new view has the focus, and what follows is in the order of the page.
    expect(await window.tabStops()).toEqual([
      'Search',
      'State',
      'Sort by',
      'Reverse',
      'name',
      'items',
      'bytes',
      'full',
      'alice',
      'bob',
    ]);
    await expect
      .poll(() => page.evaluate(`getComputedStyle(document.querySelector('a[href^="#/hosts/"]')).outlineStyle`))
      .toBe('none');
    await page.getByRole('link', { name: 'alice' }).focus();
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Tab');
    await expect.poll(() => page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid');
    await page.keyboard.press('Enter');
    await window.heading(/alice/);
    expect(await window.unsound()).toEqual([]);
  });

  test('a page that nobody sees holds no stream, and catches up when it is seen again', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    const window = await ConsoleWindow.entered(suite, relay);
    const { page } = window;
    const show = (state: 'hidden' | 'visible'): Promise<unknown> =>
      page.evaluate(`
        Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
      `);
    const ended = (): number =>
      relay.logged.filter(({ fields }) => (fields as { route?: string }).route === '/console/live').length;
    expect(ended()).toBe(0);
    await show('hidden');
    await expect.poll(ended).toBe(1);
    await relay.client(alice).push([itemTo([bob], 'unseen')]);
    sample(relay, 3);
    await show('visible');
    await page.getByText('live', { exact: true }).waitFor();
    await page.getByRole('img', { name: /Items waiting, now: all queues 1/ }).waitFor();
    expect(ended()).toBe(1);
    expect(await window.unsound()).toEqual([]);
  });

  test('a window that is closed while a test holds a request of its page leaves no fault behind', async () => {
    const relay = await started();
    const window = await ConsoleWindow.open(suite);
    const held = deferred();
    const go = deferred();
    const ended = deferred();
    await window.page.route('**/console/overview', async (route) => {
      held.resolve();
      await go.promise;
      await route.fetch().finally(ended.resolve);
    });
    await window.page.goto(await consoleUrl(relay));
    await held.promise;
    await window.close();
    go.resolve();
    await expect(ended.promise).resolves.toBeUndefined();
  });

  test('says that the relay is gone, and goes on when it is back', async () => {
    const relay = await started();
    const window = await ConsoleWindow.entered(suite, relay);
    const port = relay.relay.adminPort ?? 0;
    await relay.stop();
    await window.page.getByText('connection lost').waitFor();
    await relay.start({ adminListen: { host: '127.0.0.1', port } });
    // The session went with the process.
    await window.heading('Poste relay');
    expect(window.faults).toEqual([]);
  });
});

/** As long as they may be. */
const OWNER = 'a:b/c=d@e+f-'.repeat(5);
const LONG_NAME = 'x'.repeat(63);

describe('words of others', () => {
  test('are words and nothing else, in every view, at both widths, light and dark', async () => {
    const { relay } = await hostile();
    const window = await ConsoleWindow.open(suite, { reducedMotion: 'reduce' });
    const { page } = window;
    const seen = (view: string): Promise<void> => window.soundInEveryLayout(view);
    await window.enter(relay);
    sample(relay, 20);
    await page.getByRole('img', { name: /Items waiting, now: all queues 5/ }).waitFor();
    await expect
      .poll(async () => {
        sample(relay);
        return page.getByRole('img', { name: /Longest wait, now: oldest item [1-9]/ }).count();
      })
      .toBe(1);
    await seen('overview');
    expect(await window.violations()).toEqual([]);
    await window.go('Hosts');
    const table = page.getByRole('table', { name: 'Hosts' });
    await table.getByText(HOSTILE.image, { exact: true }).waitFor();
    await table.getByText(printable(HOSTILE.turned), { exact: true }).waitFor();
    await table.getByText(OWNER, { exact: true }).first().waitFor();
    await seen('hosts');
    await page.getByLabel('Search').fill(HOSTILE.image);
    await page.getByText('1 of 5 host keys').waitFor();
    await page.getByLabel('Search').fill('bob');
    await table.getByText(printable(HOSTILE.turned), { exact: true }).waitFor();
    await table.getByText(HOSTILE.image, { exact: true }).waitFor({ state: 'hidden' });
    await page.getByRole('link', { name: 'bob' }).click();
    await page.getByText(HOSTILE.long, { exact: true }).waitFor();
    await page.getByText(HOSTILE.handler, { exact: true }).waitFor();
    await seen('host');
    expect(await window.violations()).toEqual([]);
    await window.go('Log');
    for (const reason of Object.values(HOSTILE)) {
      await page.getByText(printable(reason), { exact: true }).first().waitFor();
    }
    await seen('log');
    expect(await window.violations()).toEqual([]);
    await page.getByRole('link', { name: 'Trace of item __proto__' }).click();
    await window.heading(/__proto__/);
    await page.getByRole('region', { name: `To ${LONG_NAME}` }).waitFor();
    await seen('item');
    await expect.poll(() => page.locator('main img, main script').count()).toBe(0);
    // Places that are none.
    for (const [path, refusal] of [
      ['hosts/%3Cimg%20src=x%20onerror=hacked()%3E', '400 /console/host'],
      ['items/%22onload=hacked()', '400 /console/trace'],
    ] as const) {
      await page.evaluate(`location.hash = '#/${path}'`);
      await expect.poll(() => window.refusals).toContain(refusal);
    }
    for (const [path, heading] of [
      ['hosts/%E0%A4%A', 'Hosts'],
      ['__proto__', 'Overview'],
    ] as const) {
      await page.evaluate(`location.hash = '#/${path}'`);
      await window.heading(heading);
    }
    expect(new Set(window.refusals.splice(0))).toEqual(new Set(['400 /console/host', '400 /console/trace']));
    expect(await window.unsound()).toEqual([]);
    expect(relay.errors).toEqual([]);
  });
});

/** A relay in which everything that others may choose is bad. */
async function hostile(): Promise<HostedRelay> {
  const hosted = await hostedRelayForTest('node', { adminListen: ADMIN, consoleFolder: suite.pageFolder });
  const { relay } = hosted;
  const claims: [TestHost, Record<string, string>][] = [
    [alice, { account: HOSTILE.image, org: HOSTILE.turned, client_id: HOSTILE.script }],
    [bob, { account: HOSTILE.turned, org: HOSTILE.long, client_id: HOSTILE.handler }],
    [carol, { account: HOSTILE.long, org: HOSTILE.emoji, client_id: HOSTILE.link }],
    [dave, { account: HOSTILE.emoji, org: HOSTILE.template, client_id: HOSTILE.image }],
    [hostNamed(LONG_NAME), { account: HOSTILE.handler, org: HOSTILE.image, client_id: HOSTILE.long }],
  ];
  for (const [host, words] of claims) await enrolWithToken(hosted, host, words, OWNER);
  const longId = '-_.'.repeat(42);
  const receipt = receiptId(longId, `${'a'.repeat(64)}@${'b'.repeat(63)}`, 9_007_199_254_740_991);
  await relay
    .client(alice)
    .push([
      itemTo([bob], longId),
      itemTo([carol, dave, hostNamed(LONG_NAME)], '__proto__'),
      itemTo([bob], receipt, receiptWire(alice, longId, `${'a'.repeat(64)}@${'b'.repeat(63)}`, 9_007_199_254_740_991)),
    ]);
  for (const reason of Object.values(HOSTILE)) await deny(hosted, { client_id: `other ${reason}`, reason });
  return hosted;
}
