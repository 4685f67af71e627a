/** Tests what keeps a host known at its relay, whatever fails meanwhile. */
import { join } from 'node:path';
import { rename, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { rotateOwnKey, signedEncKey } from '../../../src/host/peers/identity.ts';
import { learnRotation } from '../../../src/host/peers/peers.ts';
import { listQuarantine, retryUnknownKeys } from '../../../src/host/inbound/quarantine.ts';
import { canonicalBytes, encKeyAdvertisement } from '../../../src/protocol/documents.ts';
import { sha256Hex } from '../../../src/protocol/encodings.ts';
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
    expect(JSON.stringify(alice.said)).not.toContain('eyJ');
  },
  WORLD_TEST_MS,
);

test(
  'enc key: a paired host learns the one that outdid an advertisement of a later time',
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
    const client = relay.client({ ...hostNamed('bob'), key: bob.key, signer });
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
  'relay set: an invite from a command lets the host in, and nobody who brings none',
  async () => {
    const w = await relayWorld({ admission: 'invite' });
    const token = 'poste-invite-an-open-one';
    const nowMs = w.relay.clock.nowMs();
    const invite = { inviteHash: sha256Hex(token), label: '', nowMs, expiresAtMs: nowMs + 3_600_000 };
    await w.relay.relay.engine.admissions.issueInvite({ type: 'IssueInvite', ...invite });
    await w.bob.use(w.proxy.url);
    await until(async () => expect((await w.bob.status()).problem).toMatchObject({ code: 'ENROL_REFUSED' }));
    await w.alice.use(w.proxy.url, { token_command: 'exit 3' });
    const failed = { code: 'NO_TOKEN', message: expect.stringContaining('3') as string };
    await until(async () => expect((await w.alice.status()).problem).toMatchObject(failed));
    await w.alice.use(w.proxy.url, { token_command: `echo ${token}` });
    await ready(w.alice);
    expect(w.alice.said.map(({ message }) => message).join()).not.toContain(token);
  },
  WORLD_TEST_MS,
);
