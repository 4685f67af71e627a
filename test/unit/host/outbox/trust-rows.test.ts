/** Tests the rows that hold what a host knows of the log of its relay. */
import { describe, expect, test } from 'vitest';
import {
  type EvidenceKind,
  type EvidenceRow,
  type KeptNote,
  type LookOutcome,
  NEW_TRUST,
} from '../../../../src/host/core/relay-trust.ts';
import type { PeerId, PeerRow } from '../../../../src/host/core/rows.ts';
import { applyLook, evidenceIn, evidenceOfAll, leaveEpoch, trustIn } from '../../../../src/host/outbox/trust-rows.ts';
import { hearSeen, seenForPeer } from '../../../../src/host/outbox/seen.ts';
import { signCheckpoint } from '../../../../src/protocol/checkpoint.ts';
import { type Sha256Hex, sha256Hex } from '../../../../src/protocol/encodings.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { KNEW_BYTES, type SeenEntry } from '../../../../src/protocol/seen.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { carol, relay } from '../../../support/hosts.ts';
import { outboxRow, relayAccepted } from '../../../support/outbox-rows.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';

const EPOCH = epochNumbered(1);
const BOB = 'bob' as PeerId;

function noteOf(size: number, root = size): string {
  return signCheckpoint({ epoch: EPOCH, size, rootHash: Buffer.alloc(32, root) }, relay.signer);
}

function kept(size: number): KeptNote {
  const root = Buffer.alloc(32, size).toString('hex') as Sha256Hex;
  return { epoch: EPOCH, size, root, note: noteOf(size), knew: null, atMs: 0 };
}

function entry(size: number, changes: Partial<SeenEntry> = {}): SeenEntry {
  const knew = Buffer.alloc(KNEW_BYTES, 7).toString('base64');
  return { relay: relay.key, checkpoint: noteOf(size), knew, ...changes };
}

function evidence(nth: number, kind: EvidenceKind, isSigned: boolean, epoch = EPOCH): EvidenceRow {
  return {
    digest: sha256Hex(`evidence ${nth}`),
    relayPubkey: relay.key,
    epoch,
    kind,
    isSigned,
    notes: [{ note: noteOf(nth + 1), knew: null, peerId: null }],
    proof: [],
    foundAtMs: nth,
    dismissedAtMs: null,
  };
}

function found(changes: Partial<LookOutcome> = {}): LookOutcome {
  return {
    isEnded: true,
    trust: { ...NEW_TRUST, current: EPOCH, looks: 1 },
    kept: [kept(1)],
    pendingOver: [],
    evidence: [],
    rows: [],
    pushAgain: false,
    isOwed: false,
    isSoon: false,
    ...changes,
  };
}

/** A host with this relay pinned, and bob, whom the relay knows. */
async function here(): Promise<TestContext> {
  const context = await testContext();
  await context.store.transact((tx) => {
    const pinned = { url: 'http://127.0.0.1:1', pubkey: relay.key, pinnedAtMs: 0, seenKey: null, proof: null };
    tx.put('relay', [], { ...pinned, epoch: EPOCH, sendersIatMs: 0 });
    tx.put('peer', [BOB], bobAt(relay.key));
  });
  return context;
}

function bobAt(atRelay?: PublicKey): PeerRow {
  const row = { peerId: BOB, hostName: 'bob', keys: [], address: null, unpairedAtMs: null };
  return { ...row, ...(atRelay && { atRelay }) } as unknown as PeerRow;
}

async function look(context: TestContext, outcome: LookOutcome, rows: readonly number[] = []): Promise<boolean> {
  const known = await context.store.read((reader) => trustIn(reader, relay.key));
  const toProve = rows.map((rowId) => ({ rowId, epoch: EPOCH }) as never);
  return context.store.transact((tx) => applyLook(tx, context, { ...known, rows: toProve }, outcome));
}

const known = (context: TestContext) => context.store.read((reader) => trustIn(reader, relay.key));
const evidenceOf = (context: TestContext) => context.store.read((reader) => evidenceIn(reader, relay.key));
const hear = (context: TestContext, ...entries: SeenEntry[]): Promise<SeenEntry[]> =>
  context.store.transact((tx) => hearSeen(tx, context, BOB, entries));

describe('what a look found', () => {
  test('takes the place of what was known, in one transaction', async () => {
    const context = await here();
    expect(await look(context, found())).toBe(true);
    const next = { ...kept(2), epoch: epochNumbered(2) };
    expect(await look(context, found({ kept: [next], trust: { ...NEW_TRUST, looks: 2 } }))).toBe(true);
    expect(await known(context)).toMatchObject({ kept: [next], trust: { looks: 2 } });
  });

  test('is not written over a state that is another by now: the relay left an epoch meanwhile', async () => {
    const context = await here();
    const before = await known(context);
    await context.store.transact((tx) => leaveEpoch(tx, relay.key, epochNumbered(9)));
    const isWritten = await context.store.transact((tx) => applyLook(tx, context, { ...before, rows: [] }, found()));
    expect(isWritten).toBe(false);
    expect(await known(context)).toMatchObject({ kept: [], trust: { left: [epochNumbered(9)], looks: 0 } });
  });

  test('takes away a pending note, and not the larger one that came meanwhile', async () => {
    const context = await here();
    await hear(context, entry(5));
    const { pending } = await known(context);
    await hear(context, entry(6));
    await look(context, found({ pendingOver: pending }));
    expect((await known(context)).pending).toMatchObject([{ note: noteOf(6) }]);
    await look(context, found({ pendingOver: (await known(context)).pending, trust: { ...NEW_TRUST, looks: 2 } }));
    expect((await known(context)).pending).toEqual([]);
  });

  test('moves the rows that were proven and denied; one that is confirmed by now stays as it is', async () => {
    const context = await here();
    await context.store.transact((tx) => {
      for (const rowId of [1, 2]) tx.put('outbox', [rowId], outboxRow(relayAccepted({ rowId, peerId: BOB })));
      tx.put('outbox', [3], outboxRow(relayAccepted({ rowId: 3, peerId: BOB, state: 'done', nextAtMs: null })));
    });
    const denied = { times: 1, atMs: context.clock.nowMs };
    const proven = { epoch: EPOCH, size: 4 };
    const rows = [
      { rowId: 1, proven },
      { rowId: 2, denied },
      { rowId: 3, denied },
    ];
    await look(context, found({ rows }), [1, 2, 3]);
    const row = (rowId: number) => context.store.read((reader) => reader.get('outbox', rowId));
    expect(await row(1)).toMatchObject({ proven });
    expect(await row(2)).toMatchObject({ denied, acceptance: { mayBeLost: true } });
    expect(await row(3)).toMatchObject({ state: 'done', nextAtMs: null });
    expect(context.told).toContainEqual({ type: 'outbox-changed', peerId: BOB });
  });
});

const times = async (context: TestContext): Promise<number[]> =>
  (await evidenceOf(context)).map(({ foundAtMs }) => foundAtMs).toSorted((a, b) => a - b);

describe('evidence', () => {
  test('of one epoch and kind there are eight: words give way to signed contradictions, these to nothing', async () => {
    const context = await here();
    const words = Array.from({ length: 9 }, (_, nth) => evidence(nth, 'withheld', false));
    await look(context, found({ evidence: words }));
    expect(await times(context)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    const signed = Array.from({ length: 9 }, (_, nth) => evidence(20 + nth, 'withheld', true));
    await look(context, found({ evidence: signed, trust: { ...NEW_TRUST, looks: 2 } }));
    expect(await times(context)).toEqual([20, 21, 22, 23, 24, 25, 26, 27]);
    // No number that the owner was shown is of other evidence now.
    const all = await context.store.read((reader) => evidenceOfAll(reader));
    expect(all.map(({ number, foundAtMs }) => [number, foundAtMs])).toEqual(
      Array.from({ length: 8 }, (_, nth) => [9 + nth, 20 + nth]),
    );
  });

  test('that is new is the last one, also of the same moment, and where the clock was set back', async () => {
    const context = await here();
    const rows = [1, 2, 3, 4, 5].map((nth) => evidence(nth, 'fork', true));
    for (const [looks, row] of rows.entries()) {
      row.foundAtMs = 100 - (looks % 2);
      await look(context, found({ evidence: [row], trust: { ...NEW_TRUST, looks } }));
    }
    const all = await context.store.read((reader) => evidenceOfAll(reader));
    expect(all.map(({ digest }) => digest)).toEqual(rows.map(({ digest }) => digest));
  });

  test('of one relay there are a hundred', async () => {
    const context = await here();
    const many = Array.from({ length: 101 }, (_, nth) => evidence(nth, 'fork', true, epochNumbered(nth)));
    await look(context, found({ evidence: many }));
    expect(await evidenceOf(context)).toHaveLength(100);
  });

  test('that is known, and was dismissed, stays dismissed', async () => {
    const context = await here();
    const row = evidence(1, 'fork', true);
    const dismissed = { ...row, number: 1, dismissedAtMs: 5 };
    await context.store.transact((tx) => tx.put('evidence', [relay.key, row.digest], dismissed));
    await look(context, found({ evidence: [row] }));
    expect(await evidenceOf(context)).toEqual([dismissed]);
  });
});

describe('what a paired host shows', () => {
  test('is stored and owes a look, when the relay that is pinned here signed it', async () => {
    const context = await here();
    await hear(context, entry(3, { relay: carol.key }), entry(3, { checkpoint: noteOf(3).replace('3', '4') }));
    expect((await known(context)).pending).toEqual([]);
    expect(context.told).not.toContainEqual({ type: 'relay-note-heard' });
    await hear(context, entry(3));
    expect(context.told).toContainEqual({ type: 'relay-note-heard' });
    expect((await known(context)).pending).toMatchObject([{ peerId: BOB, epoch: EPOCH, note: noteOf(3) }]);
  });

  test('and contradicts a note of this host is evidence at once', async () => {
    const context = await here();
    await look(context, found({ kept: [kept(3)] }));
    await hear(context, entry(3, { checkpoint: noteOf(3, 99) }));
    expect(await evidenceOf(context)).toMatchObject([{ kind: 'fork', isSigned: true }]);
  });

  test('again and again is compared once, also with other bytes that the note was not signed after', async () => {
    const context = await here();
    for (let nth = 0; nth < 3; nth++) {
      await hear(context, entry(3, { knew: Buffer.alloc(KNEW_BYTES, nth).toString('base64') }));
      await look(context, found({ pendingOver: (await known(context)).pending, trust: { ...NEW_TRUST, looks: nth } }));
    }
    expect((await known(context)).pending).toEqual([]);
    expect(context.told.filter(({ type }) => type === 'relay-note-heard')).toHaveLength(1);
  });

  test('and found no room behind a larger one that waits is heard when it comes again', async () => {
    const context = await here();
    expect(await hear(context, entry(5), entry(3, { relay: carol.key }))).toEqual([entry(5)]);
    expect(await hear(context, entry(3), entry(5))).toEqual([entry(5)]);
    await look(context, found({ pendingOver: (await known(context)).pending }));
    expect(await hear(context, entry(3))).toEqual([entry(3)]);
    expect((await known(context)).pending).toMatchObject([{ note: noteOf(3) }]);
  });

  test('in a transaction that fails is heard when it comes again', async () => {
    const context = await here();
    const failing = context.store.transact(async (tx) => {
      await hearSeen(tx, context, BOB, [entry(3)]);
      throw new Error('no room');
    });
    await expect(failing).rejects.toThrow('no room');
    await hear(context, entry(3));
    expect((await known(context)).pending).toHaveLength(1);
  });
});

test('a host is told of the relay that it is known to use too, and of no other', async () => {
  const context = await here();
  const told = (peer: PeerRow): Promise<SeenEntry[]> =>
    context.store.read((reader) => seenForPeer(reader, context, peer, 0));
  expect(await told(bobAt(relay.key))).toEqual([]);
  await look(context, found());
  expect(await told(bobAt(relay.key))).toMatchObject([{ relay: relay.key, checkpoint: noteOf(1) }]);
  expect(await told(bobAt())).toEqual([]);
  expect(await told(bobAt(carol.key))).toEqual([]);
});
