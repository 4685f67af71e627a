/** The doors of the console over raw HTTP, and what is behind them. */
import { describe, expect, test } from 'vitest';
import { SESSION_IDLE_MS, TOKEN_LIFETIME_MS } from '../../src/http/browser-session/sessions.ts';
import { STREAMS_MAX } from '../../src/http/browser-session/live-streams.ts';
import { QUIET_SHARE } from '../../src/relay/jobs/rows-check.ts';
import { SAMPLE_EVERY_MS } from '../../src/relay/operator/sampler.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import {
  type EnteredSession,
  adminPort,
  ask,
  consoleToken,
  enterConsole,
  ownHost,
} from '../support/console-session.ts';
import { HttpRelay, type HttpRelayChanges, relayForTest } from '../support/http-relay.ts';
import type { ConsoleHosts, ConsoleSamples } from '../../src/protocol/operator-documents.ts';
import { enrolOf } from '../support/commands.ts';
import { SOUND_ROWS, heldRowsChecks } from '../support/held-rows-check.ts';
import { enrolHost } from '../support/enrolments.ts';
import { alice, bob, carol, hostNamed } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { RawConnection, type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const READS = ['/session', '/overview', '/samples', '/live', '/hosts', '/host', '/log', '/trace', '/invites'];
const ACTIONS = ['/leave', '/revoke', '/backup', '/rows-check', '/invites', '/invites/revoke'];

const started = (changes: HttpRelayChanges = {}): Promise<HttpRelay> =>
  relayForTest(FIRST_ADAPTER, { adminListen: { host: '127.0.0.1', port: 0 }, ...changes });

function verdict(response: RawResponse): [number, unknown] {
  return [response.status, jsonOf(response)['code']];
}

describe('Host', () => {
  test('a name of elsewhere gets nothing, neither the page nor a session nor an action', async () => {
    const relay = await started();
    const { cookie, csrf } = await enterConsole(relay);
    const port = adminPort(relay);
    const foreign = [
      'evil.example',
      `evil.example:${port}`,
      '127.0.0.1',
      `127.0.0.1:${port + 1}`,
      `127.0.0.1.nip.io:${port}`,
    ];
    for (const host of foreign) {
      const headers = { host, cookie, 'x-poste-csrf': csrf };
      for (const path of ['', '/', '/page.js', ...READS]) {
        expect(verdict(await ask(relay, 'GET', path, headers))).toEqual([403, 'FOREIGN_HOST']);
      }
      for (const path of ['/session', ...ACTIONS]) {
        const origin = `http://${host}`;
        expect(verdict(await ask(relay, 'POST', path, { ...headers, origin }, {}))).toEqual([403, 'FOREIGN_HOST']);
      }
    }
  });

  test('every loopback name is its own', async () => {
    const relay = await started();
    for (const name of ['127.0.0.1', 'localhost', 'LOCALHOST', '[::1]']) {
      const response = await ask(relay, 'GET', '', { host: `${name}:${adminPort(relay)}` });
      expect([response.status, response.headers.get('location')]).toEqual([308, '/console/']);
    }
  });
});

describe('Origin', () => {
  test('whatever changes something comes from the page: another origin, none or two are refused', async () => {
    const relay = await started();
    const session = await enterConsole(relay);
    for (const origin of [
      'http://evil.example',
      `https://${ownHost(relay)}`,
      'null',
      `http://localhost:${adminPort(relay)}`,
      '',
    ]) {
      for (const path of ['/session', ...ACTIONS]) {
        expect(verdict(await session.post(path, {}, { origin }))).toEqual([403, 'FOREIGN_ORIGIN']);
      }
    }
    const head = `POST /console/leave HTTP/1.1\r\nhost: ${ownHost(relay)}\r\ncookie: ${session.cookie}\r\n`;
    const twice = `origin: http://${ownHost(relay)}\r\norigin: http://evil.example\r\ncontent-length: 0\r\n\r\n`;
    expect(verdict(await rawRequest(adminPort(relay), head + twice, 'POST'))).toEqual([403, 'FOREIGN_ORIGIN']);
    expect((await session.get('/session')).status).toBe(200);
  });

  test('a browser that says that another site asks is believed', async () => {
    const relay = await started();
    const session = await enterConsole(relay);
    for (const site of ['cross-site', 'same-site', 'none']) {
      expect(verdict(await session.get('/overview', { 'sec-fetch-site': site }))).toEqual([403, 'FOREIGN_ORIGIN']);
    }
    expect((await session.get('/overview', { 'sec-fetch-site': 'same-origin' })).status).toBe(200);
    expect(verdict(await session.get('/overview', { origin: 'http://evil.example' }))).toEqual([403, 'FOREIGN_ORIGIN']);
  });
});

describe('the token', () => {
  test('is good once; a replay, a guess and a late one are not', async () => {
    const relay = await started();
    const token = await consoleToken(relay);
    const late = await consoleToken(relay);
    const send = (body: unknown): Promise<RawResponse> => ask(relay, 'POST', '/session', {}, body);
    expect((await send({ token })).status).toBe(200);
    for (const bad of [token, '', 'x'.repeat(43), `${late}x`]) {
      expect(verdict(await send({ token: bad }))).toEqual([403, 'BAD_PAGE_TOKEN']);
    }
    for (const bad of [{}, { token: 1 }, { token: 'x'.repeat(101) }, [], 'text']) {
      expect(verdict(await send(bad))).toEqual([400, 'BAD_REQUEST']);
    }
    relay.clock.move(TOKEN_LIFETIME_MS);
    expect(verdict(await send({ token: late }))).toEqual([403, 'BAD_PAGE_TOKEN']);
  });

  test('two at once: one gets in', async () => {
    const relay = await started();
    const token = await consoleToken(relay);
    const both = await Promise.all([1, 2].map(() => ask(relay, 'POST', '/session', {}, { token })));
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 403]);
  });

  test('becomes a cookie that scripts cannot read and other sites cannot send', async () => {
    const relay = await started();
    const response = await ask(relay, 'POST', '/session', {}, { token: await consoleToken(relay) });
    expect(response.headers.get('set-cookie')).toMatch(
      new RegExp(
        `^poste_console_${adminPort(relay)}=[A-Za-z0-9_-]{43}; Path=/console; HttpOnly; ` +
          'SameSite=Strict; Max-Age=43200$',
      ),
    );
  });
});

describe('the session', () => {
  test('nothing is shown or done without one, with a forged one, or with two', async () => {
    const relay = await started();
    const { cookie, csrf } = await enterConsole(relay);
    const [name = '', value = ''] = cookie.split('=');
    for (const bad of ['', `${name}=`, `${name}=${'x'.repeat(43)}`, `other=${value}`, `${cookie}; ${name}=x`]) {
      for (const path of READS) {
        expect(verdict(await ask(relay, 'GET', path, { cookie: bad, 'x-poste-csrf': csrf }))).toEqual([
          401,
          'NO_SESSION',
        ]);
      }
      for (const path of ACTIONS) {
        const headers = { cookie: bad, 'x-poste-csrf': csrf };
        expect(verdict(await ask(relay, 'POST', path, headers, {}))).toEqual([401, 'NO_SESSION']);
      }
    }
    const among = { cookie: `a=1; ${cookie}; b=2`, 'x-poste-csrf': csrf };
    expect((await ask(relay, 'GET', '/session', among)).status).toBe(200);
  });

  test('nothing is shown or done with the cookie alone, which goes to every port of the machine', async () => {
    const relay = await started();
    await relay.enrol(alice);
    const [session, other] = [await enterConsole(relay), await enterConsole(relay)];
    const body = { host_pubkey: alice.key, confirm: 'alice' };
    for (const token of ['', other.csrf, session.csrf.slice(1), `${session.csrf}x`]) {
      for (const path of ACTIONS) {
        expect(verdict(await session.post(path, body, { 'x-poste-csrf': token }))).toEqual([401, 'NO_SESSION']);
      }
      for (const path of READS) {
        expect(verdict(await session.get(path, { 'x-poste-csrf': token }))).toEqual([401, 'NO_SESSION']);
      }
    }
    expect(relay.relay.engine.directory.get(alice.key)?.revokedAtMs).toBeNull();
  });

  test('is over when it is left, after twelve idle hours, and when the relay starts again', async () => {
    const relay = await started();
    const [left, idle, kept] = [await enterConsole(relay), await enterConsole(relay), await enterConsole(relay)];
    const response = await left.post('/leave', {});
    expect([response.status, response.headers.get('set-cookie')]).toEqual([200, expect.stringContaining('Max-Age=0')]);
    expect(verdict(await left.get('/session'))).toEqual([401, 'NO_SESSION']);
    relay.clock.move(SESSION_IDLE_MS - 60_000);
    expect((await kept.get('/session')).status).toBe(200);
    relay.clock.move(60_000);
    expect(verdict(await idle.get('/session'))).toEqual([401, 'NO_SESSION']);
    expect((await kept.get('/session')).status).toBe(200);
    await relay.restart();
    expect(verdict(await kept.get('/session'))).toEqual([401, 'NO_SESSION']);
  });
});

describe('every answer', () => {
  test('has the headers that keep the page to itself', async () => {
    const relay = await started();
    const session = await enterConsole(relay);
    const answers = [
      await ask(relay, 'GET', ''),
      await ask(relay, 'GET', '/', { host: 'evil.example' }),
      await ask(relay, 'GET', '/overview'),
      await session.get('/overview'),
      await session.post('/revoke', {}),
    ];
    for (const { headers } of answers) {
      expect(Object.fromEntries(headers)).toMatchObject({
        'cache-control': 'no-store',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
      });
      const policy = headers.get('content-security-policy') ?? '';
      expect(policy).toMatch(
        /^default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';/,
      );
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toMatch(/unsafe|\*|https?:/);
    }
  });

  test('to anything else is 404 or 405, and the public port knows nothing of it', async () => {
    const relay = await started();
    const { cookie, csrf } = await enterConsole(relay);
    for (const path of ['/x', '/session/', '/../livez', '/page.js.map', '/page.html']) {
      expect((await ask(relay, 'GET', path, { cookie, 'x-poste-csrf': csrf })).status).toBe(404);
    }
    for (const path of ['/', '/overview', '/log'])
      expect((await ask(relay, 'POST', path, { cookie, 'x-poste-csrf': csrf }, {})).status).toBe(405);
    expect((await fetch(`${relay.url}/console/`)).status).toBe(404);
  });
});

describe('what it shows', () => {
  test('hosts, one host, the log and a trace; a query that the page would not make is refused', async () => {
    const { session, relay } = await filled();
    const acceptedAtMs = relay.clock.nowMs();
    relay.clock.move(5000);
    expect(jsonOf(await session.get('/hosts?search=BO'))).toMatchObject({
      matches: 1,
      total: 3,
      hosts: [{ host: 'bob', queue_items: 2 }],
    });
    const host = jsonOf(await session.get(`/host?key=${encodeURIComponent(bob.key)}`));
    expect(host).toMatchObject({
      host: { host: 'bob' },
      allowed_senders: null,
      last_pull: null,
      oldest_waiting_at: acceptedAtMs,
    });
    expect(jsonOf(await session.get(`/host?key=${encodeURIComponent(alice.key)}`))).toMatchObject({
      oldest_waiting_at: null,
    });
    const log = jsonOf(await session.get('/log?type=ItemAccepted')) as { events: { lsn: number; item_id: string }[] };
    expect(log).toMatchObject({ searched_down_to: 1, searched_down_at: acceptedAtMs });
    expect(log.events.map(({ item_id }) => item_id)).toEqual(['two', 'one']);
    expect(jsonOf(await session.get(`/trace?lsn=${log.events[0]?.lsn}`))).toMatchObject({
      item_id: 'two',
      targets: [{}, {}],
    });
    expect(verdict(await session.get('/trace?lsn=1'))).toEqual([404, 'UNKNOWN_RECORD']);
    expect(verdict(await session.get(`/host?key=${encodeURIComponent('A'.repeat(43))}=`))).toEqual([
      404,
      'UNKNOWN_HOST_KEY',
    ]);
    const bad = [
      '/log?before=-1',
      '/log?before=1&before=2',
      '/log?host=bob',
      '/host',
      '/host?key=garbage',
      `/host?key=${encodeURIComponent(bob.key)}&key=${encodeURIComponent(bob.key)}`,
      '/log?type=%3C',
      `/log?item=${'x'.repeat(321)}`,
      '/trace',
      '/trace?lsn=x',
      `/hosts?search=${'x'.repeat(101)}`,
      '/hosts?state=%00',
      '/samples?since=x',
      '/samples?since=1&since=2',
      '/hosts?sort=age',
      '/hosts?reverse=1',
      '/hosts?offset=1000001',
      '/hosts?offset=-1',
    ];
    for (const path of bad) expect(verdict(await session.get(path))).toEqual([400, 'BAD_REQUEST']);
  });

  test('hosts in every order, a page at a time, each of them once', async () => {
    const relay = await started({ limits: { max_queue_items: 4, max_queue_bytes: 1_000_000 } });
    await relay.enrol(alice, bob, carol);
    const others = Array.from({ length: 120 }, (_none, at) => hostNamed(`host-${String(at).padStart(3, '0')}`));
    const nowMs = relay.clock.nowMs() - 5000;
    await Promise.all(
      others.map((host, at) => relay.relay.engine.admissions.enrol(enrolOf(host, { nowMs: nowMs + at }))),
    );
    await relay
      .client(alice)
      .push([itemTo([bob], 'one'), itemTo([bob], 'two'), itemTo([carol], 'big', envelopeWire('big', 90_000))]);
    relay.clock.move(1000);
    await relay.client(carol).pull();
    relay.clock.move(1000);
    await relay.client(bob).pull();
    const session = await enterConsole(relay);
    const listed = async (query: string): Promise<ConsoleHosts> =>
      jsonOf(await session.get(`/hosts?${query}`)) as unknown as ConsoleHosts;
    const names = async (query: string, count = 3): Promise<string[]> =>
      (await listed(query)).hosts.slice(0, count).map(({ host }) => host);
    expect(await names('', 2)).toEqual(['carol', 'bob']);
    expect(await names('sort=bytes', 2)).toEqual(['carol', 'bob']);
    expect(await names('sort=items', 2)).toEqual(['bob', 'carol']);
    expect(await names('sort=full', 2)).toEqual(['bob', 'carol']);
    expect(await names('sort=name')).toEqual(['alice', 'bob', 'carol']);
    expect(await names('sort=name&reverse=yes')).toEqual(['host-119', 'host-118', 'host-117']);
    expect(await names('sort=seen&reverse=yes', 2)).toEqual(['bob', 'carol']);
    expect(await names('sort=seen', 1)).toEqual(['alice']);
    expect(await names('sort=enrolled&search=host-')).toEqual(['host-119', 'host-118', 'host-117']);
    expect((await listed('sort=items')).hosts[0]).toMatchObject({ fullness: 0.5, last_seen: relay.clock.nowMs() });
    const pages = await Promise.all([0, 50, 100, 123].map((offset) => listed(`sort=name&offset=${offset}`)));
    expect(pages.map(({ hosts, offset, matches, total }) => [hosts.length, offset, matches, total])).toEqual([
      [50, 0, 123, 123],
      [50, 50, 123, 123],
      [23, 100, 123, 123],
      [0, 123, 123, 123],
    ]);
    expect(new Set(pages.flatMap(({ hosts }) => hosts.map(({ host_pubkey }) => host_pubkey))).size).toBe(123);
  });

  test('measurements of a time, as fine as they are kept', async () => {
    const { relay, session } = await filled();
    expect(jsonOf(await session.get('/samples'))).toEqual({ samples: [], first_at: null });
    const startMs = relay.clock.nowMs();
    for (let at = 0; at < 30; at++) {
      relay.clock.move(SAMPLE_EVERY_MS);
      relay.timers.pass(SAMPLE_EVERY_MS);
    }
    const since = startMs + 20 * SAMPLE_EVERY_MS;
    const found = jsonOf(
      await session.get(`/samples?since=${since}&until=${since + 10_000}`),
    ) as unknown as ConsoleSamples;
    expect(found.samples.map(({ at }) => at - since)).toEqual([0, 2000, 4000, 6000, 8000, 10_000]);
    expect(found.samples[0]).toMatchObject({ queue_items: 3, hosts: 3 });
  });

  test('an invite is made, listed without its token, and revoked: then it admits nobody', async () => {
    const relay = await started({ admission: 'invite' });
    const session = await enterConsole(relay);
    const made = jsonOf(await session.post('/invites', { label: 'laptop of Ada', lifetime_ms: 3_600_000 }));
    const other = jsonOf(await session.post('/invites', { label: '', lifetime_ms: 60_000 }));
    expect(made['token']).toMatch(/^poste-invite-[A-Za-z0-9_-]{43}$/);
    const { token: _token, ...shown } = made;
    expect(jsonOf(await session.get('/invites'))).toMatchObject({ total: 2, admission: 'invite' });
    expect((jsonOf(await session.get('/invites'))['invites'] as object[]).some((one) => 'token' in one)).toBe(false);
    expect(jsonOf(await session.get('/invites'))['invites']).toContainEqual(shown);
    expect(jsonOf(await session.post('/invites/revoke', { id: made['id'] }))).toEqual({ is_new: true });
    expect(jsonOf(await session.post('/invites/revoke', { id: made['id'] }))).toEqual({ is_new: false });
    expect(await enrolHost(relay, alice, { sent: { proof: made['token'] } })).toBeProblem('ENROL_REFUSED');
    expect((await enrolHost(relay, bob, { sent: { proof: other['token'] } })).status).toBe(200);
    // It was used.
    expect(jsonOf(await session.post('/invites/revoke', { id: other['id'] }))).toEqual({ is_new: false });
    expect(jsonOf(await session.get('/invites'))).toMatchObject({ total: 0, invites: [] });
    for (const body of [
      {},
      { label: 'x', lifetime_ms: 1 },
      { label: 'x'.repeat(101), lifetime_ms: 60_000 },
      { label: '\u0000', lifetime_ms: 60_000 },
    ])
      expect(verdict(await session.post('/invites', body))).toEqual([400, 'BAD_REQUEST']);
    for (const body of [{}, { id: 'x' }, { id: 'A'.repeat(64) }])
      expect(verdict(await session.post('/invites/revoke', body))).toEqual([400, 'BAD_REQUEST']);
    const log = jsonOf(await session.get('/log')) as { events: { type: string }[] };
    expect(log.events.map(({ type }) => type).filter((type) => /Invite|Admissions/.test(type))).toEqual([
      'InviteSpent',
      'AdmissionsLapsed',
      'InviteIssued',
      'InviteIssued',
    ]);
    expect(JSON.stringify(relay.logged)).not.toContain(String(made['token']));
  });

  test('a revoked invite stays revoked when the relay starts again', async () => {
    const relay = await started({ admission: 'invite' });
    const session = await enterConsole(relay);
    const made = jsonOf(await session.post('/invites', { label: '', lifetime_ms: 3_600_000 }));
    await session.post('/invites/revoke', { id: made['id'] });
    await relay.restart();
    expect(await enrolHost(relay, alice, { sent: { proof: made['token'] } })).toBeProblem('ENROL_REFUSED');
  });

  test('a check of the rows begins, is followed in the overview, and is not begun twice', async () => {
    const { runs, start } = heldRowsChecks();
    const relay = await started({ startRowsCheck: start });
    const session = await enterConsole(relay);
    const shown = async (): Promise<unknown> => jsonOf(await session.get('/overview'))['rows_check'];
    expect(await shown()).toEqual({ last: null, failed_at: null, under_way: null });
    const begun = await session.post('/rows-check', {});
    const underWay = { last: null, failed_at: null, under_way: { stage: 'log', done: 1, of: 9 } };
    expect([begun.status, jsonOf(begun)]).toEqual([200, underWay]);
    expect(runs.map(({ share }) => share)).toEqual([QUIET_SHARE]);
    expect(await shown()).toEqual(underWay);
    expect(verdict(await session.post('/rows-check', {}))).toEqual([409, 'ROWS_CHECK_UNDER_WAY']);
    const findings = [{ code: 'ROW_DIFFERS' as const, message: 'the enrolment row of a host differs', details: {} }];
    runs[0]!.end({ ...SOUND_ROWS, findings, found: 3 });
    const last = { at: relay.clock.nowMs(), rows: 4, found: 3, findings: ['the enrolment row of a host differs'] };
    await expect.poll(shown).toEqual({ last, failed_at: null, under_way: null });
    expect(jsonOf(await session.get('/overview'))['faults']).toMatchObject([{ alert: 'PosteRelayRowsDiffer' }]);
    await session.post('/rows-check', {});
    runs[1]!.fail(new Error('the disk is gone'));
    await expect.poll(shown).toEqual({ last, failed_at: relay.clock.nowMs(), under_way: null });
  });

  test('a relay that cannot check its rows says so', async () => {
    const session = await enterConsole(await started());
    expect(jsonOf(await session.get('/overview'))['rows_check']).toBeNull();
    expect(verdict(await session.post('/rows-check', {}))).toEqual([503, 'UNAVAILABLE']);
  });

  test('a revocation needs the name of the host, and is in the log', async () => {
    const { relay, session } = await filled();
    const revoke = (body: unknown): Promise<RawResponse> => session.post('/revoke', body);
    expect(verdict(await revoke({ host_pubkey: bob.key, confirm: 'BOB' }))).toEqual([409, 'NOT_CONFIRMED']);
    expect(verdict(await revoke({ host_pubkey: bob.key }))).toEqual([400, 'BAD_REQUEST']);
    expect(verdict(await revoke({ host_pubkey: 'x', confirm: 'bob' }))).toEqual([400, 'BAD_REQUEST']);
    expect(relay.relay.engine.directory.get(bob.key)?.revokedAtMs).toBeNull();
    expect(jsonOf(await revoke({ host_pubkey: bob.key, confirm: 'bob' }))).toMatchObject({
      is_new: true,
      host: { state: 'revoked' },
    });
    expect(jsonOf(await revoke({ host_pubkey: bob.key, confirm: 'bob' }))).toMatchObject({ is_new: false });
    await expect(relay.client(bob).pull()).rejects.toMatchObject({ code: 'NOT_ENROLLED' });
    expect(jsonOf(await session.get('/log?type=HostRevoked'))).toMatchObject({ events: [{ type: 'HostRevoked' }] });
  });

  test('the epochs of the log, those before the start too', async () => {
    const { relay } = await filled();
    await relay.relay.engine.rotateEpoch({
      type: 'RotateEpoch',
      epoch: 'A-NEW-EPOCH' as never,
      reason: 'reset',
      nowMs: 7,
    });
    await relay.restart();
    await relay.relay.engine.rotateEpoch({
      type: 'RotateEpoch',
      epoch: 'A-NEWER-EPOCH' as never,
      reason: 'reset',
      nowMs: 8,
    });
    const session = await enterConsole(relay);
    const overview = async (): Promise<Record<string, unknown>> => jsonOf(await session.get('/overview'));
    await expect.poll(async () => (await overview())['epochs_read']).toBe('whole');
    const epochs = (await overview())['epochs'] as { reason: string; epoch: string }[];
    expect(epochs.map(({ epoch }) => epoch).slice(0, 2)).toEqual(['A-NEWER-EPOCH', 'A-NEW-EPOCH']);
    expect(epochs.at(-1)?.reason).toBe('initialised');
    expect(epochs).toHaveLength(3);
  });
});

describe('the stream', () => {
  test('sends a sample every two seconds, until the session ends', async () => {
    const relay = await started();
    const session = await enterConsole(relay);
    const stream = await open(relay, session);
    for (let times = 0; times < 2; times++) relay.timers.pass(2000);
    await session.post('/leave', {});
    relay.timers.pass(2000);
    const response = await stream.response();
    expect([response?.status, response?.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    const samples = (response?.body.toString() ?? '')
      .split('\n\n')
      .filter((text) => text.startsWith('event: sample\n'));
    expect(samples).toHaveLength(2);
    expect(JSON.parse(samples[0]?.replace(/^event: sample\ndata: /, '') ?? '')).toMatchObject({
      queue_items: 0,
      epoch: relay.epoch,
    });
    stream.close();
  });

  test('there are few at a time, and one that its peer leaves makes room', async () => {
    const relay = await started();
    const session = await enterConsole(relay);
    const streams = await Promise.all(Array.from({ length: STREAMS_MAX }, () => open(relay, session)));
    expect(verdict(await session.get('/live'))).toEqual([503, 'TOO_MANY_STREAMS']);
    streams[0]?.close();
    const isOpen = async (): Promise<boolean> => {
      const connection = await open(relay, session);
      const isStream = !(await session.get('/session')).headers.has('retry-after') && connection.receivedBytes > 600;
      connection.close();
      return isStream;
    };
    await expect.poll(isOpen).toBe(true);
    for (const stream of streams) stream.close();
  });

  test('ends when the relay stops, which waits for nobody who looks', async () => {
    const relay = await started();
    const stream = await open(relay, await enterConsole(relay));
    await relay.stop();
    const response = await stream.response();
    expect(response?.status).toBe(200);
    stream.close();
  });

  test('has no samples when the listener cannot be had: the start that failed leaves no timer behind', async () => {
    const relay = await started();
    const adminListen = { host: '127.0.0.1', port: adminPort(relay) };
    const other = new HttpRelay(await temporaryFolder(), 'node', { adminListen });
    await expect(other.start()).rejects.toThrow('cannot be listened on');
    expect(other.timers.underWay(SAMPLE_EVERY_MS)).toBe(0);
  });

  test('of a peer that takes nothing is cut', async () => {
    const relay = await started();
    const session = await enterConsole(relay);
    const stream = await open(relay, session);
    stream.pause();
    await expect
      .poll(
        () => {
          relay.timers.pass(2000 * 500);
          return relay.logged.filter(({ fields }) => (fields as { route?: string }).route === '/console/live').length;
        },
        { interval: 1 },
      )
      .toBe(1);
    stream.close();
  });
});

/** Mail that waits, and somebody who looks. */
async function filled(): Promise<{ relay: HttpRelay; session: EnteredSession }> {
  const relay = await started();
  await relay.enrol(alice, bob, carol);
  await relay.client(alice).push([itemTo([bob], 'one'), itemTo([bob, carol], 'two')]);
  return { relay, session: await enterConsole(relay) };
}

/** A stream that has begun. */
async function open(relay: HttpRelay, { cookie, csrf }: EnteredSession): Promise<RawConnection> {
  const connection = await RawConnection.open(adminPort(relay));
  connection.send(requestBytes('GET', '/console/live', { host: ownHost(relay), cookie, 'x-poste-csrf': csrf }));
  await expect.poll(() => connection.receivedBytes, { interval: 2 }).toBeGreaterThan(0);
  return connection;
}
