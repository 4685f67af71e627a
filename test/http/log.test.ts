/** GET /v2/relay/log/...: checkpoints, links, consistency, and that an item is in the log, for its sender alone. */
import { describe, expect, test } from 'vitest';
import { type Checkpoint, openCheckpoint } from '../../src/protocol/checkpoint.ts';
import { LOG_READS_OF_STRANGERS_PER_SECOND, LOG_READS_PER_MINUTE } from '../../src/protocol/limits.ts';
import { parseLogLink } from '../../src/protocol/log-link.ts';
import { leafHash, verifyConsistency, verifyInclusion } from '../../src/protocol/merkle.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { RelayEvent } from '../../src/relay/core/event.ts';
import { decodeProvenRecord } from '../../src/relay/store/record.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { rotateOf } from '../support/commands.ts';
import { type HttpRelay, enrolledRelay } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, hostNamed, relay as relayHost } from '../support/hosts.ts';
import { envelopeWire, itemTo, receiptId, receiptWire } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';
import { found } from '../support/found.ts';

const LOG = '/v2/relay/log';
const DAY_MS = 86_400_000;
const aliceAgain = { ...hostNamed('alice again'), name: alice.name };
const bobAgain = { ...hostNamed('bob again'), name: bob.name };

interface Proof {
  relay_pubkey: string;
  epoch: string;
  checkpoint: string;
  index: number;
  record_b64: string;
  proof: string[];
}

const get = (relay: HttpRelay, target: string): Promise<RawResponse> =>
  rawRequest(relay.port, requestBytes('GET', `${LOG}/${target}`));

const proofTarget = (itemId: string, target: PublicKey): string =>
  `${LOG}/proof?item_id=${encodeURIComponent(itemId)}&target=${encodeURIComponent(target)}`;

const askProof = (relay: HttpRelay, from: TestHost, itemId: string, target: TestHost): Promise<RawResponse> =>
  relay.send(relay.hop(from, 'GET', proofTarget(itemId, target.key)));

const bytesOf = (hashes: unknown): Buffer[] => (hashes as string[]).map((hash) => Buffer.from(hash, 'base64'));

/** The newest checkpoint, opened with the key of the relay. */
async function checkpointOf(relay: HttpRelay, query = ''): Promise<Checkpoint & { note: string }> {
  const response = await get(relay, `checkpoint${query}`);
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8']);
  const note = response.body.toString('utf8');
  const opened = found(openCheckpoint(note, relayHost.key), 'the checkpoint does not verify');
  return { ...opened, note };
}

/** The leaf that a proof proves, when it verifies. */
function provenLeaf(response: RawResponse): { checkpoint: Checkpoint; leaf: Buffer; index: number } {
  expect(response.status).toBe(200);
  const { relay_pubkey, epoch, checkpoint: note, index, record_b64, proof } = jsonOf(response) as unknown as Proof;
  expect(relay_pubkey).toBe(relayHost.key);
  const checkpoint = openCheckpoint(note, relayHost.key);
  if (checkpoint?.epoch !== epoch) throw new Error('the checkpoint of the proof does not verify');
  const leaf = Buffer.from(record_b64, 'base64');
  const { size, rootHash } = checkpoint;
  const isIn = verifyInclusion({ leafHash: leafHash(leaf), index, size, proof: bytesOf(proof), rootHash });
  expect(isIn).toBe(true);
  return { checkpoint, leaf, index };
}

function provenEvent(response: RawResponse): RelayEvent {
  return decodeProvenRecord(provenLeaf(response).leaf);
}

async function isContinued(relay: HttpRelay, older: Checkpoint, newer: Checkpoint): Promise<boolean> {
  const { size: from, rootHash: fromRoot, epoch } = older;
  const { size: to, rootHash: toRoot } = newer;
  const response = await get(relay, `consistency?from=${from}&to=${to}&epoch=${epoch}`);
  expect(response.status).toBe(200);
  const { proof, ...others } = jsonOf(response);
  expect(others).toEqual({ relay_pubkey: relayHost.key, epoch, from, to });
  return verifyConsistency({ from, to, proof: bytesOf(proof), fromRoot, toRoot });
}

async function rotateEpoch(relay: HttpRelay, epoch: string): Promise<void> {
  const nowMs = relay.clock.nowMs();
  await relay.relay.engine.rotateEpoch({ type: 'RotateEpoch', epoch: epoch as never, reason: 'reset', nowMs });
}

async function accepted(relay: HttpRelay, from: TestHost, itemId: string, ...targets: TestHost[]): Promise<void> {
  const { results } = await relay.client(from).push([itemTo(targets, itemId)]);
  expect(results[0]?.status).toBe('accepted');
}

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const started = (): Promise<HttpRelay> => enrolledRelay(adapter, [alice, bob, carol]);

  describe('a checkpoint', () => {
    test('counts the link and every record, and is the same until there is another record', async () => {
      const relay = await started();
      const first = await checkpointOf(relay);
      expect(first.epoch).toBe(relay.epoch);
      expect(first.size).toBe((await relay.lastLsn()) + 1);
      expect((await checkpointOf(relay)).note).toBe(first.note);
      expect((await checkpointOf(relay, `?epoch=${relay.epoch}`)).note).toBe(first.note);
      await accepted(relay, alice, 'm1', bob);
      expect((await checkpointOf(relay)).size).toBe(first.size + 1);
    });

    test('is the same after a restart', async () => {
      const relay = await started();
      const { note } = await checkpointOf(relay);
      await relay.restart();
      expect((await checkpointOf(relay)).note).toBe(note);
    });

    test('of an epoch that never was is none; a repeated epoch is a bad request', async () => {
      const relay = await started();
      for (const path of ['checkpoint?epoch=', 'checkpoint?epoch=X', 'link?epoch=X', 'consistency?from=1&to=1&epoch=X'])
        expect(await get(relay, path)).toBeProblem('NOT_FOUND');
      const { epoch } = relay;
      for (const path of ['checkpoint?', 'link?', 'consistency?from=1&to=1&'])
        expect(await get(relay, `${path}epoch=${epoch}&epoch=${epoch}`)).toBeProblem('BAD_REQUEST');
    });
  });

  describe('consistency', () => {
    test('holds between all checkpoints of an epoch', async () => {
      const relay = await started();
      const seen = [await checkpointOf(relay)];
      for (let count = 0; count < 5; count++) {
        await accepted(relay, alice, `m${count}`, bob);
        seen.push(await checkpointOf(relay));
      }
      for (const [at, older] of seen.entries()) {
        for (const newer of seen.slice(at)) expect(await isContinued(relay, older, newer)).toBe(true);
      }
    });

    test.each([
      '',
      '?from=1',
      '?to=1',
      '?from=0&to=1',
      '?from=2&to=1',
      '?from=1&to=1000',
      '?from=-1&to=1',
      '?from=1.5&to=2',
      '?from=1&to=9007199254740993',
      '?from=1&from=1&to=2',
      '?from=one&to=two',
    ])('of sizes that the log has not had is a bad request: %s', async (query) => {
      const relay = await started();
      expect(await get(relay, `consistency${query}`)).toBeProblem('BAD_REQUEST');
    });
  });

  describe('the proof of an item', () => {
    test('shows its sender exactly the record that accepted it', async () => {
      const relay = await started();
      const { results } = await relay.client(alice).push([itemTo([bob, carol], 'm1')]);
      const { accept } = results[0] ?? {};
      const before = await checkpointOf(relay);
      await accepted(relay, bob, 'm1', alice);
      for (const target of [bob, carol]) {
        const response = await askProof(relay, alice, 'm1', target);
        const event = provenEvent(response);
        expect(event).toMatchObject({ type: 'ItemAccepted', senderPubkey: alice.key, itemId: 'm1', kind: 'envelope' });
        const { targets, acceptedAtMs } = event as RelayEvent & { type: 'ItemAccepted' };
        const shown = targets.map((one) => ({ host_pubkey: one.hostPubkey, seq: one.seq, wire_hash: one.wireHash }));
        expect([shown, acceptedAtMs]).toEqual([accept?.targets, accept?.at]);
        const { checkpoint, index } = provenLeaf(response);
        expect(index).toBe(before.size - 1);
        expect(await isContinued(relay, before, checkpoint)).toBe(true);
        expect(checkpoint.size).toBe(before.size + 1);
      }
    });

    test('is there for a delivery receipt, too', async () => {
      const relay = await started();
      const id = receiptId('m1', 'coder@bob', 1);
      await relay.client(bob).push([itemTo([alice], id, receiptWire(bob, 'm1', 'coder@bob', 1))]);
      expect(provenEvent(await askProof(relay, bob, id, alice))).toMatchObject({ itemId: id, kind: 'receipt' });
    });

    test('is never given to another host, the target included: the answer is that of an unknown item', async () => {
      const relay = await started();
      await accepted(relay, alice, 'm1', bob);
      const unknown = await askProof(relay, alice, 'm2', bob);
      expect(unknown).toBeProblem('NOT_FOUND');
      const others = [
        await askProof(relay, bob, 'm1', bob),
        await askProof(relay, carol, 'm1', bob),
        await askProof(relay, carol, 'm1', hostNamed('nobody')),
        await askProof(relay, alice, 'm1', carol),
        await askProof(relay, alice, 'm1', hostNamed('nobody')),
      ];
      for (const response of others) {
        expect([response.status, response.body.toString()]).toEqual([unknown.status, unknown.body.toString()]);
      }
      expect((await askProof(relay, alice, 'm1', bob)).status).toBe(200);
    });

    test('of the same id of two senders is that of the one who asks', async () => {
      const relay = await started();
      await accepted(relay, alice, 'm1', bob);
      await accepted(relay, carol, 'm1', bob);
      for (const host of [alice, carol]) {
        expect(provenEvent(await askProof(relay, host, 'm1', bob))).toMatchObject({ senderPubkey: host.key });
      }
    });

    test('needs a hop', async () => {
      const relay = await started();
      await accepted(relay, alice, 'm1', bob);
      expect(await rawRequest(relay.port, requestBytes('GET', proofTarget('m1', bob.key)))).toBeProblem('NOT_ENROLLED');
    });

    test.each([
      '',
      '?item_id=m1',
      '?target=x',
      '?item_id=m1&target=x',
      '?item_id=&target=KEY',
      '?item_id=a:b&target=KEY',
    ])('of nothing that could be pushed is a bad request: %s', async (query) => {
      const relay = await started();
      const target = `${LOG}/proof${query.replace('KEY', encodeURIComponent(bob.key))}`;
      expect(await relay.send(relay.hop(alice, 'GET', target))).toBeProblem('BAD_REQUEST');
    });

    test('a repeated member is a bad request', async () => {
      const relay = await started();
      const target = `${proofTarget('m1', bob.key)}&item_id=m1`;
      expect(await relay.send(relay.hop(alice, 'GET', target))).toBeProblem('BAD_REQUEST');
    });

    test('survives a rotation of the sender and of the target, asked with either key', async () => {
      const relay = await started();
      await accepted(relay, alice, 'm1', bob);
      const { leaf } = provenLeaf(await askProof(relay, alice, 'm1', bob));
      const { engine } = relay.relay;
      const iatMs = relay.clock.nowMs();
      await engine.admissions.rotateKey({ ...rotateOf(alice, aliceAgain), iatMs });
      await engine.admissions.rotateKey({ ...rotateOf(bob, bobAgain), iatMs });
      for (const target of [bob, bobAgain]) {
        expect(provenLeaf(await askProof(relay, aliceAgain, 'm1', target)).leaf).toEqual(leaf);
        expect(await askProof(relay, carol, 'm1', target)).toBeProblem('NOT_FOUND');
      }
      expect(await askProof(relay, alice, 'm1', bob)).toBeProblem('NOT_ENROLLED');
    });

    test('survives the ack and the deletion of the mail', async () => {
      const relay = await started();
      await accepted(relay, alice, 'm1', bob);
      const { items } = await relay.client(bob).pull();
      await relay.client(bob).ack(relay.epoch, items[0]?.seq ?? 0);
      await relay.restart();
      const event = provenEvent(await askProof(relay, alice, 'm1', bob));
      const wireHash = event.type === 'ItemAccepted' ? event.targets[0]?.wireHash : undefined;
      expect(wireHash).toBeDefined();
      // The mail is gone: what is proven is its hash, and no byte of it is left in what is shown.
      const shown = await askProof(relay, alice, 'm1', bob);
      expect(Buffer.from(String(jsonOf(shown)['record_b64']), 'base64').includes(envelopeWire('m1'))).toBe(false);
    });

    test('survives the expiry of the item, until the relay forgets that it knew it', async () => {
      const relay = await started();
      await accepted(relay, alice, 'm1', bob);
      const { engine } = relay.relay;
      const nowMs = (): number => relay.clock.nowMs();
      relay.clock.move(15 * DAY_MS);
      await engine.heartbeat(nowMs());
      await engine.expiry.expire(nowMs, new AbortController().signal);
      expect(await relay.queue(bob)).toEqual([]);
      expect(provenEvent(await askProof(relay, alice, 'm1', bob))).toMatchObject({ itemId: 'm1' });
      relay.clock.move(60 * DAY_MS);
      await engine.expiry.purgeDedup(nowMs, new AbortController().signal);
      const forgotten = await askProof(relay, alice, 'm1', bob);
      const unknown = await askProof(relay, alice, 'm2', bob);
      expect([forgotten.status, forgotten.body.toString()]).toEqual([404, unknown.body.toString()]);
    });

    test('is in the tree of the epoch that accepted it, whatever came later', async () => {
      const relay = await started();
      await accepted(relay, alice, 'm1', bob);
      const { epoch } = relay;
      await accepted(relay, alice, 'm2', bob);
      const last = await checkpointOf(relay);
      await rotateEpoch(relay, 'SECOND');
      await accepted(relay, alice, 'm3', bob);
      await rotateEpoch(relay, 'THIRD');
      await relay.restart();
      for (const id of ['m1', 'm2']) {
        const response = await askProof(relay, alice, id, bob);
        expect(provenLeaf(response).checkpoint).toMatchObject({ epoch, size: last.size, rootHash: last.rootHash });
      }
      const ofSecond = provenLeaf(await askProof(relay, alice, 'm3', bob));
      // The link, the rotation, and the item.
      expect([ofSecond.checkpoint.epoch, ofSecond.checkpoint.size, ofSecond.index]).toEqual(['SECOND', 3, 2]);
      expect((await checkpointOf(relay)).epoch).toBe('THIRD');
      expect((await checkpointOf(relay, `?epoch=${epoch}`)).note).toBe(last.note);
    });

    test('of a record that was pruned has a code of its own, which is no denial', async () => {
      const relay = await started();
      relay.relay.engine.log.item = () => Promise.resolve('pruned');
      expect(await askProof(relay, alice, 'm1', bob)).toBeProblem('RECORD_PRUNED');
    });
  });

  describe('the link of an epoch', () => {
    test('commits size and root of the epoch before', async () => {
      const relay = await started();
      const first = await checkpointOf(relay);
      const { epoch } = relay;
      await rotateEpoch(relay, 'SECOND');
      const { leaf, index, checkpoint } = provenLeaf(await get(relay, 'link'));
      expect([index, checkpoint.epoch]).toEqual([0, 'SECOND']);
      expect(parseLogLink(leaf)).toEqual({
        v: 1,
        type: 'relay-log-link',
        relay_pubkey: relayHost.key,
        epoch: 'SECOND',
        previous: { epoch, size: first.size, root_hash: first.rootHash.toString('hex') },
      });
      const ofFirst = provenLeaf(await get(relay, `link?epoch=${epoch}`));
      expect(parseLogLink(ofFirst.leaf)).toMatchObject({ epoch, previous: null });
    });
  });

  test('what is open is counted by client address, all together; the proof of an item is not', async () => {
    const relay = await started();
    await accepted(relay, alice, 'm1', bob);
    const paths = ['checkpoint', 'link', 'consistency?from=1&to=1'];
    for (let count = 0; count < LOG_READS_PER_MINUTE; count++) {
      expect((await get(relay, paths[count % 3]!)).status).toBe(200);
      // All strangers together have a share a second.
      if (count % LOG_READS_OF_STRANGERS_PER_SECOND === 0) relay.clock.move(1000);
    }
    relay.clock.move(1000);
    // A slow machine lets one more through now and then: the share comes back with time.
    for (const path of paths) {
      let reply = await get(relay, path);
      for (let more = 0; reply.status === 200 && more < LOG_READS_PER_MINUTE; more++) reply = await get(relay, path);
      expect(reply).toBeProblem('RATE_LIMITED');
    }
    expect((await askProof(relay, alice, 'm1', bob)).status).toBe(200);
    relay.clock.move(60_000);
    expect((await get(relay, 'checkpoint')).status).toBe(200);
  });
});
