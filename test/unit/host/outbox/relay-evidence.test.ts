/** The evidence against relays, as its owner lists, exports and dismisses it, and the messages about it. */
import { describe, expect, test } from 'vitest';
import { isRefusal } from '../../../../src/host/core/refusal.ts';
import { OWNER_ID, type PeerId, type PeerRow } from '../../../../src/host/core/rows.ts';
import {
  dismissEvidence,
  listEvidence,
  openEvidence,
  showEvidence,
} from '../../../../src/host/outbox/relay-evidence.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { checkEvidence } from '../../../../src/relay/replay/evidence-check.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { oracleVerdict } from '../../../support/evidence-oracle.ts';
import { evidenceRow, findEvidence, forkRow } from '../../../support/evidence-rows.ts';
import { alice, relay } from '../../../support/hosts.ts';
import { SignedLog } from '../../../support/signed-log.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';

const BOB = 'bob' as PeerId;
const URL = 'https://relay.example';

/** A host with this relay pinned, and paired with bob. */
async function here(): Promise<TestContext> {
  const context = await testContext();
  await context.store.transact((tx) => {
    const pinned = { url: URL, pubkey: relay.key, pinnedAtMs: 0, seenKey: null, proof: null };
    tx.put('relay', [], { ...pinned, epoch: epochNumbered(1), sendersIatMs: 0 });
    tx.put('peer', [BOB], { peerId: BOB, hostName: 'bobs-host' } as unknown as PeerRow);
  });
  return context;
}

interface OwnersMail {
  subject: string;
  kind: string;
  body: string;
}

function mailOf(context: TestContext): Promise<OwnersMail[]> {
  return context.store.read(async (reader) => {
    const mail: OwnersMail[] = [];
    for await (const { row } of reader.range('entry', [OWNER_ID])) {
      const { subject, kind } = reader.get('message', row.ref)!;
      mail.push({ subject, kind, body: reader.get('body', row.ref) ?? '' });
    }
    return mail;
  });
}

describe('the list', () => {
  test('has the oldest first, of every relay, and keeps its numbers when more is found', async () => {
    const context = await here();
    expect(await listEvidence(context)).toEqual({ evidence: [] });
    await findEvidence(context, [forkRow(2)]);
    await findEvidence(context, [forkRow(3, {}, alice)], {}, alice);
    await findEvidence(context, [forkRow(4, { foundAtMs: NOON_MS + 9 })]);
    const { evidence } = await listEvidence(context);
    expect(evidence.map(({ number, epoch, fingerprint }) => [number, epoch, fingerprint])).toEqual([
      [1, epochNumbered(2), displayFingerprint(relay.key)],
      [2, epochNumbered(3), displayFingerprint(alice.key)],
      [3, epochNumbered(4), displayFingerprint(relay.key)],
    ]);
    expect(evidence[0]).toMatchObject({
      kind: 'fork',
      signed: true,
      sentence: `The relay signed two histories of its epoch ${epochNumbered(2)}.`,
      hosts: [],
      item_id: null,
      dismissed_at: null,
    });
  });
});

describe('one piece of evidence', () => {
  test('is exported as a document that proves itself, with what the notes knew and the proofs', async () => {
    const context = await here();
    const log = SignedLog.begin(1).grow('a', 'b');
    const larger = log.sign();
    const smaller = log.sign({ size: 2, after: [larger] });
    const proof = [log.consistency(2)];
    await findEvidence(context, [evidenceRow([larger, smaller], { kind: 'set-back-unsaid', proof })]);
    const shown = await showEvidence(context, { number: 1 });
    if (isRefusal(shown)) throw new Error(shown.message);
    expect(shown.document).toEqual({
      v: 1,
      type: 'relay-evidence',
      kind: 'set-back-unsaid',
      relay_pubkey: relay.key,
      notes: [larger.note, smaller.note],
      knew: [smaller.knew],
      proof,
    });
    expect(checkEvidence(shown.document, relay.key).verdict).toBe('contradict');
    expect(oracleVerdict(shown.document as never, relay.key)).toBe('contradict');
  });

  test('names the paired hosts that showed its notes, and one that is not known any more', async () => {
    const context = await here();
    const log = SignedLog.begin(1).grow('a', 'b');
    const notes = [
      { ...log.sign(), peerId: BOB },
      { ...log.sign({ size: 2 }), peerId: 'gone' as PeerId },
    ];
    await findEvidence(context, [evidenceRow(notes, { kind: 'withheld' })]);
    const [shown] = (await listEvidence(context)).evidence;
    expect(shown?.hosts).toEqual(['bobs-host', 'a host that is unknown by now']);
    expect(shown?.sentence).toBe(
      `The relay showed bobs-host and a host that is unknown by now more of its epoch ${log.epoch} than it showed ` +
        'this host later.',
    );
  });

  test('that is not there is refused, and nothing changes', async () => {
    const context = await here();
    await findEvidence(context, [forkRow()]);
    const refused = { code: 'NO_SUCH_ROW', message: 'There is no evidence 2: see poste relay evidence.' };
    expect(await showEvidence(context, { number: 2 })).toMatchObject(refused);
    expect(await dismissEvidence(context, { number: 2 })).toMatchObject(refused);
    expect((await listEvidence(context)).evidence[0]?.dismissed_at).toBeNull();
  });

  test('stays in the list when it is dismissed, with the first time, and is open no more', async () => {
    const context = await here();
    await findEvidence(context, [forkRow()]);
    const open = () => context.store.read((reader) => openEvidence(reader, relay.key));
    expect(await open()).toMatchObject([{ number: 1 }]);
    const dismissed = await dismissEvidence(context, { number: 1 });
    expect(await dismissEvidence(context, { number: 1 })).toEqual(dismissed);
    expect((await listEvidence(context)).evidence).toEqual([dismissed]);
    expect(dismissed).toMatchObject({ number: 1, dismissed_at: expect.any(String) as string });
    expect(await open()).toEqual([]);
    // The same finding does not bring it back.
    await findEvidence(context, [forkRow()]);
    expect(await open()).toEqual([]);
  });
});

describe('the owner', () => {
  test('gets one alert once an epoch and kind, which names both causes and what to do', async () => {
    const context = await here();
    await findEvidence(context, [forkRow()]);
    const [alert, ...more] = await mailOf(context);
    expect(more).toEqual([]);
    expect(alert).toEqual({
      subject: `A relay with two histories: ${URL}`,
      kind: 'alert',
      body:
        `The relay signed two histories of its epoch ${epochNumbered(1)}. Either its operator lies, or somebody put ` +
        'a copy of its store back without poste relay rotate-epoch. Mail goes on, over the LAN where that reaches ' +
        'the other host. Ask its operator, who can check what poste relay evidence export 1 <file> writes. ' +
        'poste relay evidence dismiss 1 ends this warning.',
    });
    const log = SignedLog.begin(1).grow('c', 'd');
    const other = evidenceRow([log.sign(), log.copy(2).grow('e').sign()]);
    await findEvidence(context, [other]);
    await findEvidence(context, [forkRow()]);
    expect(await mailOf(context)).toHaveLength(1);
    await findEvidence(context, [{ ...other, digest: forkRow(7).digest, kind: 'withheld' }]);
    await findEvidence(context, [forkRow(2)]);
    expect(await mailOf(context)).toHaveLength(3);
  });

  test('gets no alert of what rests on the word of a paired host, and one when the relay signs it', async () => {
    const context = await here();
    const log = SignedLog.begin(1).grow('a', 'b');
    const notes = [{ ...log.sign(), peerId: BOB }, log.sign({ size: 2 })];
    await findEvidence(context, [evidenceRow(notes, { kind: 'withheld', isSigned: false })]);
    expect(await mailOf(context)).toEqual([]);
    expect((await listEvidence(context)).evidence[0]?.sentence).toContain('This rests on the word of bobs-host: ');
    const signed = [notes[0]!, log.sign({ size: 2, after: [notes[0]!] })];
    await findEvidence(context, [evidenceRow(signed, { kind: 'withheld' })]);
    expect(await mailOf(context)).toHaveLength(1);
  });

  test('gets an alert of what this host saw itself, without a word of whose word it is', async () => {
    const context = await here();
    const log = SignedLog.begin(1).grow('a');
    const seen = [log.sign(), SignedLog.begin(2).sign()];
    await findEvidence(context, [evidenceRow(seen, { kind: 'set-back-unsaid', isSigned: false })]);
    const [alert] = await mailOf(context);
    expect(alert?.body).toContain('did not begin a new epoch. Either its operator lies');
  });

  test('gets an alert of what is not in the log, and of what is not proven, in other words', async () => {
    const context = await here();
    const note = SignedLog.begin(1).grow('a').sign();
    const item = { itemId: 'm1' as never, rowId: 5 };
    await findEvidence(context, [evidenceRow([note], { kind: 'not-in-log', isSigned: false, item })]);
    await findEvidence(context, [evidenceRow([note, note], { kind: 'unproven', isSigned: false })]);
    const [left, unproven] = await mailOf(context);
    expect(left?.subject).toBe(`A relay that left accepted mail out of its log: ${URL}`);
    expect(left?.body).toContain('accepted the item m1, and says that its log has no such item. Either its operator');
    expect(left?.body).not.toContain('rotate-epoch');
    expect(unproven?.subject).toBe(`A relay that does not prove its log: ${URL}`);
  });

  test('hears, without an alert, that the relay says itself that it was set back', async () => {
    const context = await here();
    await findEvidence(context, [], { setBack: { epoch: epochNumbered(1), signed: 53, goesOnFrom: 48 } });
    expect(await mailOf(context)).toEqual([
      {
        subject: `The relay was set back: ${URL}`,
        kind: 'status',
        body:
          `It had signed 53 records of epoch ${epochNumbered(1)} and goes on from 48 in a new epoch, as it says ` +
          'itself. This host sends again what nobody has confirmed.',
      },
    ]);
    expect(await listEvidence(context)).toEqual({ evidence: [] });
  });
});
