/**
 * Tests what keeps a host known at its relay, whatever fails meanwhile; and how links that are slow or broken are
 * spared.
 */
import { join } from 'node:path';
import { rename, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { AgentId } from '../../../src/host/core/rows.ts';
import { rotateOwnKey, signedEncKey } from '../../../src/host/peers/identity.ts';
import { learnRotation } from '../../../src/host/peers/peers.ts';
import {
  discardQuarantined,
  listQuarantine,
  retryQuarantine,
  retryUnknownKeys,
} from '../../../src/host/inbound/quarantine.ts';
import { issueReceipt } from '../../../src/host/outbox/receipts.ts';
import { canonicalBytes } from '../../../src/protocol/canonical-json.ts';
import { sha256Hex } from '../../../src/protocol/encodings.ts';
import { encKeyAdvertisement } from '../../../src/protocol/documents.ts';
import { isoTime, timeMsOf } from '../../../src/protocol/time.ts';
import { FIRST_ADAPTER } from '../../support/adapters.ts';
import { hostedRelayForTest } from '../../support/hosted-relay.ts';
import { hostNamed, relay as relayHost } from '../../support/hosts.ts';
import { accountToken, cloudKeyOf } from '../../support/local-issuer.ts';
import { RelayContext } from '../../support/relay-contexts.ts';
import {
  type RelayWorld,
  WORLD_TEST_MS,
  bothUse,
  inState,
  ready,
  relayWorld,
  showsNoRotations,
  until,
} from '../../support/relay-world.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { IS_THOROUGH } from '../../support/thorough.ts';

const RETRY_MS = 900_000;

/** Tells alice of bob's newest key, as his host would over the LAN. */
async function aliceLearns({ alice, bob }: RelayWorld): Promise<void> {
  const rotation = (await bob.store.read((reader) => reader.get('identity')))?.rotations.at(-1);
  if (!rotation) throw new Error('bob has rotated');
  expect(await alice.store.transact((tx) => learnRotation(tx, alice.context, rotation))).toBe('learned');
  await retryUnknownKeys(alice.context);
}

/** The requests that make a key of a host known, in their order, and the first page with its ack. */
const STEPS = [
  'GET /v2/relay/info',
  'POST /v2/relay/rotate',
  'POST /v1/relay/challenge',
  'POST /v1/relay/enrol',
  'POST /v1/relay/enc-key',
  'GET /v2/relay/enc-key',
  'POST /v2/relay/senders',
  'GET /v2/relay/items',
  'POST /v2/relay/ack',
];

/** `npm test` loses either the request or the answer of a step, the other one in some other run. */
const BEGUN = Math.floor(Math.random() * 2);
const stepsFor = (lost: 'request' | 'answer'): string[] =>
  STEPS.filter((_, at) => IS_THOROUGH || at % 2 === (lost === 'request' ? BEGUN : 1 - BEGUN));

test.each(['request', 'answer'] as const)(
  'rotation: whichever %s to the relay is the last before a crash, the next start finishes; no mail is lost or doubled',
  async (lost) => {
    const w = await relayWorld();
    const { proxy, alice, bob } = w;
    showsNoRotations(w);
    await bothUse(w);
    const refs: string[] = [];
    for (const step of stepsFor(lost)) {
      await bob.stop();
      const sent = await alice.sendTo(bob, 'anna', ['bert']);
      refs.push(sent.ref);
      await inState(alice, sent, 'relay-accepted');
      await rotateOwnKey(bob.context);
      let isCut = false;
      proxy.cut = (asked) => {
        isCut ||= asked === step;
        return isCut ? lost : undefined;
      };
      await bob.restart();
      await until(() => expect(isCut).toBe(true));
      await bob.stop();
      proxy.cut = () => undefined;
      await bob.restart();
      await ready(bob);
      await until(async () => expect((await bob.mailOf('bert')).map(({ ref }) => ref)).toEqual(refs));
      const { client } = { client: w.relay.client({ name: 'bob' as never, ...signerOf(bob) }) };
      expect((await client.encKeyOf(bob.key))?.enc_pub).toBe(bob.context.identity().sealKey.encPub);
      expect(await bob.status()).toMatchObject({ enrolment: { enc_key: {}, senders: { count: 1 } } });
      const scopes = await bob.store.read(async (reader) => {
        const found: string[][] = [];
        for await (const { key } of reader.range('relayPosition', [])) found.push(key);
        return found;
      });
      expect(scopes).toContainEqual([relayHost.key, w.relay.epoch, bob.key]);
      await aliceLearns(w);
      await inState(alice, sent, 'done');
    }
    expect((await listQuarantine(bob.context, {})).items).toEqual([]);
  },
  2 * WORLD_TEST_MS,
);

function signerOf({ context, key }: RelayContext): { key: RelayContext['key']; signer: never } {
  return { key, signer: context.identity().signer as never };
}

test(
  'rotation: what a new key signed is in quarantine until it is known, and is run again then',
  async () => {
    const w = await relayWorld();
    const { alice, bob } = w;
    showsNoRotations(w);
    await bothUse(w);
    await rotateOwnKey(bob.context);
    await ready(bob);
    const sent = await bob.sendTo(alice, 'bert', ['anna']);
    await until(async () =>
      expect((await listQuarantine(alice.context, {})).items).toMatchObject([{ reason: 'unknown-sender' }]),
    );
    expect(await alice.mailOf('anna')).toEqual([]);
    await aliceLearns(w);
    expect((await alice.mailOf('anna')).map(({ ref }) => ref)).toEqual([sent.ref]);
    expect((await listQuarantine(alice.context, {})).items).toEqual([]);
    await inState(bob, sent, 'done');
  },
  WORLD_TEST_MS,
);

test(
  'enc key: an advertisement of a later time at the relay is outdone, and a paired host learns the newest one',
  async () => {
    const w = await relayWorld();
    const { alice, bob, relay } = w;
    await bothUse(w);
    await bob.stop();
    // A copy of the host published a key that this one, set back to an earlier day, knows nothing of.
    const later = relay.clock.nowMs() + 60_000;
    const other = Buffer.alloc(32, 9).toString('base64');
    const document = encKeyAdvertisement({ host_pubkey: bob.key, enc_pub: other, at: later });
    const { signer } = bob.context.identity();
    const client = relay.client({ name: 'bob' as never, ...signerOf(bob) });
    await client.publishEncKey({ enc_pub: other, at: later, sig: signer.sign(canonicalBytes(document)) });
    await bob.store.transact(async (tx) => {
      for await (const { key, row } of tx.range('relayEnrolment', [])) {
        tx.put('relayEnrolment', key, { ...row, encKey: null });
      }
    });
    await bob.restart();
    await ready(bob);
    const shown = await client.encKeyOf(bob.key);
    expect(shown).toMatchObject({ enc_pub: signedEncKey(bob.context.identity()).encPub, at: later + 1 });
    expect((await bob.status()).enrolment?.enc_key?.at).toBe(isoTime(later + 1));
    const sent = await alice.sendTo(bob, 'anna', ['bert']);
    await inState(alice, sent, 'done');
    const peerId = await alice.peerIdOf(bob);
    expect((await alice.store.read((reader) => reader.get('peer', peerId)))?.encKey.at).toBe(later + 1);
  },
  WORLD_TEST_MS,
);

test(
  'enc key: one that was made while the clock was ahead is published under the time of now',
  async () => {
    const { proxy, relay } = await relayWorld();
    let aheadMs = 86_400_000;
    const carol = await RelayContext.open('carol', { nowMs: () => relay.clock.nowMs() + aheadMs });
    aheadMs = 0;
    await carol.use(proxy.url);
    await ready(carol);
    expect((await carol.status()).enrolment?.enc_key).toMatchObject({ at: isoTime(relay.clock.nowMs()) });
  },
  WORLD_TEST_MS,
);

test(
  'hosted enrolment: a token from a command; when it runs out and there is no other, mail waits for one',
  async () => {
    const { relay, issuer } = await hostedRelayForTest(FIRST_ADAPTER);
    const alice = await RelayContext.open('alice', relay.clock);
    const file = join(await temporaryFolder(), 'token.json');
    const write = async (): Promise<void> => {
      const host = { ...hostNamed('alice'), ...signerOf(alice) };
      const token = await accountToken(issuer.url, host, { nowMs: relay.clock.nowMs() });
      // The command may run at any moment: it finds all of the file or none.
      await writeFile(`${file}.new`, JSON.stringify({ token, cloud_key: await cloudKeyOf(host) }));
      await rename(`${file}.new`, file);
    };
    await write();
    await alice.use(relay.url, { token_command: `cat '${file}' && mv '${file}' '${file}.used'` });
    await ready(alice);
    expect(await alice.status()).toMatchObject({ relay: { token_from: 'command' }, enrolment: { account: 'acme' } });
    relay.clock.move(901_000);
    // The hop is refused, and the command has nothing more to print.
    await until(async () => {
      relay.timers.pass(31_000);
      expect(await alice.status()).toMatchObject({ state: 'failing', problem: { code: 'NO_TOKEN' } });
    });
    await write();
    await ready(alice);
    expect(timeMsOf((await alice.status()).enrolment?.valid_until ?? '')).toBeGreaterThan(relay.clock.nowMs());
  },
  WORLD_TEST_MS,
);

test(
  'relay set: an invite from a command lets the host in, and nobody who brings none',
  async () => {
    const w = await relayWorld({ admission: 'invite' });
    const token = 'poste-invite-an-open-one';
    const nowMs = w.relay.clock.nowMs();
    const invite = { inviteHash: sha256Hex(token), label: '', nowMs, expiresAtMs: nowMs + 3_600_000 };
    await w.relay.relay.engine.admissions.issueInvite({ type: 'IssueInvite', ...invite });
    await w.bob.use(w.proxy.url);
    await until(async () => expect((await w.bob.status()).problem).toMatchObject({ code: 'ENROL_REFUSED' }));
    await w.alice.use(w.proxy.url, { token_command: `echo ${token}` });
    await ready(w.alice);
    expect(w.alice.said.map(({ message }) => message).join()).not.toContain(token);
  },
  WORLD_TEST_MS,
);

test(
  'batching: after pushes that failed fewer items go at once, and after pages that failed smaller ones are asked for',
  async () => {
    const w = await relayWorld();
    const { alice, bob, proxy, relay } = w;
    await bothUse(w);
    await bob.stop();
    let failures = 0;
    proxy.cut = (asked) => (asked === 'POST /v2/relay/items' && ++failures <= 7 ? 'request' : undefined);
    const sent = await Promise.all(Array.from({ length: 4 }, () => alice.sendTo(bob, 'anna', ['bert'])));
    // The clock is moved while nothing is under way: signed requests are good for minutes.
    const whenDue = async (): Promise<void> => {
      const nowMs = relay.clock.nowMs();
      const isWaiting = (await alice.outbox()).every(({ nextAtMs }) => (nextAtMs ?? 0) > nowMs);
      if (isWaiting) relay.clock.move(RETRY_MS);
      await alice.pass();
    };
    for (let failed = 1; failed <= 7; failed++) {
      await until(async () => {
        await whenDue();
        expect(failures).toBeGreaterThanOrEqual(failed);
      });
    }
    proxy.bodies.length = 0;
    await until(async () => {
      await whenDue();
      for (const one of sent) expect(await alice.rowOf(one)).toMatchObject({ state: 'relay-accepted' });
    });
    // 200 items, halved seven times, are one; a good answer doubles them.
    const sizes = proxy.bodies
      .filter((body) => body.startsWith('{"items"'))
      .map((body) => (JSON.parse(body) as { items: unknown[] }).items.length);
    expect(sizes).toEqual([1, 2, 1]);
    const limits: number[] = [];
    proxy.cut = (asked, target) => {
      if (asked !== 'GET /v2/relay/items') return undefined;
      limits.push(Number(new URL(target, relay.url).searchParams.get('limit')));
      return limits.length <= 3 ? 'answer' : undefined;
    };
    bob.start();
    await until(async () => expect(await bob.mailOf('bert')).toHaveLength(4));
    await until(() => expect(limits.slice(0, 5)).toEqual([500, 250, 125, 62, 124]));
  },
  WORLD_TEST_MS,
);

test(
  'receiving host rule 4: who is unknown is in quarantine for itself, is let in by retry, and is gone after discard',
  async () => {
    const w = await relayWorld();
    const { alice, bob } = w;
    await bothUse(w);
    const sent = await alice.sendTo(bob, 'anna', ['bert', 'carl', 'dora']);
    await until(async () =>
      expect((await listQuarantine(bob.context, {})).items).toMatchObject([
        { reason: 'unknown-agent', recipients: ['carl@bob', 'dora@bob'] },
      ]),
    );
    expect((await bob.mailOf('bert')).map(({ ref }) => ref)).toEqual([sent.ref]);
    // One receipt of three does not end the row.
    await until(async () => expect((await alice.rowOf(sent)).confirmed).toEqual(['bert@bob']));
    expect((await alice.rowOf(sent)).state).toBe('relay-accepted');
    const number = (await listQuarantine(bob.context, {})).items[0]?.number ?? 0;
    await bob.addAgent('carl');
    expect(await retryQuarantine(bob.context, { numbers: [number] })).toMatchObject({
      accepted: [],
      kept: [{ number, reason: 'unknown-agent' }],
    });
    expect((await listQuarantine(bob.context, {})).items).toMatchObject([{ recipients: ['dora@bob'] }]);
    await bob.addAgent('dora');
    expect(await retryQuarantine(bob.context, {})).toMatchObject({ accepted: [number], kept: [] });
    await inState(alice, sent, 'done');
    for (const name of ['bert', 'carl', 'dora']) expect(await bob.mailOf(name)).toHaveLength(1);
    const next = await alice.sendTo(bob, 'anna', ['nobody']);
    await until(async () => expect((await listQuarantine(bob.context, {})).total_items).toBe(1));
    const [item] = (await listQuarantine(bob.context, {})).items;
    const discarded = await discardQuarantined(bob.context, { numbers: [item?.number ?? 0] });
    expect(discarded).toEqual({ discarded: [item?.number], not_found: [] });
    expect(await alice.rowOf(next)).toMatchObject({ state: 'relay-accepted' });
    await bob.store.transact((tx) => {
      issueReceipt(tx, bob.context, { ref: sent.ref, agentId: 'agent-bert' as AgentId }, 'read');
    });
    await until(async () => {
      const record = await alice.store.read((reader) => reader.get('sent', sent.ref));
      expect(record?.recipients[0]).toMatchObject({ state: 'read' });
    });
  },
  WORLD_TEST_MS,
);
