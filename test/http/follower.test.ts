/**
 * Tests what a relay that follows a shared log tells its operator, and what it does for itself: backups and the scrub.
 */
import { readdir } from 'node:fs/promises';
import { hash } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import type { SharedLogShown } from '../../src/protocol/operator-documents.ts';
import { StoppedFollowing } from '../../src/relay/standby/shared-lead.ts';
import { Fenced, LogUnreachable, type SharedLog } from '../../src/relay/shared-log/shared-log.ts';
import { DAY_MS, SMALL_BODY_BYTES_MAX } from '../../src/protocol/limits.ts';
import type { CheckedRows } from '../../src/relay/replay/audit-thread.ts';
import { controlSocketPath } from '../../src/relay/operator/socket.ts';
import { payloadKey } from '../../src/relay/store/keys.ts';
import { wiresAt } from '../../src/relay/store/queue-runs.ts';
import { LEVEL_FOLDER } from '../../src/relay/store/level.ts';
import { relayHere, runHere } from '../support/command-run.ts';
import { freePort } from '../support/free-port.ts';
import { type HeldRowsCheck, SOUND_ROWS, heldRowsChecks } from '../support/held-rows-check.ts';
import type { HttpRelay, HttpRelayChanges } from '../support/http-relay.ts';
import { alice, bob, carol, relay as relayHost } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import type { MemoryLogServer } from '../support/memory-log.ts';
import { RawConnection, rawRequest, requestBytes } from '../support/raw-http.ts';
import { withRawLevel } from '../support/raw-level.ts';
import { EXIT, clientOf, sentenceOf } from '../support/relay-command.ts';
import {
  faulty,
  newServer,
  node,
  passUntil,
  rejecting,
  sharing,
  startFollowing,
  started,
} from '../support/shared-nodes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { alterWire, loseWire } from '../support/stored-items.ts';
import { lookedAtLater } from '../support/deferred.ts';

const KEY = { MAIL_RELAY_KEY: hash('sha256', relayHost.name, 'buffer').toString('base64') };
/** Longer than a busy machine takes for a test: the clocks of these relays run on. */
const LEASE_MS = 120_000;
const SCRUB_AFTER_MS = 600_000;

interface FollowerRun {
  relay: HttpRelay;
  adminPort: number;
  /** Returns what the operator's listener answers. */
  ask: (path: string, headers?: Record<string, string>) => Promise<Response>;
  post: (path: string, body: object, headers?: Record<string, string>) => Promise<Response>;
  /** `poste relay <args>` on the machine of this node. */
  command: (...args: string[]) => ReturnType<typeof runHere>;
  status: () => Promise<SharedLogShown>;
  /** Stops following. */
  stop: () => Promise<void>;
}

function onLog(log: SharedLog): HttpRelayChanges {
  return sharing(log, { leaseMs: LEASE_MS });
}

/** A node that follows, with an operator's listener. */
async function following(server: MemoryLogServer, changes: HttpRelayChanges = {}): Promise<FollowerRun> {
  const adminListen = { host: '127.0.0.1', port: await freePort() };
  const stopped = new AbortController();
  const relay = await node(server, {
    adminListen,
    stopFollowing: stopped.signal,
    ...onLog(server.client()),
    ...changes,
  });
  const { leads } = await startFollowing(relay, server);
  const stop = async (): Promise<void> => {
    stopped.abort();
    await leads.catch((error: unknown) => {
      if (!(error instanceof StoppedFollowing)) throw error;
    });
  };
  onTestFinished(stop);
  return {
    relay,
    adminPort: adminListen.port,
    ask: (path, headers = {}) => fetch(`http://127.0.0.1:${adminListen.port}${path}`, { headers }),
    post: (path, body, headers = {}) =>
      fetch(`http://127.0.0.1:${adminListen.port}${path}`, { method: 'POST', body: JSON.stringify(body), headers }),
    command: (...args) => runHere(['relay', ...args, '--store-dir', relay.folder]),
    status: async () => {
      const { shared_log: shared } = await new ControlClient(relay.folder).get('/v1/status');
      if (!shared) throw new Error('the relay shares no log');
      return shared;
    },
    stop,
  };
}

async function leading(server: MemoryLogServer, changes: HttpRelayChanges = {}): Promise<HttpRelay> {
  const relay = await started(server, { ...onLog(server.client()), ...changes });
  await relay.enrol(alice, bob);
  return relay;
}

/** Lets the leader acknowledge what it appended, and the follower apply it. */
async function caughtUp(leader: HttpRelay, { relay, status }: FollowerRun): Promise<void> {
  await expect
    .poll(async () => {
      leader.timers.pass(LEASE_MS / 6);
      relay.timers.pass(100);
      return (await status()).behind_batches;
    })
    .toBe(0);
}

describe('a relay that follows', () => {
  test('says who leads where its operator looks, and is not ready', async () => {
    const server = newServer();
    const leader = await leading(server);
    const follower = await following(server);
    await caughtUp(leader, follower);
    const name = server.row?.holder ?? '';
    const ready = await follower.ask('/readyz');
    expect([ready.status, ready.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await ready.json()).toMatchObject({
      code: 'UNAVAILABLE',
      detail: `this node of the relay follows; ${name} leads`,
    });
    expect((await follower.ask('/livez')).status).toBe(200);
    const { code } = (await (await follower.ask('/healthz')).json()) as { code: string };
    expect(code).toBe('UNAVAILABLE');
    expect(await follower.status()).toMatchObject({ leader: name, term: 1, doubt: null, settings_differ: [] });
  });

  test('has a console, which shows what it knows and says who shows the rest', async () => {
    const server = newServer();
    const leader = await leading(server);
    const follower = await following(server);
    await caughtUp(leader, follower);
    const { url } = await new ControlClient(follower.relay.folder).post('/v1/console', {});
    const origin = `http://127.0.0.1:${follower.adminPort}`;
    expect(url).toMatch(new RegExp(`^${origin}/console/#token=`));
    const token = url.replace(/^.*#token=/, '');
    const entered = await follower.post('/console/session', { token }, { origin });
    const cookie = (entered.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    const { csrf } = (await entered.json()) as { csrf: string };
    expect(await (await follower.ask('/console/overview', { cookie, 'x-poste-csrf': csrf })).json()).toMatchObject({
      role: 'following',
      faults: [],
      shared_log: { leader: server.row?.holder, behind_batches: 0, fences: 0, fenced_at: null },
      log_kept: { first_at: NOON_MS, is_pruned: false },
    });
    for (const path of ['hosts', 'host', 'log', 'trace']) {
      const answer = await follower.ask(`/console/${path}`, { cookie, 'x-poste-csrf': csrf });
      expect([answer.status, await answer.json()]).toMatchObject([409, { code: 'NOT_LEADING' }]);
    }
    const revoke = { host_pubkey: bob.key, confirm: 'bob' };
    const action = await follower.post('/console/revoke', revoke, { origin, cookie, 'x-poste-csrf': csrf });
    expect(await action.json()).toMatchObject({
      code: 'NOT_LEADING',
      detail: `this relay follows, and ${server.row?.holder} leads: open the console of that relay`,
    });
    const check = await follower.post('/console/rows-check', {}, { origin, cookie, 'x-poste-csrf': csrf });
    expect([check.status, await check.json()]).toMatchObject([409, { code: 'NOT_LEADING' }]);
    // As everywhere: nothing without both secrets of a session.
    for (const path of ['overview', 'session', 'live', 'hosts']) {
      expect((await follower.ask(`/console/${path}`)).status).toBe(401);
      expect((await follower.ask(`/console/${path}`, { cookie })).status).toBe(401);
    }
    expect((await follower.post('/console/revoke', revoke, { origin, cookie })).status).toBe(401);
    expect((await follower.post('/console/revoke', revoke, { cookie, 'x-poste-csrf': csrf })).status).toBe(403);
  });

  test('refuses what another page asks of its listener under a name of its own', async () => {
    const server = newServer();
    await leading(server);
    const { adminPort } = await following(server);
    const answer = await rawRequest(adminPort, requestBytes('GET', '/readyz', { host: 'evil.example' }));
    expect(answer.status).toBe(403);
  });

  test.each([
    [['revoke', '--yes', 'bob'], 'revoke'],
    [['admit'], 'admit'],
    [['admit', '--list'], 'admit --list'],
    [['hosts'], 'hosts'],
    [['rotate-epoch'], 'rotate-epoch'],
  ])('refuses poste relay %s and says who leads', async (args) => {
    const server = newServer();
    await leading(server);
    const follower = await following(server);
    const ended = await follower.command(...args);
    expect(ended.code).toBe(EXIT.refused);
    expect(sentenceOf(ended)).toContain(`this node follows, and ${server.row?.holder} leads: give the command on its`);
  });

  test('says that nobody leads when the lead was given back', async () => {
    const server = newServer();
    const leader = await leading(server, { limits: { max_queue_items: 5 } });
    const follower = await following(server);
    await leader.stop();
    await expect
      .poll(() => (follower.relay.timers.pass(100), follower.status()))
      .toMatchObject({
        leader: null,
        settings_differ: ['limits'],
      });
    expect(sentenceOf(await follower.command('hosts'))).toContain('this node follows, and no node leads');
    follower.relay.logged.length = 0;
  });
});

function isAside(name: string): boolean {
  return name.startsWith(`${LEVEL_FOLDER}.aside-`);
}

const CHECK_AFTER_MS = 60 * 60_000;
const DIFFERING: CheckedRows = {
  ...SOUND_ROWS,
  findings: [{ code: 'ROW_DIFFERS', message: 'row 01ab is not what the log gives', details: { key: '01ab' } }],
  found: 1,
};

describe('a relay that follows compares the rows of its view with their log', () => {
  test('an hour after its start: what differs is told, begins no epoch, and keeps it from leading', async () => {
    const server = newServer();
    const leader = await leading(server);
    const { epoch } = leader;
    const { runs, start } = heldRowsChecks();
    const follower = await following(server, { startRowsCheck: start });
    const { relay } = follower;
    await caughtUp(leader, follower);
    await passUntil(relay, () => runs.length === 1, CHECK_AFTER_MS);
    relay.logged.length = 0;
    runs[0]!.end(DIFFERING);
    await expect.poll(() => relay.logged.map(({ message }) => message)).toContain('rows are not what the log gives');
    expect(relay.logged).toContainEqual(
      expect.objectContaining({
        level: 'error',
        message:
          'a row of the view is not what the log gives: stop the relay and move its database aside, ' +
          'and it is made anew from the log',
      }),
    );
    const metrics = await (await follower.ask('/metrics')).text();
    expect(metrics).toContain('poste_relay_rows_check_found 1\n');
    expect(metrics).toContain('poste_relay_damaged_rows 1\n');
    expect(leader.epoch).toBe(epoch);
    await leader.stop();
    const why = 'this node does not take the lead: 1 row of its view is not what the log gives';
    await passUntil(relay, () => relay.logged.some(({ message }) => message.startsWith(why)));
    expect(server.row?.term).toBe(1);
    // The next check finds nothing: somebody mended it.
    await passUntil(relay, () => runs.length === 2, DAY_MS);
    runs[1]!.end(SOUND_ROWS);
    await passUntil(relay, () => server.row?.term === 2);
    relay.logged.length = 0;
  });

  test('when a command asks for it', async () => {
    const server = newServer();
    const leader = await leading(server);
    const { runs, start } = heldRowsChecks();
    const follower = await following(server, { startRowsCheck: start });
    await caughtUp(leader, follower);
    const asked = follower.command('log', 'verify', '--online', '--cpu-percent', '50', '--json');
    await expect.poll(() => runs.map(({ share }) => share)).toEqual([0.5]);
    runs[0]!.end(SOUND_ROWS);
    const { code, stdout } = await asked;
    expect([code, JSON.parse(stdout)]).toMatchObject([EXIT.ok, { verified: true, rows: SOUND_ROWS.rows }]);
  });

  test.each([
    ['no number', '{"cpu_percent":"x"}', 400],
    ['nothing', '', 400],
    ['too much', 'x'.repeat(SMALL_BODY_BYTES_MAX + 1), 413],
  ])('but not when it is sent %s', async (_what, body, status) => {
    const server = newServer();
    const { runs, start } = heldRowsChecks();
    await leading(server);
    const { relay } = await following(server, { startRowsCheck: start });
    const connection = await RawConnection.openUndocumented({ path: controlSocketPath(relay.folder) });
    connection.send(requestBytes('POST', '/v1/verify', { host: 'localhost' }, Buffer.from(body)));
    expect((await connection.response('POST'))?.status).toBe(status);
    connection.close();
    expect(runs).toEqual([]);
  });

  test('and leaves the view before it is opened anew', async () => {
    const server = newServer();
    const leader = await leading(server);
    await leader.client(alice).push([itemTo([bob], 'one')]);
    const held = heldRowsChecks();
    const whenLeft: string[][] = [];
    const start = (share: number): HeldRowsCheck => {
      const run = held.start(share);
      const stop = run.stop.bind(run);
      run.stop = async () => {
        whenLeft.push(await readdir(relay.folder));
        await stop();
      };
      return run;
    };
    const follower = await following(server, { startRowsCheck: start });
    const { relay } = follower;
    await caughtUp(leader, follower);
    await passUntil(relay, () => held.runs.length === 1, CHECK_AFTER_MS);
    await leader.stop();
    server.stored.pop();
    await passUntil(relay, () => server.row?.term === 2 && server.row.doubt === undefined);
    expect(whenLeft.map((names) => names.filter(isAside))).toEqual([[]]);
    expect((await readdir(relay.folder)).filter(isAside)).toHaveLength(1);
    relay.logged.length = 0;
  });
});

const NO_NAME = 'the server of the log names no standby';

/** Returns what a relay warned of, and when it was over. */
function copiesLog({ logged }: HttpRelay): string[] {
  return logged.flatMap(({ message }) => (message.includes('second copy') ? [message] : []));
}

describe('a server of which a batch would have no second copy', () => {
  test('a relay that starts waits for it: nothing is begun or accepted, and it then leads by itself', async () => {
    const server = newServer();
    server.copyFault = NO_NAME;
    const [port, adminPort] = [await freePort(), await freePort()];
    const host = '127.0.0.1';
    const relay = await node(server, { listen: { host, port }, adminListen: { host, port: adminPort } });
    const leads = lookedAtLater(relay.start());
    await expect.poll(() => copiesLog(relay)).toHaveLength(1);
    const readyz = async (): Promise<[number, string | undefined]> => {
      const answer = await fetch(`http://${host}:${adminPort}/readyz`);
      return [answer.status, ((await answer.json()) as { detail?: string }).detail];
    };
    const waits = `this node of the relay follows; no node leads; it waits: ${NO_NAME}`;
    expect(await readyz()).toEqual([503, waits]);
    expect((await fetch(`http://${host}:${port}/v2/relay/info`)).status).toBe(503);
    const metrics = await (await fetch(`http://${host}:${adminPort}/metrics`)).text();
    expect(metrics).toContain('poste_relay_log_stalled 1\n');
    expect(metrics).toContain('poste_relay_log_reached 1\n');
    // It asks again every half second, and warns once a minute.
    for (const [ms, warnings] of [
      [59_999, 1],
      [1, 2],
    ] as const) {
      relay.clock.move(ms);
      await relay.timers.begun(500);
      relay.timers.pass(500);
      await relay.timers.begun(500);
      expect(copiesLog(relay)).toHaveLength(warnings);
    }
    expect(relay.logged.filter(({ level }) => level === 'warn').map(({ fields }) => fields)).toEqual([
      { why: NO_NAME },
      { why: NO_NAME },
    ]);
    expect(server.row).toBeUndefined();
    server.copyFault = undefined;
    server.nowMs = () => relay.clock.nowMs();
    relay.timers.pass(500);
    await leads;
    expect(copiesLog(relay).at(-1)).toBe('a batch of the log has a second copy again');
    expect(await readyz()).toEqual([200, undefined]);
    await relay.enrol(alice);
    relay.logged.length = 0;
  });

  test('is not led on by a relay that follows, which goes on following', async () => {
    const server = newServer();
    const leader = await leading(server);
    const { relay, status, ask } = await following(server);
    server.copyFault = NO_NAME;
    await leader.stop();
    await expect
      .poll(async () => {
        relay.timers.pass(100);
        return (await status()).copy_fault;
      })
      .toBe(NO_NAME);
    for (let looks = 0; looks < 5; looks++) {
      await relay.timers.begun(100);
      relay.timers.pass(100);
    }
    expect(server.row?.term).toBe(1);
    expect(await (await ask('/readyz')).json()).toMatchObject({ detail: expect.stringContaining(NO_NAME) as string });
    expect(copiesLog(relay)).toHaveLength(1);
    server.copyFault = undefined;
    await passUntil(relay, () => server.row?.term === 2);
    relay.logged.length = 0;
  });

  test('takes nothing of a relay that leads: not ready, refuses pushes, goes on when a copy is back', async () => {
    const server = newServer();
    const adminListen = { host: '127.0.0.1', port: await freePort() };
    const relay = await leading(server, { adminListen });
    const readyz = async (): Promise<unknown> => {
      const answer = await fetch(`http://127.0.0.1:${adminListen.port}/readyz`);
      return [answer.status, ((await answer.json()) as { detail?: string }).detail];
    };
    expect(await readyz()).toEqual([200, undefined]);
    server.copyFault = NO_NAME;
    relay.timers.pass(LEASE_MS / 6);
    await expect.poll(readyz).toEqual([503, `nothing is accepted: ${NO_NAME}`]);
    const before = server.stored.length;
    await expect(relay.client(alice).push([itemTo([bob], 'one')])).rejects.toThrow('503');
    expect(server.stored).toHaveLength(before);
    const shown = (await new ControlClient(relay.folder).get('/v1/status')).shared_log;
    expect(shown).toMatchObject({ copy_fault: NO_NAME, is_stalled: true });
    server.copyFault = undefined;
    relay.timers.pass(LEASE_MS / 6);
    await expect.poll(readyz).toEqual([200, undefined]);
    expect((await relay.client(alice).push([itemTo([bob], 'one')])).results[0]?.status).toBe('accepted');
    expect(copiesLog(relay)).toHaveLength(2);
    relay.logged.length = 0;
  });

  test('is no server to hosts of a relay that leads whose signs of life do not get through either', async () => {
    const server = newServer();
    const adminListen = { host: '127.0.0.1', port: await freePort() };
    const relay = await leading(server, { adminListen });
    relay.clock.move(LEASE_MS);
    const answer = await fetch(`http://127.0.0.1:${adminListen.port}/readyz`);
    expect([answer.status, await answer.json()]).toMatchObject([
      503,
      { detail: 'the log has confirmed no sign of life of this relay for too long' },
    ]);
  });
});

describe('how far a relay is behind', () => {
  test('is counted in batches, and in how long ago the oldest was seen', async () => {
    const server = newServer();
    const leader = await leading(server);
    const { log, fail } = faulty(server.client());
    const follower = await following(server, onLog(log));
    await caughtUp(leader, follower);
    let letGo: (() => void) | undefined;
    fail.payloads = () => new Promise((resolve) => (letGo = resolve));
    await leader.client(alice).push([itemTo([bob], 'one')]);
    leader.timers.pass(LEASE_MS / 6);
    await passUntil(follower.relay, () => letGo !== undefined);
    expect(await follower.status()).toMatchObject({ behind_batches: 1, is_reached: true });
    follower.relay.clock.move(3_000);
    expect((await follower.status()).behind_ms).toBeGreaterThanOrEqual(3_000);
    const metrics = await (await follower.ask('/metrics')).text();
    expect(metrics).toMatch(/^poste_relay_log_behind_batches 1$/m);
    expect(Number(/^poste_relay_log_behind_seconds (.*)$/m.exec(metrics)?.[1])).toBeGreaterThanOrEqual(3);
    delete fail.payloads;
    letGo?.();
    await caughtUp(leader, follower);
    expect((await follower.status()).behind_ms).toBe(0);
    fail.open = rejecting(new LogUnreachable('held'));
    await expect.poll(async () => (follower.relay.timers.pass(500), (await follower.status()).is_reached)).toBe(false);
    delete fail.open;
    follower.relay.logged.length = 0;
  });
});

const series = async (relay: HttpRelay): Promise<Record<string, number>> => {
  const text = await (await fetch(`http://127.0.0.1:${relay.relay.adminPort ?? 0}/metrics`)).text();
  const lines = [...text.matchAll(/^poste_relay_log_(\S+) (.*)$/gm)];
  return Object.fromEntries(lines.map(([, name = '', value]) => [name, Number(value)]));
};

describe('the metrics of a shared log', () => {
  test('count appends, renewals, fences and doubt of a relay that leads', async () => {
    const server = newServer();
    const { log, fail } = faulty(server.client());
    const leader = await leading(server, { ...onLog(log), adminListen: { host: '127.0.0.1', port: 0 } });
    leader.timers.pass(LEASE_MS / 6);
    const before = await series(leader);
    expect(before).toMatchObject({ leading: 1, term: 1, behind_batches: 0, behind_seconds: 0, doubt: 0, stalled: 0 });
    expect(before['append_duration_seconds_count']).toBe(server.stored.length);
    expect(before['renewals_total{outcome="failed"}']).toBe(0);
    fail.renew = rejecting(new LogUnreachable('held'));
    leader.timers.pass(LEASE_MS / 6);
    await expect.poll(async () => (await series(leader))['renewals_total{outcome="failed"}']).toBe(1);
    fail.renew = rejecting(new Fenced());
    leader.timers.pass(LEASE_MS / 6);
    await expect.poll(async () => (await series(leader))['fences_total']).toBe(1);
    const { shared_log: shown } = await new ControlClient(leader.folder).get('/v1/status');
    expect(shown).toMatchObject({ fences: 1, fenced_at: leader.clock.nowMs() });
    leader.logged.length = 0;
  });

  test('show the doubt of a log until the new epoch is durable', async () => {
    const server = newServer();
    const { log, fail } = faulty(server.client());
    const leader = await leading(server, { ...onLog(log), adminListen: { host: '127.0.0.1', port: 0 } });
    fail.clearDoubt = rejecting(new LogUnreachable('held'));
    await server.client().doubt(server.row?.logId ?? '', 'a batch is missing');
    leader.timers.pass(LEASE_MS / 6);
    await expect.poll(async () => (await series(leader))['doubt']).toBe(1);
    await expect.poll(() => leader.errors.length).toBeGreaterThan(0);
    delete fail.clearDoubt;
    leader.timers.pass(LEASE_MS / 6);
    await expect.poll(async () => (await series(leader))['doubt']).toBe(0);
    leader.logged.length = 0;
  });
});

describe('a backup of a relay that follows', () => {
  test('holds everything up to one batch, and becomes a relay of its own', async () => {
    const server = newServer();
    const leader = await leading(server);
    const follower = await following(server);
    await leader.client(alice).push([itemTo([bob], 'one'), itemTo([bob], 'two')]);
    await caughtUp(leader, follower);
    const folder = await temporaryFolder();
    const file = join(folder, 'follower.backup');
    const ended = await follower.command('backup', file, '--json');
    expect(ended).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect(JSON.parse(ended.stdout)).toMatchObject({
      online: true,
      items: 2,
      damaged_items: 0,
      lsn: server.stored.at(-1)?.lastLsn,
      epoch: leader.epoch,
    });
    const storeDir = join(folder, 'store');
    const restored = await runHere(['relay', 'restore', file, '--yes', '--store-dir', storeDir], { environment: KEY });
    expect(restored).toMatchObject({ code: EXIT.ok });
    expect(await runHere(['relay', 'log', 'verify', '--store-dir', storeDir])).toMatchObject({ code: EXIT.ok });
    const alone = await relayHere(storeDir, [], KEY);
    const { items } = await clientOf(alone, bob).pull();
    expect(items.map(({ item_id }) => item_id)).toEqual(['one', 'two']);
  });

  test('is taken by plan too, and its time is shown', async () => {
    const server = newServer();
    const leader = await leading(server);
    const folder = await temporaryFolder();
    const follower = await following(server, { backups: { folder, keep: 2, everyMs: 3_600_000 } });
    await caughtUp(leader, follower);
    const written = (): boolean => follower.relay.logged.some(({ message }) => message === 'a backup was written');
    await expect.poll(written).toBe(true);
    expect(await readdir(folder)).toHaveLength(1);
    const { last_backup_at: at } = await new ControlClient(follower.relay.folder).get('/v1/status');
    expect(at).toBe(follower.relay.clock.nowMs());
    expect(await (await follower.ask('/metrics')).text()).toContain(
      `poste_relay_last_backup_timestamp_seconds ${follower.relay.clock.nowMs() / 1000}\n`,
    );
  });

  test('lies between two batches while others are applied', async () => {
    const server = newServer();
    const leader = await leading(server);
    const { log, fail } = faulty(server.client());
    const follower = await following(server, onLog(log));
    await caughtUp(leader, follower);
    // A batch is applied from here on; it waits for its wire bytes, and what is read meanwhile must not hold half of
    // it.
    let letGo: (() => void) | undefined;
    fail.payloads = () => new Promise((resolve) => (letGo = resolve));
    const before = server.stored.at(-1)?.lastLsn;
    await leader.client(alice).push([itemTo([bob], 'one')]);
    leader.timers.pass(LEASE_MS / 6);
    await passUntil(follower.relay, () => letGo !== undefined);
    const file = join(await temporaryFolder(), 'backup');
    const { stdout } = await follower.command('backup', file, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ lsn: before, items: 0 });
    delete fail.payloads;
    letGo?.();
    await caughtUp(leader, follower);
  });
});

async function damaged(server: MemoryLogServer): Promise<{ leader: HttpRelay; follower: FollowerRun; seqs: number[] }> {
  const leader = await leading(server);
  await leader.enrol(carol);
  await leader.client(alice).push([itemTo([bob], 'gone'), itemTo([bob], 'altered'), itemTo([bob], 'whole')]);
  const { items } = await leader.client(bob).pull();
  const seqs = items.map(({ seq }) => seq);
  const first = await following(server);
  await caughtUp(leader, first);
  await first.stop();
  await withRawLevel(first.relay.folder, async (level) => {
    await loseWire(level, bob.key, seqs[0] ?? 0);
    await alterWire(level, bob.key, seqs[1] ?? 0, Buffer.from('other bytes'));
  });
  return { leader, follower: first, seqs };
}

const scrubbed = (relay: HttpRelay): boolean => {
  relay.timers.pass(50);
  return relay.logged.some(({ message }) => message.startsWith('everything that waits was compared'));
};

async function followAgain(
  relay: HttpRelay,
  server: MemoryLogServer,
  changes: HttpRelayChanges = {},
): Promise<() => Promise<void>> {
  relay.logged.length = 0;
  const stopped = new AbortController();
  const leads = lookedAtLater(relay.start({ stopFollowing: stopped.signal, ...changes }));
  await expect.poll(() => relay.logged.map(({ message }) => message)).toContain('this node follows');
  expect(server.row?.term).toBe(1);
  relay.timers.pass(SCRUB_AFTER_MS);
  await expect.poll(() => scrubbed(relay), { interval: 2 }).toBe(true);
  return async () => {
    stopped.abort();
    await expect(leads).rejects.toThrow(StoppedFollowing);
  };
}

describe('the scrub of a relay that follows', () => {
  test('takes wire bytes that its disk lost or altered from the log, and calls nothing lost', async () => {
    const server = newServer();
    const { leader, follower, seqs } = await damaged(server);
    const { epoch } = leader;
    const { relay } = follower;
    const stop = await followAgain(relay, server);
    expect(relay.errors.map(({ fields, message }) => [fields, message])).toEqual([
      [{ items: 2, foundBy: 'scrub' }, 'items were missing or altered on the disk, and are whole again from the log'],
    ]);
    await stop();
    await withRawLevel(relay.folder, async (level) => {
      const keys = seqs.map((seq) => payloadKey(bob.key, seq));
      expect(await wiresAt(level, keys)).toEqual(keys.map((key) => server.wire.get(key.subarray(1).toString('hex'))));
    });
    expect(leader.epoch).toBe(epoch);
    const verified = await runHere(['relay', 'log', 'verify', '--store-dir', relay.folder]);
    expect(verified).toMatchObject({ code: EXIT.ok });
  });

  test('says nothing of items it cannot ask the log for; what the log lacks is left to the leader', async () => {
    const server = newServer();
    const { leader, follower, seqs } = await damaged(server);
    const { epoch } = leader;
    const { relay } = follower;
    const { log, fail } = faulty(server.client());
    fail.payloads = rejecting(new LogUnreachable('held'));
    const stop = await followAgain(relay, server, onLog(log));
    expect(relay.errors).toEqual([]);
    await stop();
    for (const seq of seqs) server.wire.delete(payloadKey(bob.key, seq).subarray(1).toString('hex'));
    const stopAgain = await followAgain(relay, server);
    expect(relay.errors).toEqual([]);
    expect(relay.logged.filter(({ level }) => level === 'warn').map(({ fields }) => fields)).toEqual([
      { items: 2, foundBy: 'scrub' },
    ]);
    await stopAgain();
    expect(leader.epoch).toBe(epoch);
    expect(server.row?.doubt).toBeUndefined();
  });
});
