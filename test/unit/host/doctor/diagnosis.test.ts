import { createServer } from 'node:http';
import { once } from 'node:events';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Check } from '../../../../src/host/contract/daemon.ts';
import { examineHost, traceWithProofs } from '../../../../src/host/doctor/diagnosis.ts';
import { type HealthParts, hostStatus } from '../../../../src/host/doctor/health.ts';
import type { HostContext } from '../../../../src/host/base/context.ts';
import { isRefusal } from '../../../../src/host/core/refusal.ts';
import { renameHost, rotateOwnKey } from '../../../../src/host/peers/identity.ts';
import { livePeers, unpair } from '../../../../src/host/peers/peers.ts';
import { generateSealKey } from '../../../../src/host/wire/sealing.ts';
import { enterEpoch } from '../../../../src/host/relay/relay-rows.ts';
import { ownRelays } from '../../../../src/host/outbox/homes.ts';
import type { RelayRow } from '../../../../src/host/core/relay-rows.ts';
import { RelayService } from '../../../../src/host/relay/relay-service.ts';
import { RelayClient } from '../../../../src/host/relay/relay-client.ts';
import { canonicalBytes, encKeyAdvertisement, senderList } from '../../../../src/protocol/documents.ts';
import { epochFromRandom } from '../../../../src/protocol/names.ts';
import { signCheckpoint } from '../../../../src/protocol/checkpoint.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { DEFAULT_LIMITS } from '../../../../src/protocol/limits.ts';
import type { AgentId, PeerRow } from '../../../../src/host/core/rows.ts';
import { bob as stranger, relay as relayHost } from '../../../support/hosts.ts';
import { type HttpRelay, relayForTest } from '../../../support/http-relay.ts';
import { type LanHost, openLanHost, pairedLanHosts } from '../../../support/lan-hosts.ts';
import { RelayContext, pinEachOther } from '../../../support/relay-contexts.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { listeningPort } from '../../../support/listening-port.ts';
import { UNOPENED } from '../../../support/unasked-parts.ts';

const WITHIN = { timeout: PATIENCE_MS, interval: 10 };
const FACTS = { version: '1', pid: 7, startedAtMs: 0, store: '/s', config: '/c', socket: '/d', linesLost: () => 0 };
const LISTEN = { host: '127.0.0.1', port: 8789 };

type Relays = Pick<HealthParts['relay'], 'status' | 'answered'>;

function partsOf(context: HostContext, port: number | undefined, relay: Relays): HealthParts {
  const known = {
    status: () => relay.status(),
    answered: (relayPubkey: PublicKey) => relay.answered(relayPubkey),
    look: async () => undefined,
  };
  const reach = { factsFor: () => null };
  return { context, facts: FACTS, lan: { port }, lanListen: LISTEN, web: UNOPENED, relay: known, reach };
}

async function checksOf(
  context: HostContext,
  port: number | undefined,
  relay: Relays = new RelayService({ context }),
  probeMs?: { lan: number; relay: number },
): Promise<Check[]> {
  return (await examineHost(partsOf(context, port, relay), new AbortController().signal, probeMs)).checks;
}

const checksOfRelayContext = (host: RelayContext) => checksOf(host.context, 8789, host);
const checksOfLanHost = ({ context, lan }: LanHost) => checksOf(context, lan.port);

/** The ids of what is not as it should be. */
function wrong(checks: readonly Check[]): string[] {
  return checks.flatMap(({ id, state }) => (state === 'ok' ? [] : [`${id} ${state}`]));
}

/** Two hosts that a relay carries for, and nothing else. */
async function overRelay(): Promise<{ relay: HttpRelay; alice: RelayContext; bob: RelayContext }> {
  const relay = await relayForTest('node');
  const alice = await RelayContext.open('alice', relay.clock);
  const bob = await RelayContext.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  for (const host of [alice, bob]) await host.use(relay.url);
  for (const host of [alice, bob])
    await vi.waitFor(async () => expect((await host.status()).state).toBe('ready'), WITHIN);
  return { relay, alice, bob };
}

function clientOf(host: RelayContext, relay: HttpRelay): RelayClient {
  const { hostName, signer } = host.context.identity();
  return new RelayClient({ url: relay.url, signer, hostName, nowMs: () => relay.clock.nowMs() }, relayHost.key);
}

test('a host that a relay carries for is well, and so is the relay, from its key to its queue', async () => {
  const { alice } = await overRelay();
  const checks = await checksOfRelayContext(alice);
  expect(wrong(checks)).toEqual([]);
  expect(checks.map(({ id }) => id)).toEqual([
    'lan-listener',
    'peer',
    'relay-reach',
    'relay-key',
    'relay-epoch',
    'relay-evidence',
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
});

test('the relay shows what it holds of this host: another key to seal to, another list of senders', async () => {
  const { relay, alice } = await overRelay();
  const { signer } = alice.context.identity();
  const client = clientOf(alice, relay);
  const { enc_pub } = await generateSealKey();
  const at = relay.clock.nowMs() + 60_000;
  const sig = signer.sign(canonicalBytes(encKeyAdvertisement({ host_pubkey: alice.key, enc_pub, at })));
  await client.publishEncKey({ enc_pub, at, sig });
  const list = senderList({ host_pubkey: alice.key, senders: [stranger.key], iat: at });
  await client.publishSenders(list, signer.sign(canonicalBytes(list)));
  expect(wrong(await checksOfRelayContext(alice))).toEqual(['relay-enc-key broken', 'relay-senders broken']);
});

test('an item that waits is counted and left there', async () => {
  const { relay, alice, bob } = await overRelay();
  await alice.stop();
  await bob.addAgent('bert');
  await bob.sendTo(alice, 'bert', ['anna']);
  await vi.waitFor(async () => expect((await bob.outbox())[0]).toMatchObject({ state: 'relay-accepted' }), WITHIN);
  // Its daemon's side without what takes the items.
  const status = bob.status.bind(bob);
  const received = { ...(await status()), received_through: 0 };
  const checks = await checksOf(alice.context, 8789, {
    status: () => Promise.resolve(received),
    answered: () => undefined,
  });
  expect(checks.find(({ id }) => id === 'relay-queue')?.sentence).toMatch(/^1 item waits/);
  expect((await clientOf(alice, relay).pull()).items).toHaveLength(1);
});

test('a relay that is down hides nothing of the rest, and mail that waits for a host is broken', async () => {
  const { relay, alice, bob } = await overRelay();
  await relay.stopAtOnce();
  await alice.addAgent('anna');
  await alice.sendTo(bob, 'anna', ['bert']);
  const checks = await checksOfRelayContext(alice);
  expect(wrong(checks)).toEqual(['peer broken', 'relay-reach broken']);
  expect(checks.map(({ id }) => id)).toEqual(
    expect.arrayContaining(['lan-listener', 'relay-key', 'outbox', 'quarantine', 'wake']),
  );
});

test('a relay that showed another key is told of and asked nothing, until the owner confirms', async () => {
  const { alice } = await overRelay();
  await alice.stop();
  await alice.store.transact((tx) => {
    const row = tx.get('relay')!;
    tx.put('relay', [], { ...row, seenKey: { pubkey: stranger.key, atMs: 1 } });
  });
  alice.start();
  const checks = await checksOfRelayContext(alice);
  expect(wrong(checks)).toEqual(['peer note', 'relay-key broken']);
  expect(checks.filter(({ id }) => id === 'relay-enc-key' || id === 'relay-queue')).toEqual([]);
});

test('a relay that claims the pinned key must sign with it', async () => {
  const alice = await RelayContext.open('alice');
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
  const url = `http://127.0.0.1:${await listeningPort(server)}`;
  await alice.store.transact((tx) => {
    const row = { url, pubkey: relayHost.key, pinnedAtMs: 1, seenKey: null, proof: null, epoch, sendersIatMs: 0 };
    tx.put('relay', [], row);
  });
  const checks = await checksOf(alice.context, undefined, {
    status: () => Promise.resolve(status),
    answered: () => undefined,
  });
  expect(wrong(checks)).toEqual(['relay-key broken', 'relay-enrolment broken']);
});

/** The status of a host without a relay. */
async function statusWithout(host: RelayContext): ReturnType<RelayContext['status']> {
  host.start();
  const status = await host.status();
  await host.stop();
  return status;
}

const peerIn = (checks: readonly Check[]) => checks.find(({ id }) => id === 'peer');

test('a paired host that hangs spends the time of the LAN, and none of the relay', async () => {
  const { alice, bob } = await overRelay();
  const hanging = createTcpServer((socket) => void socket.on('error', () => undefined));
  hanging.listen(0, '127.0.0.1');
  await once(hanging, 'listening');
  onTestFinished(() => void hanging.close());
  const address = `127.0.0.1:${(hanging.address() as AddressInfo).port}`;
  const peerId = await alice.peerIdOf(bob);
  await alice.store.transact((tx) => tx.put('peer', [peerId], { ...tx.get('peer', peerId)!, address }));
  const checks = await checksOf(alice.context, 8789, alice, { lan: 50, relay: 20_000 });
  expect(wrong(checks)).toEqual([]);
  expect(peerIn(checks)?.sentence).toMatch(/did not answer .*; its mail goes over the relay$/);
});

test('a host that let this one go is told by what the relay refuses', async () => {
  const { alice, bob } = await overRelay();
  await alice.addAgent('anna');
  await unpair(bob.context, 'alice');
  await vi.waitFor(async () => expect((await bob.status()).enrolment?.senders).toMatchObject({ count: 0 }), WITHIN);
  const sent = await alice.sendTo(bob, 'anna', ['bert']);
  await vi.waitFor(async () => expect((await alice.rowOf(sent)).lastError).toContain('not accepted'), WITHIN);
  const check = peerIn(await checksOfRelayContext(alice));
  expect(check).toMatchObject({ state: 'broken', command: 'poste peer invite' });
  expect(check?.sentence).toContain('1 message is refused');
});

test('after a new key those who are not known to have it are named, until they show it', async () => {
  const { relay, alice, bob } = await overRelay();
  await bob.addAgent('bert');
  await rotateOwnKey(alice.context);
  await vi.waitFor(async () => expect((await alice.status()).enrolment?.senders).toMatchObject({ count: 1 }), WITHIN);
  const ownKey = async () => (await checksOfRelayContext(alice)).find(({ id }) => id === 'own-key');
  expect(await ownKey()).toMatchObject({
    state: 'note',
    sentence: expect.stringContaining('yet: bob; the relay shows'),
  });
  // A relay from before it kept the records.
  relay.relay.engine.rotation = () => Promise.resolve(undefined);
  expect(await ownKey()).toMatchObject({ state: 'broken', command: 'poste peer address bob <host:port>' });
  Reflect.deleteProperty(relay.relay.engine, 'rotation');
  await alice.addAgent('anna');
  await alice.sendTo(bob, 'anna', ['bert']);
  await vi.waitFor(async () => expect(await ownKey()).toBeUndefined(), WITHIN);
});

const ownKeyAtRelay = async (host: RelayContext): Promise<(Check | undefined)[]> => {
  const { problems } = await hostStatus(partsOf(host.context, 8789, host));
  return [problems, await checksOfRelayContext(host)].map((checks) => checks.find(({ id }) => id === 'relay-own-key'));
};

const enrolled = (host: RelayContext) =>
  vi.waitFor(async () => expect((await host.status()).enrolment).not.toBeNull(), WITHIN);

test('a relay that is away and goes on with a stolen key is broken, in status and in doctor', async () => {
  const { relay, alice } = await overRelay();
  await relay.stopAtOnce();
  await rotateOwnKey(alice.context, { stolen: true });
  const broken = { state: 'broken', sentence: expect.stringContaining('the thief of a former one') };
  expect(await ownKeyAtRelay(alice)).toMatchObject([broken, broken]);
  await rotateOwnKey(alice.context);
  expect(await ownKeyAtRelay(alice)).toMatchObject([broken, broken]);
  const keys = (await alice.store.read((reader) => reader.get('identity')))?.keys;
  expect(keys?.map(({ isStolen }) => isStolen)).toEqual([true, undefined, undefined]);
});

test('a relay that learned of a stolen key and went away is not broken for what this host does since', async () => {
  const { relay, alice } = await overRelay();
  await rotateOwnKey(alice.context, { stolen: true });
  await enrolled(alice);
  await relay.stopAtOnce();
  const [{ pubkey: relayPubkey }] = (await alice.store.read(ownRelays)).map(({ row }) => row) as [RelayRow];
  await renameHost(alice.context, { name: 'Alice' });
  await vi.waitFor(async () => expect((await alice.status()).enrolment).toBeNull(), WITHIN);
  expect(await ownKeyAtRelay(alice)).toEqual([undefined, undefined]);
  await rotateOwnKey(alice.context);
  expect(await ownKeyAtRelay(alice)).toMatchObject([undefined, { state: 'note' }]);
  // In a new epoch nothing shows which keys it knows.
  const epoch = epochFromRandom(Buffer.alloc(16, 7));
  await alice.store.transact((tx) => enterEpoch(tx, alice.context, { relayPubkey, epoch }));
  expect(await ownKeyAtRelay(alice)).toEqual([undefined, undefined]);
});

test('a host of which two copies may run, and signs that this one was set back, are named', async () => {
  const { alice } = await overRelay();
  const { store } = alice.context;
  const ids = async () => (await checksOfRelayContext(alice)).map(({ id }) => id);
  expect(await ids()).not.toContain('peer-copies');
  const [{ peerId }] = (await store.read(livePeers)) as [PeerRow];
  const atMs = alice.context.nowMs();
  const via = (await store.read((reader) => reader.get('relay')))!.pubkey;
  await store.transact((tx) => tx.put('peerHome', [peerId], { twin: { seq: 1, atMs }, later: { seq: 9, atMs, via } }));
  const named = (await checksOfRelayContext(alice)).filter(({ id }) => id === 'peer-copies' || id === 'own-copy');
  expect(named).toMatchObject([
    { id: 'peer-copies', about: 'bob', state: 'note' },
    { id: 'own-copy', about: 'bob', state: 'note', sentence: expect.stringContaining(' over http://127.0.0.1:') },
  ]);
});

test('receipts that are refused are told', async () => {
  const { alice, bob } = await overRelay();
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  await alice.sendTo(bob, 'anna', ['bert']);
  await vi.waitFor(async () => expect(await bob.outbox()).toMatchObject([{ state: 'relay-accepted' }]), WITHIN);
  const [row] = await bob.outbox();
  await bob.store.transact((tx) => tx.put('outbox', [row!.rowId], { ...row!, lastError: 'rejected:bad receipt' }));
  const told = (await checksOfRelayContext(bob)).filter(({ id, state }) => id === 'outbox' && state === 'note');
  expect(told.map(({ sentence }) => sentence)).toEqual([
    '1 delivery receipt is refused (rejected:bad receipt): senders do not learn what arrived',
  ]);
});

test('a paired host is called: it answers, has let this one go, or is not there', async () => {
  const [here, there] = await pairedLanHosts();
  expect(wrong(await checksOfLanHost(here))).toEqual([]);
  await unpair(there.context, 'here');
  // Its listener goes with its last pairing, unless somebody else is paired.
  await there.lan.invite();
  const refused = await checksOfLanHost(here);
  expect(refused.find(({ id }) => id === 'peer')).toMatchObject({ state: 'broken', command: 'poste peer invite' });
  await there.down();
  const away = await checksOfLanHost(here);
  expect(wrong(away)).toEqual(['peer note', 'relay note']);
});

test('another host at the address of a paired one is told by its key', async () => {
  const [here] = await pairedLanHosts();
  const other = await openLanHost('other');
  await other.lan.invite();
  await here.context.store.transact(async (tx) => {
    for await (const { key, row } of tx.range('peer', []))
      tx.put('peer', key, { ...row, address: `127.0.0.1:${other.lan.port}` });
  });
  const peer = (await checksOfLanHost(here)).find(({ id }) => id === 'peer');
  expect(peer?.sentence).toContain('and not its own');
});

test('a way to wake that cannot work is found without waking anybody', async () => {
  const alice = await RelayContext.open('alice');
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
  const checks = await checksOf(alice.context, undefined);
  expect(checks.find(({ id }) => id === 'wake')).toMatchObject({
    state: 'broken',
    about: 'anna',
    sentence: 'its wake command /nowhere/wake cannot be run',
  });
});

test('a trace says which proof the relay denies, and that a pruned record has none any more', async () => {
  const { relay, alice, bob } = await overRelay();
  await alice.addAgent('anna');
  const { ref, id } = await alice.sendTo(bob, 'anna', ['bert']);
  await vi.waitFor(async () => expect((await alice.rowOf({ ref })).acceptance).not.toBeNull(), WITHIN);
  const states: unknown[] = [];
  for (const found of ['unknown', 'pruned'] as const) {
    relay.relay.engine.log.item = () => Promise.resolve(found);
    const trace = await traceWithProofs(alice.context, { message_id: id }, new AbortController().signal);
    if (isRefusal(trace)) throw new Error(trace.message);
    states.push(trace.rows.map(({ proof }) => proof?.state));
  }
  expect(states).toEqual([['denied'], ['none']]);
});
