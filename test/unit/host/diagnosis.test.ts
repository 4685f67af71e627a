import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Check } from '../../../src/host/core/doctor/check.ts';
import { diagnosisOf } from '../../../src/host/diagnosis.ts';
import type { Office } from '../../../src/host/office/office.ts';
import { unpair } from '../../../src/host/office/peers.ts';
import { generateSealKey } from '../../../src/host/office/sealing.ts';
import { RelayClient } from '../../../src/host/transport/relay-client.ts';
import { canonicalBytes } from '../../../src/protocol/canonical-json.ts';
import { encKeyAdvertisement, senderList } from '../../../src/protocol/documents.ts';
import { epochFromRandom } from '../../../src/protocol/epoch.ts';
import { signCheckpoint } from '../../../src/protocol/checkpoint.ts';
import { DEFAULT_LIMITS } from '../../../src/protocol/limits.ts';
import type { AgentId } from '../../../src/host/core/rows.ts';
import { bob as stranger, relay as relayHost } from '../../support/hosts.ts';
import { type HttpRelay, relayForTest } from '../../support/http-relay.ts';
import { type LanHost, openLanHost, pairedLanHosts } from '../../support/lan-hosts.ts';
import { RelayOffice, pinEachOther } from '../../support/relay-offices.ts';

const WITHIN = { timeout: 10_000, interval: 10 };
const FACTS = { version: '1', pid: 7, startedAtMs: 0, store: '/s', config: '/c', socket: '/d' };
const LISTEN = { host: '127.0.0.1', port: 8789 };

type Status = ReturnType<RelayOffice['status']>;

async function checksOf(
  office: Office,
  port: number | undefined,
  relay: { status(): Status } = { status: () => Promise.reject(new Error('no relay is set')) },
): Promise<Check[]> {
  const diagnosis = diagnosisOf({ office, facts: FACTS, lan: { port }, lanListen: LISTEN, relay });
  return (await diagnosis.doctor(new AbortController().signal)).checks;
}

const checksOfRelayOffice = (host: RelayOffice) => checksOf(host.office, 8789, host);
const checksOfLanHost = ({ office, lan }: LanHost) => checksOf(office, lan.port);

/** The ids of what is not as it should be. */
function wrong(checks: readonly Check[]): string[] {
  return checks.flatMap(({ id, state }) => (state === 'ok' ? [] : [`${id} ${state}`]));
}

/** Two hosts that a relay carries for, and nothing else. */
async function overRelay(): Promise<{ relay: HttpRelay; alice: RelayOffice; bob: RelayOffice }> {
  const relay = await relayForTest('node');
  const alice = await RelayOffice.open('alice', relay.clock);
  const bob = await RelayOffice.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  for (const host of [alice, bob]) await host.use(relay.url);
  for (const host of [alice, bob])
    await vi.waitFor(async () => expect((await host.status()).state).toBe('ready'), WITHIN);
  return { relay, alice, bob };
}

function clientOf(host: RelayOffice, relay: HttpRelay): RelayClient {
  const { hostName, signer } = host.office.identity();
  return new RelayClient({ url: relay.url, signer, hostName, nowMs: () => relay.clock.nowMs() }, relayHost.key);
}

test('a host that a relay carries for is well, and so is the relay, from its key to its queue', async () => {
  const { alice } = await overRelay();
  const checks = await checksOfRelayOffice(alice);
  expect(wrong(checks)).toEqual([]);
  expect(checks.map(({ id }) => id)).toEqual([
    'lan-listener',
    'peer',
    'relay-reach',
    'relay-key',
    'relay-epoch',
    'relay-clock',
    'relay-enrolment',
    'relay-enc-key',
    'relay-senders',
    'relay-queue',
    'outbox',
    'quarantine',
  ]);
  expect(checks.find(({ id }) => id === 'relay-key')?.sentence).toContain('its log is signed by it');
  expect(checks.find(({ id }) => id === 'peer')?.sentence).toContain('its mail goes over the relay');
}, 30_000);

test('what the relay holds of this host is read back from it: another key to seal to, another list of senders', async () => {
  const { relay, alice } = await overRelay();
  const { signer } = alice.office.identity();
  const client = clientOf(alice, relay);
  const { enc_pub } = await generateSealKey();
  const at = relay.clock.nowMs() + 60_000;
  const sig = signer.sign(canonicalBytes(encKeyAdvertisement({ host_pubkey: alice.key, enc_pub, at })));
  await client.publishEncKey({ enc_pub, at, sig });
  const list = senderList({ host_pubkey: alice.key, senders: [stranger.key], iat: at });
  await client.publishSenders(list, signer.sign(canonicalBytes(list)));
  expect(wrong(await checksOfRelayOffice(alice))).toEqual(['relay-enc-key broken', 'relay-senders broken']);
}, 30_000);

test('an item that waits is counted and left there', async () => {
  const { relay, alice, bob } = await overRelay();
  await alice.stop();
  await bob.addAgent('bert');
  await bob.sendTo(alice, 'bert', ['anna']);
  await vi.waitFor(async () => expect((await bob.outbox())[0]).toMatchObject({ state: 'relay-accepted' }), WITHIN);
  // Its daemon's side without what takes the items.
  const status = bob.status.bind(bob);
  const received = { ...(await status()), received_through: 0 };
  const checks = await checksOf(alice.office, 8789, { status: () => Promise.resolve(received) });
  expect(checks.find(({ id }) => id === 'relay-queue')?.sentence).toMatch(/^1 item waits/);
  expect((await clientOf(alice, relay).pull()).items).toHaveLength(1);
}, 30_000);

test('a relay that is down hides nothing of the rest, and mail that waits for a host is broken', async () => {
  const { relay, alice, bob } = await overRelay();
  await relay.stopAtOnce();
  await alice.addAgent('anna');
  await alice.sendTo(bob, 'anna', ['bert']);
  const checks = await checksOfRelayOffice(alice);
  expect(wrong(checks)).toEqual(['peer broken', 'relay-reach broken']);
  expect(checks.map(({ id }) => id)).toEqual(
    expect.arrayContaining(['lan-listener', 'relay-key', 'outbox', 'quarantine', 'wake']),
  );
}, 30_000);

test('a relay that showed another key is told of and asked nothing, until the owner confirms', async () => {
  const { alice } = await overRelay();
  await alice.stop();
  await alice.store.transact((tx) => {
    const row = tx.get('relay')!;
    tx.put('relay', [], { ...row, seenKey: { pubkey: stranger.key, atMs: 1 } });
  });
  alice.start();
  const checks = await checksOfRelayOffice(alice);
  expect(wrong(checks)).toEqual(['peer note', 'relay-key broken']);
  expect(checks.filter(({ id }) => id === 'relay-enc-key' || id === 'relay-queue')).toEqual([]);
}, 30_000);

test('whoever says that it has the pinned key is asked for a signature of it', async () => {
  const alice = await RelayOffice.open('alice');
  const status = await statusWithout(alice);
  const epoch = epochFromRandom(Buffer.alloc(16));
  const log = { epoch, index: 0, record_b64: '', proof: [], relay_pubkey: relayHost.key };
  const info = { v: 2, relay_pubkey: relayHost.key, epoch, limits: DEFAULT_LIMITS, version: '1' };
  const checkpoint = signCheckpoint({ epoch, size: 1, rootHash: Buffer.alloc(32) }, stranger.signer);
  const server = createServer((request, response) => {
    const isInfo = request.url === '/v2/relay/info';
    response.setHeader('content-type', 'application/json');
    response.setHeader('x-request-id', '0'.repeat(16));
    response.end(JSON.stringify(isInfo ? { ...info, now: alice.clock.nowMs() } : { ...log, checkpoint }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await alice.store.transact((tx) => {
    const row = { url, pubkey: relayHost.key, pinnedAtMs: 1, seenKey: null, proof: null, epoch, sendersIatMs: 0 };
    tx.put('relay', [], row);
  });
  const checks = await checksOf(alice.office, undefined, { status: () => Promise.resolve(status) });
  expect(wrong(checks)).toEqual(['relay-key broken', 'relay-enrolment broken']);
});

/** Of a host without a relay. */
async function statusWithout(host: RelayOffice): Promise<Awaited<Status>> {
  host.start();
  const status = await host.status();
  await host.stop();
  return status;
}

test('a paired host is called: it answers, has let this one go, or is not there', async () => {
  const [here, there] = await pairedLanHosts();
  expect(wrong(await checksOfLanHost(here))).toEqual([]);
  await unpair(there.office, 'here');
  // Its listener goes with its last pairing, unless somebody else is paired.
  await there.lan.invite();
  const refused = await checksOfLanHost(here);
  expect(refused.find(({ id }) => id === 'peer')).toMatchObject({ state: 'broken', command: 'poste pair invite' });
  await there.down();
  const away = await checksOfLanHost(here);
  expect(wrong(away)).toEqual(['peer note', 'relay note']);
}, 30_000);

test('another host at the address of a paired one is told by its key', async () => {
  const [here] = await pairedLanHosts();
  const other = await openLanHost('other');
  await other.lan.invite();
  await here.office.store.transact(async (tx) => {
    for await (const { key, row } of tx.range('peer', []))
      tx.put('peer', key, { ...row, address: `127.0.0.1:${other.lan.port}` });
  });
  const peer = (await checksOfLanHost(here)).find(({ id }) => id === 'peer');
  expect(peer?.sentence).toContain('and not its own');
}, 30_000);

test('a way to wake that cannot work is found without waking anybody', async () => {
  const alice = await RelayOffice.open('alice');
  const agentId: AgentId = await alice.addAgent('anna');
  await alice.store.transact((tx) =>
    tx.put('session', [agentId, 's1'], {
      agentId,
      sessionId: 's1',
      registeredAtMs: alice.clock.nowMs(),
      seenAtMs: alice.clock.nowMs(),
      endedAtMs: null,
      wake: [{ type: 'hook' }, { type: 'command', argv: ['/nowhere/wake'] }],
      process: null,
      woken: null,
    }),
  );
  const checks = await checksOf(alice.office, undefined);
  expect(checks.find(({ id }) => id === 'wake')).toMatchObject({
    state: 'broken',
    about: 'anna',
    sentence: 'its wake command /nowhere/wake cannot be run',
  });
});
