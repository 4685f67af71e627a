import { expect, onTestFinished, test, vi, describe } from 'vitest';
import { noteText, openCheckpoint, type Checkpoint, signCheckpoint } from '../../../../src/protocol/checkpoint.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import { AppendGate } from '../../../support/append-gate.ts';
import { pushOf, rotateEpochOf } from '../../../support/commands.ts';
import { alice, bob, carol, relay as relayHost } from '../../../support/hosts.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';
import { randomBytes } from 'node:crypto';
import { afterOf, makeKnew, noteHash } from '../../../../src/protocol/seen.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { found } from '../../../support/found.ts';

const item = { itemId: 'm1' as ItemId, senders: [alice.key], targets: [bob.key] };

async function enrolledRelay(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob, carol);
  return relay;
}

const sizeOf = ({ engine }: TestRelay): number | undefined =>
  openCheckpoint(engine.log.checkpoint() ?? '', relayHost.key)?.size;

test('nothing is proven of a batch that is on its way', async () => {
  const relay = await enrolledRelay();
  const before = sizeOf(relay);
  const gate = AppendGate.closed(relay.store);
  const pushed = relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await gate.arrived(1);
  expect([sizeOf(relay), await relay.engine.log.item(item)]).toEqual([before, 'unknown']);
  gate.open();
  await pushed;
  expect(sizeOf(relay)).toBe((before ?? 0) + 1);
  expect(await relay.engine.log.item(item)).toMatchObject({ index: before });
});

test('nothing is proven of a batch that LevelDB shows and the store never took for durable', async () => {
  const relay = await enrolledRelay();
  const before = sizeOf(relay);
  relay.store.tree.grown = () => {
    throw new Error('EIO');
  };
  await expect(relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).rejects.toThrow('the store failed');
  expect(relay.store.get('dedup', alice.key + bob.key + item.itemId)).toBeDefined();
  expect([sizeOf(relay), await relay.engine.log.item(item)]).toEqual([before, 'unknown']);
});

test('a head that was signed is not signed again while the log grows, nor for proofs under it', async () => {
  const relay = await enrolledRelay();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  const { log } = relay.engine;
  const size = sizeOf(relay) ?? 0;
  const signed = vi.spyOn(relayHost.signer, 'sign');
  onTestFinished(() => signed.mockRestore());
  const first = log.checkpoint();
  for (const itemId of ['m2', 'm3', 'm4']) {
    await relay.pushOne(pushOf(alice, itemId, [[bob, 'x']]));
    expect(await log.item({ ...item, size })).toMatchObject({ checkpoint: first });
    expect(log.checkpointAt(size)).toBe(first);
  }
  const earlier = log.checkpointAt(size - 1) ?? '';
  const texts = new Set(signed.mock.calls.map(([text]) => Buffer.from(text).toString()));
  expect([first ?? '', earlier].map((note) => texts.has(noteText(note)))).toEqual([false, true]);
});

test('an item whose record is gone is pruned, to its sender alone', async () => {
  const relay = await enrolledRelay();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  relay.store.record = () => Promise.resolve(undefined);
  expect(await relay.engine.log.item(item)).toBe('pruned');
  expect(await relay.engine.log.item({ ...item, senders: [carol.key] })).toBe('unknown');
});

test('a record that is not the one of the item is shown to nobody', async () => {
  const relay = await enrolledRelay();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.pushOne(pushOf(carol, 'm1', [[bob, 'y']]));
  const { store } = relay;
  const row = store.get('dedup', carol.key + bob.key + item.itemId);
  const get = store.get.bind(store);
  store.get = ((table: string, key: string) =>
    table === 'dedup' && key.startsWith(alice.key)
      ? { ...row, senderPubkey: alice.key }
      : get(table as 'dedup', key)) as never;
  await expect(relay.engine.log.item(item)).rejects.toThrow('invariant');
});

test('the own pair of keys comes before the others of the lineages', async () => {
  const relay = await enrolledRelay();
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
  await relay.pushOne(pushOf(carol, 'm1', [[bob, 'y']]));
  const proofs = [alice, carol].map(({ key }) => relay.engine.log.item({ ...item, senders: [key] }));
  const [ofAlice, ofCarol] = await Promise.all(proofs);
  expect(ofAlice).not.toEqual(ofCarol);
  expect(await relay.engine.log.item({ ...item, senders: [carol.key, alice.key] })).toEqual(ofCarol);
  expect(await relay.engine.log.item({ ...item, senders: [alice.key, carol.key] })).toEqual(ofAlice);
});

const SECOND = epochNumbered(70);
const UNKNOWN = epochNumbered(71);
const MALFORMED = 'malformed';

const noteOf = ({ engine }: TestRelay, size?: number, epoch?: string): string =>
  (size === undefined ? engine.log.checkpoint(epoch) : engine.log.checkpointAt(size, epoch)) ?? 'none';

function headOf(relay: TestRelay, epoch?: string): Checkpoint {
  return found(openCheckpoint(noteOf(relay, undefined, epoch), relayHost.key), 'the newest note does not verify');
}

const signed = (checkpoint: Checkpoint): string => signCheckpoint(checkpoint, relayHost.signer);
const OTHER_ROOT = { rootHash: Buffer.alloc(32, 7) };

/** A note that was signed after `knew`, or after other bytes. */
const later = (knew: Buffer, after = afterOf(knew)): { note: string; knew: string } => ({
  note: signed({ epoch: UNKNOWN, size: 3, ...OTHER_ROOT, after }),
  knew: knew.toString('base64'),
});
const knowing = (...notes: string[]): Buffer => makeKnew(notes.map(noteHash), randomBytes);

describe('a note of the current epoch', () => {
  test('is known at every size that the log has had', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    for (let size = 1; size <= headOf(relay).size; size++)
      expect(relay.engine.log.judge({ note: noteOf(relay, size) })).toEqual({ known: true });
  });

  test('contradicts a log that is smaller, or that has another root at its size', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    const head = headOf(relay);
    const { epoch: contradicted, size } = head;
    for (const change of [{ size: size + 1 }, OTHER_ROOT, { ...OTHER_ROOT, size: size - 1 }])
      expect(relay.engine.log.judge({ note: signed({ ...head, ...change }) })).toEqual({ known: false, contradicted });
  });

  test('contradicts nothing when its epoch has ended: so it ends one epoch at most', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    const before = headOf(relay);
    await relay.engine.rotateEpoch(rotateEpochOf(SECOND));
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    expect(relay.engine.log.judge({ note: signed(before) })).toEqual({ known: true });
    for (const change of [{ size: before.size + 1 }, OTHER_ROOT])
      expect(relay.engine.log.judge({ note: signed({ ...before, ...change }) })).toEqual({ known: false });
  });
});

describe('a note of an epoch that the relay does not know', () => {
  test('contradicts the log when it was signed after a note of the current epoch', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    const { epoch: contradicted } = headOf(relay);
    for (const older of [noteOf(relay), noteOf(relay, 1)]) {
      const shown = { ...later(knowing(signed({ ...headOf(relay), ...OTHER_ROOT }), older)), older };
      expect(relay.engine.log.judge(shown)).toEqual({ known: false, contradicted });
    }
  });

  test('says nothing without that: it may be of an epoch before the relay was set back, as declared', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    const first = noteOf(relay);
    await relay.engine.rotateEpoch(rotateEpochOf(SECOND));
    const older = noteOf(relay);
    const knew = knowing(older);
    const shown = later(knew);
    const others = [
      { note: shown.note },
      { note: shown.note, older },
      shown,
      { ...later(knew, Buffer.alloc(32)), older },
      { ...shown, note: signed({ epoch: UNKNOWN, size: 3, ...OTHER_ROOT }), older },
      { ...later(knowing()), older },
      { ...shown, older: noteOf(relay, 1) },
      { ...later(knowing(first)), older: first },
    ];
    for (const [at, one] of others.entries()) expect([at, relay.engine.log.judge(one)]).toEqual([at, { known: false }]);
    expect(relay.engine.log.judge({ ...shown, older })).toMatchObject({ contradicted: SECOND });
  });
});

test('what this relay did not sign, or what has another form, is malformed', async () => {
  const relay = await enrolledTestRelay(alice, bob);
  const [head, note] = [headOf(relay), noteOf(relay)];
  const forged = signCheckpoint({ ...head, size: head.size + 1 }, alice.signer);
  const knew = makeKnew([], randomBytes).toString('base64');
  const { log } = relay.engine;
  for (const shown of [
    { note: '' },
    { note: forged },
    { note: note.replace(`\n${head.size}\n`, `\n${head.size + 1}\n`) },
    { note, older: forged },
    { note, knew: knew.slice(4) },
    { note, knew: ` ${knew.slice(1)}` },
  ])
    expect(log.judge(shown)).toBe(MALFORMED);
  expect(log.judge({ note, knew, older: note })).toEqual({ known: true });
});
