import { expect, test, vi } from 'vitest';
import { isoTime } from '../../../../src/protocol/time.ts';
import type { StatusResult } from '../../../../src/host/contract/daemon.ts';
import type { HostContext } from '../../../../src/host/base/context.ts';
import type { PeerRow } from '../../../../src/host/core/rows.ts';
import { hostStatus } from '../../../../src/host/doctor/health.ts';
import { markUnreached } from '../../../../src/host/outbox/outbox.ts';
import { RelayService } from '../../../../src/host/relay/relay-service.ts';
import { statusText } from '../../../../src/cli/host/host.ts';
import { relayForTest } from '../../../support/http-relay.ts';
import { openLanHost, pairedLanHosts } from '../../../support/lan-hosts.ts';
import { RelayContext, pinEachOther } from '../../../support/relay-contexts.ts';
import { findEvidence, forkRow } from '../../../support/evidence-rows.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { PIPE } from '../../../support/screens.ts';
import { reachOver, UNOPENED } from '../../../support/unasked-parts.ts';
import { found } from '../../../support/found.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const FACTS = {
  version: '1.2.3',
  pid: 7,
  startedAtMs: NOON_MS,
  store: '/s',
  config: '/c',
  socket: '/d',
  linesLost: () => 3,
};
const LISTEN = { host: '127.0.0.1', port: 8789 };

async function statusOf(
  context: HostContext,
  port?: number,
  relay = new RelayService({ context }),
  { page } = UNOPENED,
): Promise<StatusResult> {
  return hostStatus({
    context,
    facts: FACTS,
    lan: { port },
    lanListen: LISTEN,
    web: { page },
    relay,
    reach: reachOver(relay),
  });
}

/** The one host that this one is paired with. */
async function peerOf({ store }: HostContext): Promise<PeerRow> {
  const [peer] = await rowsOf(store, 'peer', []);
  return found(peer, 'it is paired with no host');
}

test('a host alone is not paired, has no relay, and nothing is broken', async () => {
  const { context } = await openLanHost('alice');
  const status = await statusOf(context);
  expect(status).toMatchObject({
    host: 'alice',
    listener: { listen: '127.0.0.1:8789', port: null },
    relay: null,
    peers: [],
    outbox: { waiting: 0, unconfirmed: 0 },
    quarantined: 0,
    problems: [],
  });
  const text = statusText(PIPE, status);
  expect(text).toContain('  listener     off, as no host is paired (127.0.0.1:8789)\n');
  expect(text).toContain('  page         not open: poste inbox --web opens it\n');
  const page = { url: 'http://127.0.0.1:8791/mail/', problem: null };
  const open = statusText(PIPE, await statusOf(context, undefined, undefined, { page }));
  expect(open).toContain('  page         http://127.0.0.1:8791/mail/ (poste inbox --web signs you in)\n');
  const down = { url: null, problem: 'the page cannot be served: another process has 127.0.0.1:8790' };
  expect(statusText(PIPE, { ...status, page: down })).toContain(`  page         down: ${down.problem}\n`);
  expect(text).toContain('  relay        none: where the LAN does not reach, mail waits\n');
  expect(text).toContain('  outbox       empty\n');
  expect(text).toContain('Paired with no host: see poste peer --help.\n');
});

test('a paired host is reached over the LAN, and not any more when it stopped to answer', async () => {
  const [alice, bob] = await pairedLanHosts();
  const before = await statusOf(alice.context, alice.lan.port);
  expect(before.peers).toMatchObject([{ host: bob.context.identity().hostName, reach: 'lan', waiting: 0 }]);
  expect(before.problems).toEqual([]);
  const peer = await peerOf(alice.context);
  await alice.context.store.transact((tx) => {
    for (let failure = 0; failure < 2; failure++) markUnreached(tx, peer.peerId);
  });
  const after = await statusOf(alice.context, alice.lan.port);
  expect(after.peers).toMatchObject([{ reach: 'none' }]);
  expect(statusText(PIPE, after)).toMatch(/\nthere +not reached /);
});

test('without its listener a paired host is told that, with the command to look', async () => {
  const [alice] = await pairedLanHosts();
  const status = await statusOf(alice.context);
  expect(status.problems).toMatchObject([{ id: 'lan-listener', state: 'broken' }]);
  const text = statusText(PIPE, status);
  expect(text).toContain('  listener     down: 127.0.0.1:8789 cannot be listened at\n');
  expect(text).toMatch(/\nBroken: 127\.0\.0\.1:8789 cannot be listened at.*\.\n {4}ss -ltnp/);
});

test('over a relay: reached by it while it works, and the fault in one line when it does not', async () => {
  const relay = await relayForTest('node');
  const alice = await RelayContext.open('alice', relay.clock);
  const bob = await RelayContext.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  for (const host of [alice, bob]) await host.use(relay.url);
  await vi.waitFor(
    async () => {
      await alice.pass();
      const { peers } = await statusOf(alice.context, undefined, alice.side);
      if (peers[0]?.reach !== 'relay') await alice.side?.all[0]?.ask(await peerOf(alice.context));
      expect(peers).toMatchObject([{ host: 'bob', reach: 'relay' }]);
    },
    { timeout: PATIENCE_MS, interval: 10 },
  );
  expect((await statusOf(alice.context, undefined, alice.side)).relay).toMatchObject({
    url: relay.url,
    state: 'ready',
  });
  const { relay_pubkey: relayPubkey } = (await alice.status()).relay!;
  const key = relayPubkey as PublicKey;
  await findEvidence(alice.context, [forkRow(1, { relayPubkey: key })], {}, { key });
  const doubted = await statusOf(alice.context, undefined, alice.side);
  expect(doubted.problems).toMatchObject([
    { id: 'lan-listener' },
    { id: 'relay-evidence', state: 'broken', sentence: 'the relay signed two histories', command: 'poste doctor' },
  ]);
  expect(statusText(PIPE, doubted)).toContain(`  relay        ${relay.url} shows two histories\n`);
});

const WORKS = {
  host: 'alice',
  host_pubkey: '',
  fingerprint: 'SHA256:abc',
  enc_pub: '',
  version: '1.2.3',
  pid: 7,
  started_at: isoTime(NOON_MS),
  store: '/s',
  config: '/c',
  socket: '/d',
  agents: 2,
  owner_unread: 1,
  listener: { listen: '0.0.0.0:8789', port: 8789 },
  page: { url: null, problem: null },
  relay: { url: 'https://relay.example', state: 'failing' as const, problem: 'it does not answer' },
  peers: [
    { host: 'bob', reach: 'relay' as const, address: null, reached_at: null, waiting: 0, oldest_at: null },
    {
      host: 'carol',
      reach: 'none' as const,
      address: null,
      reached_at: isoTime(NOON_MS),
      waiting: 3,
      oldest_at: isoTime(NOON_MS),
    },
  ],
  outbox: { waiting: 3, unconfirmed: 1 },
  quarantined: 1,
  log_lines_lost: 0,
  problems: [
    {
      area: 'relay' as const,
      id: 'relay-reach' as const,
      about: null,
      state: 'broken' as const,
      sentence: 'the relay does not work: \u001b[31mit does not answer',
      command: 'poste doctor',
    },
  ],
};

test('the text has a line for each thing, a table of hosts, and what is broken with its command', () => {
  expect(statusText(PIPE, WORKS)).toBe(`Host alice
  daemon       1.2.3, process 7, started 2025-11-20T21:48:23.000Z
  fingerprint  SHA256:abc
  listener     up at port 8789
  page         not open: poste inbox --web opens it
  relay        https://relay.example does not work
  agents       2, and 1 unread message for you
  outbox       3 messages waiting, 1 taken and not confirmed yet
  quarantine   1 item

HOST   REACHED OVER  LAST SEEN ON THE LAN      WAITING  OLDEST
bob    relay         -                               0  -
carol  not reached   2025-11-20T21:48:23.000Z        3  2025-11-20T21:48:23.000Z

Broken: the relay does not work: \\u{1b}[31mit does not answer.
    poste doctor
`);
});

test('lines that the log lost are said, with what to do', () => {
  const text = statusText(PIPE, { ...WORKS, log_lines_lost: 3 });
  expect(text).toContain('\n  log          3 lines lost: make room where it goes, or let its reader read\n');
});

test('with several relays each is said, and of a host the relay that is not the first, or where it takes mail', () => {
  const [bob, carol] = WORKS.peers;
  if (!bob || !carol) throw new Error('it has two peers');
  const url = 'https://r1.example';
  const first = { number: 1, role: 'home' as const, url, state: 'failing' as const, problem: null, is_down: true };
  const second = { ...first, number: 2, url: 'https://r2.example', state: 'ready' as const, is_down: false };
  const at = { url: 'https://r.example', fingerprint: 'SHA256:abc', is_shared: false };
  const text = statusText(PIPE, {
    ...WORKS,
    relays: [
      { ...first, unheard_seconds: 430 },
      { ...second, unheard_seconds: 0 },
    ],
    peers: [
      { ...bob, takes_mail_at: [at] },
      { ...carol, relay: { number: 2, url: second.url }, waiting: 4 },
      { ...carol, host: 'dave', relay: { number: 1, url } },
    ],
  });
  expect(text).toContain(
    '  relay        1 https://r1.example does not work, not heard for 7 minutes; 2 https://r2.example works\n',
  );
  expect(text).toContain('\ncarol   relay 2 (r2.example; 1 is not heard for 7 minutes)   4 waiting\n');
  expect(text).toContain('\nbob: no common relay; bob takes mail at https://r.example (SHA256:abc)\n');
  expect(text).not.toContain('dave   relay');
});
