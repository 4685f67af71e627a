/**
 * What a host asks of the log to hold the relay to what it signed: heads at a size, heads that are signed after what it
 * knew, proofs at a size; and how often anybody may ask.
 */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type Checkpoint, openCheckpoint } from '../../src/protocol/checkpoint.ts';
import { LOG_READS_OF_STRANGERS_PER_SECOND, LOG_READS_PER_MINUTE } from '../../src/protocol/limits.ts';
import { leafHash, verifyConsistency, verifyInclusion } from '../../src/protocol/merkle.ts';
import type { LogProof } from '../../src/host/relay/relay-client.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type TestHost, alice, bob, carol, relay as relayHost } from '../support/hosts.ts';
import { type HttpRelay, enrolledRelay } from '../support/http-relay.ts';
import { itemTo } from '../support/mail.ts';
import '../support/problems.ts';
import { type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';
import { found } from '../support/found.ts';

const LOG = '/v2/relay/log';

const get = (relay: HttpRelay, target: string, address?: string): Promise<RawResponse> =>
  rawRequest(relay.port, requestBytes('GET', `${LOG}/${target}`, address ? { 'x-forwarded-for': address } : {}));

const askedBy = (relay: HttpRelay, host: TestHost, target: string): Promise<RawResponse> =>
  relay.send(relay.hop(host, 'GET', `${LOG}/${target}`));

function opened(note: string): Checkpoint {
  return found(openCheckpoint(note, relayHost.key), 'the checkpoint does not verify');
}

function provenIn({ checkpoint: note, index, record_b64, proof }: LogProof): Checkpoint {
  const checkpoint = opened(note);
  const hashes = proof.map((hash) => Buffer.from(hash, 'base64'));
  const leaf = leafHash(Buffer.from(record_b64, 'base64'));
  expect(verifyInclusion({ leafHash: leaf, index, ...checkpoint, proof: hashes })).toBe(true);
  return checkpoint;
}

async function accepted(relay: HttpRelay, ...itemIds: string[]): Promise<void> {
  const { results } = await relay.client(alice).push(itemIds.map((id) => itemTo([bob], id)));
  expect(new Set(results.map(({ status }) => status))).toEqual(new Set(['accepted']));
}

async function rotateEpoch(relay: HttpRelay, epoch: string): Promise<void> {
  const nowMs = relay.clock.nowMs();
  await relay.relay.engine.rotateEpoch({ type: 'RotateEpoch', epoch: epoch as never, reason: 'reset', nowMs });
}

const proofTarget = (itemId: string, size: number): string =>
  `proof?item_id=${itemId}&target=${encodeURIComponent(bob.key)}&size=${size}`;

const refused = (responses: RawResponse[]): number => responses.filter(({ status }) => status === 429).length;

async function many(count: number, ask: (at: number) => Promise<RawResponse>): Promise<RawResponse[]> {
  const responses: RawResponse[] = [];
  for (let at = 0; at < count; at++) responses.push(await ask(at));
  return responses;
}

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const started = (): Promise<HttpRelay> => enrolledRelay(adapter, [alice, bob, carol]);

  describe('checkpoint?size=', () => {
    test('is the head that the log had then, as it was signed then', async () => {
      const relay = await started();
      const client = relay.client(alice);
      const notes = [await client.logCheckpoint()];
      for (const id of ['m1', 'm2', 'm3']) {
        await accepted(relay, id);
        notes.push(await client.logCheckpoint());
      }
      await rotateEpoch(relay, 'SECOND');
      const epoch = opened(notes[0]!).epoch;
      for (const note of notes) expect(await client.logCheckpoint({ epoch, size: opened(note).size })).toBe(note);
    });

    test('is continued by the newest one, from 1 leaf on', async () => {
      const relay = await started();
      const client = relay.client(alice);
      const newest = opened(await client.logCheckpoint());
      for (let size = 1; size <= newest.size; size++) {
        const { rootHash, epoch } = opened(await client.logCheckpoint({ size }));
        const { proof, from, to } = await client.logConsistency(size, newest.size, epoch);
        const hashes = proof.map((hash) => Buffer.from(hash, 'base64'));
        const roots = { fromRoot: rootHash, toRoot: newest.rootHash };
        expect(verifyConsistency({ from, to, proof: hashes, ...roots })).toBe(true);
      }
    });

    test('of a size that the epoch has not had is a bad request', async () => {
      const relay = await started();
      const { epoch, size } = opened(await relay.client(alice).logCheckpoint());
      await rotateEpoch(relay, 'SECOND');
      for (const query of ['size=0', 'size=3', 'size=one', 'size=1&size=1', `epoch=${epoch}&size=${size + 1}`])
        expect(await get(relay, `checkpoint?${query}`)).toBeProblem('BAD_REQUEST');
      expect(await get(relay, 'checkpoint?epoch=X&size=1')).toBeProblem('NOT_FOUND');
    });
  });

  describe('checkpoint?after=', () => {
    test('is the newest head, with the bytes that were asked for', async () => {
      const relay = await started();
      const client = relay.client(alice);
      for (const after of [Buffer.alloc(32, 0xff), randomBytes(32)]) {
        const { size, ...newest } = opened(await client.logCheckpoint());
        expect(opened(await client.logCheckpoint({ after }))).toEqual({ ...newest, size, after });
        await accepted(relay, after.toString('hex'));
        expect(opened(await client.logCheckpoint({ after })).size).toBe(size + 1);
      }
    });

    test('is of no other size or epoch: the relay would say that it signed an older head later', async () => {
      const relay = await started();
      const after = randomBytes(32).toString('base64url');
      for (const other of ['size=1', `epoch=${relay.epoch}`])
        expect(await get(relay, `checkpoint?after=${after}&${other}`)).toBeProblem('BAD_REQUEST');
    });

    test('is of 32 bytes in base64url', async () => {
      const relay = await started();
      for (const after of [
        '',
        randomBytes(31).toString('base64url'),
        randomBytes(33).toString('base64url'),
        `${'A'.repeat(42)}B`,
        `${'A'.repeat(43)}=`,
        encodeURIComponent(Buffer.alloc(32, 0xff).toString('base64')),
      ])
        expect(await get(relay, `checkpoint?after=${after}`)).toBeProblem('BAD_REQUEST');
    });
  });

  describe('proof?size=', () => {
    test('proves the record in the tree of that size, and at every size from there on', async () => {
      const relay = await started();
      await accepted(relay, 'm1', 'm2', 'm3', 'm4');
      const client = relay.client(alice);
      const { index, checkpoint } = await client.logProof('m1', bob.key);
      const newest = opened(checkpoint);
      for (let size = index + 1; size <= newest.size; size++)
        expect(provenIn(await client.logProof('m1', bob.key, size))).toEqual(
          opened(await client.logCheckpoint({ size })),
        );
      expect(provenIn(await client.logProof('m1', bob.key))).toEqual(newest);
    });

    test('is of the epoch that accepted the item, whatever came later', async () => {
      const relay = await started();
      await accepted(relay, 'm1', 'm2');
      const last = opened(await relay.client(alice).logCheckpoint());
      await rotateEpoch(relay, 'SECOND');
      await accepted(relay, 'm3');
      for (const size of [last.size - 1, last.size])
        expect(provenIn(await relay.client(alice).logProof('m1', bob.key, size))).toMatchObject({
          epoch: last.epoch,
          size,
        });
      expect(await askedBy(relay, alice, proofTarget('m1', last.size + 1))).toBeProblem('BAD_REQUEST');
      expect(await askedBy(relay, alice, proofTarget('m3', 2))).toBeProblem('NOT_FOUND');
    });

    test('of a record beyond that size is the answer of an unknown item, of which any size is', async () => {
      const relay = await started();
      await accepted(relay, 'm1');
      const { index } = await relay.client(alice).logProof('m1', bob.key);
      const beyond = await askedBy(relay, alice, proofTarget('m1', index));
      expect(beyond).toBeProblem('NOT_FOUND');
      for (const size of [1, index + 1, 1_000_000]) {
        const unknown = await askedBy(relay, alice, proofTarget('m2', size));
        const ofAnother = await askedBy(relay, carol, proofTarget('m1', size));
        for (const { status, body } of [unknown, ofAnother])
          expect([status, body.toString()]).toEqual([beyond.status, beyond.body.toString()]);
      }
    });
  });

  test('nothing on the way may keep an answer, be it a refusal', async () => {
    const relay = await started();
    await accepted(relay, 'm1');
    const answers = [
      await get(relay, 'checkpoint'),
      await get(relay, 'checkpoint?size=1'),
      await get(relay, 'checkpoint?epoch=X'),
      await get(relay, 'checkpoint?size=0'),
      await get(relay, 'link'),
      await get(relay, 'consistency?from=1&to=1'),
      await askedBy(relay, alice, proofTarget('m1', 1_000)),
      await get(relay, proofTarget('m1', 1)),
      await rawRequest(relay.port, requestBytes('PUT', `${LOG}/checkpoint`)),
      await relay.send(relay.hop(alice, 'POST', `${LOG}/checkpoint`, '{}')),
    ];
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 400, 401, 404, 405]));
    for (const { headers } of answers) expect(headers.get('cache-control')).toBe('no-store');
    const info = await rawRequest(relay.port, requestBytes('GET', '/v2/relay/info'));
    expect(info.headers.has('cache-control')).toBe(false);
  });

  describe('how often', () => {
    test('a host is counted by its key, for all that it asks and shows', async () => {
      const relay = await started();
      const ask = (host: TestHost) => (at: number) =>
        at % 2 === 0
          ? askedBy(relay, host, 'checkpoint?size=1')
          : relay.send(relay.hop(host, 'POST', `${LOG}/checkpoint`, '{"note":"forged"}'));
      expect(refused(await many(LOG_READS_PER_MINUTE, ask(alice)))).toBe(0);
      expect(refused(await many(2, ask(alice)))).toBe(2);
      expect(refused(await many(2, ask(bob)))).toBe(0);
      expect((await get(relay, 'checkpoint')).status).toBe(200);
      relay.clock.move(60_000);
      expect(refused(await many(2, ask(alice)))).toBe(0);
    });

    test('all strangers together get 50 a second, whatever their addresses, and hosts are none', async () => {
      const relay = await enrolledRelay(adapter, [alice], { trustProxy: 'xff' });
      const strange = (at: number): Promise<RawResponse> => get(relay, 'link', `192.0.2.${at}`);
      expect(refused(await many(LOG_READS_OF_STRANGERS_PER_SECOND, strange))).toBe(0);
      const late = await strange(200);
      expect([late.status, late.headers.get('retry-after')]).toEqual([429, '1']);
      expect((await askedBy(relay, alice, 'link')).status).toBe(200);
      relay.clock.move(1000);
      expect(refused(await many(LOG_READS_OF_STRANGERS_PER_SECOND, strange))).toBe(0);
      expect((await strange(200)).status).toBe(429);
    });

    test('a stranger that is refused for its address takes nothing from the others', async () => {
      const relay = await enrolledRelay(adapter, [], { trustProxy: 'xff' });
      for (let second = 0; second < 3; second++) {
        await many(LOG_READS_OF_STRANGERS_PER_SECOND, () => get(relay, 'link', '192.0.2.1'));
        relay.clock.move(1000);
      }
      expect((await many(60, () => get(relay, 'link', '192.0.2.1'))).at(-1)).toBeProblem('RATE_LIMITED');
      expect((await get(relay, 'link', '192.0.2.2')).status).toBe(200);
    });

    test('a hop that is no good makes a stranger of its host', async () => {
      const relay = await started();
      const forged = { ...relay.hop(alice, 'GET', `${LOG}/link`), timestamp: 0 };
      expect(refused(await many(LOG_READS_OF_STRANGERS_PER_SECOND, () => relay.send(forged)))).toBe(0);
      expect((await relay.send(forged)).status).toBe(429);
      expect((await askedBy(relay, alice, 'link')).status).toBe(200);
    });
  });
});
