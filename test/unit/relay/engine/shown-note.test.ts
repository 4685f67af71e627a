/** Which notes of its own a relay's log contradicts: POST /v2/relay/log/checkpoint. */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type Checkpoint, openCheckpoint, signCheckpoint } from '../../../../src/protocol/checkpoint.ts';
import { afterOf, makeKnew, noteHash } from '../../../../src/protocol/seen.ts';
import { pushOf, rotateEpochOf } from '../../../support/commands.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob, relay as relayHost } from '../../../support/hosts.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';
import { found } from '../../../support/found.ts';

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
