import { describe, expect, test } from 'vitest';
import { signCheckpoint, signNote } from '../../../../src/protocol/checkpoint.ts';
import { addCheckpointBody, openCosignature } from '../../../../src/protocol/cosignature.ts';
import { logLinkBytes } from '../../../../src/protocol/log-link.ts';
import { hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { noteHash } from '../../../../src/protocol/seen.ts';
import { Witness } from '../../../../src/relay/witness/witness.ts';
import { WitnessStore } from '../../../../src/relay/witness/witness-store.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob, relay } from '../../../support/hosts.ts';
import { naiveConsistency, naivePath, naiveRoot } from '../../../support/merkle-oracle.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { atTestEnd } from '../../../support/test-end.ts';

const NAME = 'witness.example/w1';

/** The log of one epoch, as a list of leaves, and what its relay signs. */
class Log {
  readonly #epoch;
  readonly #leaves: Buffer[];

  constructor(epoch: number, before: Log | null = null, leaves?: Buffer[]) {
    this.#epoch = epochNumbered(epoch);
    const previous = before && {
      epoch: before.#epoch,
      size: before.#leaves.length,
      root_hash: naiveRoot(before.#leaves).toString('hex') as never,
    };
    this.#leaves = leaves ?? [logLinkBytes({ relay_pubkey: relay.key, epoch: this.#epoch, previous })];
  }

  grow(...texts: string[]): this {
    this.#leaves.push(...texts.map((text) => Buffer.from(text)));
    return this;
  }

  /** Another history: the first `size` leaves of this one. */
  copy(epoch: number, size = this.#leaves.length): Log {
    return new Log(epoch, null, this.#leaves.slice(0, size));
  }

  sign(after?: string): string {
    const head = { epoch: this.#epoch, size: this.#leaves.length, rootHash: naiveRoot(this.#leaves) };
    return signCheckpoint(after === undefined ? head : { ...head, after: hashOf(after) }, relay.signer);
  }

  /** What the relay posts to a witness that knows the first `old` leaves. */
  body(old: number): string {
    const proof = old === 0 ? [] : naiveConsistency(old, this.#leaves);
    return addCheckpointBody({ old, proof, note: this.sign() });
  }

  link(after?: string): Record<string, unknown> {
    return {
      relay_pubkey: relay.key,
      epoch: this.#epoch,
      checkpoint: this.sign(after),
      index: 0,
      record_b64: this.#leaves[0]?.toString('base64'),
      proof: naivePath(0, this.#leaves).map((one) => one.toString('base64')),
    };
  }
}

function hashOf(note: string): Buffer {
  return Buffer.from(noteHash(note), 'hex');
}

async function witnessAt(folder: string) {
  const store = await WitnessStore.open(folder);
  atTestEnd(() => store.close());
  const told: (readonly string[])[] = [];
  const witness = new Witness({
    store,
    name: NAME,
    signer: alice.signer,
    relays: [relay.key],
    nowMs: () => NOON_MS,
    onContradiction: (_relay, notes) => void told.push(notes),
  });
  return { store, witness, told };
}

async function newWitness() {
  return witnessAt(await temporaryFolder());
}

const other = (size: number) => ({ type: 'other size', size });

describe('add-checkpoint', () => {
  test('cosigns the first checkpoint, and each that continues the one before', async () => {
    const { witness } = await newWitness();
    const log = new Log(1).grow('a');
    expect(await witness.addCheckpoint(log.body(0))).toMatchObject({ type: 'cosigned' });
    const answer = await witness.addCheckpoint(log.grow('b', 'c').body(2));
    const line = answer.type === 'cosigned' ? answer.line : '';
    const opened = openCosignature(`${log.sign()}${line}\n`, { name: NAME, publicKey: alice.key });
    expect(opened?.timeS).toBe(NOON_MS / 1000);
  });

  test('cosigns an unchanged checkpoint again, with the time renewed and nothing written', async () => {
    const { witness, store } = await newWitness();
    const log = new Log(1).grow('a');
    await witness.addCheckpoint(log.body(0));
    const [before] = store.epochs(hostFingerprint(relay.key));
    expect(await witness.addCheckpoint(log.body(2))).toMatchObject({ type: 'cosigned' });
    expect(store.epochs(hostFingerprint(relay.key))[0]).toBe(before);
  });

  test('says the size that it knows when the old size is another', async () => {
    const { witness } = await newWitness();
    const log = new Log(1).grow('a', 'b');
    expect(await witness.addCheckpoint(log.body(1))).toEqual(other(0));
    await witness.addCheckpoint(log.body(0));
    expect(await witness.addCheckpoint(log.body(0))).toEqual(other(3));
    expect(await witness.addCheckpoint(log.copy(1, 2).body(2))).toEqual(other(3));
  });

  test('cosigns no second history: not of one size, and none that does not continue the first', async () => {
    const { witness, told } = await newWitness();
    const log = new Log(1).grow('a', 'b');
    const fork = log.copy(1, 2).grow('x');
    await witness.addCheckpoint(log.body(0));
    expect(await witness.addCheckpoint(fork.body(3))).toMatchObject({ type: 'not consistent' });
    expect(told).toEqual([[log.sign(), fork.sign()]]);
    expect(await witness.addCheckpoint(fork.grow('y').body(3))).toMatchObject({ type: 'not consistent' });
    expect(await witness.addCheckpoint(log.grow('c').body(3))).toMatchObject({ type: 'cosigned' });
  });

  test('decides one of two histories that come at once, whichever', async () => {
    const { witness } = await newWitness();
    const log = new Log(1).grow('a');
    await witness.addCheckpoint(log.body(0));
    const histories = ['b', 'x', 'y'].map((leaf) => log.copy(1).grow(leaf).body(2));
    const answers = await Promise.all(histories.map((body) => witness.addCheckpoint(body)));
    expect(answers.filter(({ type }) => type === 'cosigned')).toHaveLength(1);
  });

  test('remembers over a restart', async () => {
    const folder = await temporaryFolder();
    const { witness, store } = await witnessAt(folder);
    const log = new Log(1).grow('a', 'b');
    await witness.addCheckpoint(log.body(0));
    await store.close();
    const again = await witnessAt(folder);
    expect(await again.witness.addCheckpoint(log.copy(1, 1).grow('x', 'y').body(3))).toMatchObject({
      type: 'not consistent',
    });
    expect(await again.witness.addCheckpoint(log.grow('c').body(3))).toMatchObject({ type: 'cosigned' });
  });

  test('cosigns nothing any more after the disk refused a row', async () => {
    const { witness, store } = await newWitness();
    const log = new Log(1).grow('a');
    await witness.addCheckpoint(log.body(0));
    await store.close();
    await expect(witness.addCheckpoint(log.grow('b').body(2))).rejects.toThrow('not open');
    await expect(witness.addCheckpoint(log.copy(1, 2).grow('x').body(2))).rejects.toThrow('refused a row before');
    expect(await store.failed).toBeInstanceOf(Error);
  });

  const log = new Log(1).grow('a');
  const origin = log.sign().split('\n', 1)[0]!;
  test.each([
    ['malformed', 'no body', ''],
    ['malformed', 'an old size above its own', addCheckpointBody({ old: 3, proof: [], note: log.sign() })],
    ['unknown', 'another relay', log.body(0).replace(/poste\/[0-9a-f]{64}/, `poste/${hostFingerprint(bob.key)}`)],
    ['not signed', 'another root', log.body(0).replace('\n2\n', '\n3\n')],
    [
      'not signed',
      'lines of its own',
      addCheckpointBody({
        old: 0,
        proof: [],
        note: signNote(`${origin}\n2\n${Buffer.alloc(32).toString('base64')}\nmore\n`, origin, relay.signer),
      }),
    ],
    [
      'not consistent',
      'a proof from nothing',
      addCheckpointBody({ old: 0, proof: [Buffer.alloc(32)], note: log.sign() }),
    ],
    [
      'not consistent',
      'no leaf',
      addCheckpointBody({
        old: 0,
        proof: [],
        note: signCheckpoint({ epoch: epochNumbered(1), size: 0, rootHash: naiveRoot([]) }, relay.signer),
      }),
    ],
  ])('refuses as %s a note with %s', async (type, _what, body) => {
    const { witness } = await newWitness();
    expect(await witness.addCheckpoint(body)).toMatchObject({ type });
  });
});

async function withTwoEpochs() {
  const made = await newWitness();
  const first = new Log(1).grow('a');
  const second = new Log(2, first).grow('b');
  await made.witness.addCheckpoint(first.body(0));
  return { ...made, first, second };
}

describe('add-epoch', () => {
  test('opens the next epoch, and the one before is never cosigned again', async () => {
    const { witness, first, second } = await withTwoEpochs();
    expect(await witness.addCheckpoint(second.body(0))).toMatchObject({ type: 'not open' });
    expect(await witness.addEpoch(second.link(first.sign()))).toEqual({ type: 'opened' });
    expect(await witness.addCheckpoint(second.grow('c').body(2))).toMatchObject({ type: 'cosigned' });
    expect(await witness.addCheckpoint(first.grow('d').body(2))).toMatchObject({ type: 'not open' });
    expect(await witness.addEpoch(first.link(second.sign()))).toMatchObject({ type: 'not open' });
    expect(await witness.addEpoch(second.link(second.sign()))).toEqual({ type: 'opened' });
  });

  test('shows every epoch with its newest note and its link', async () => {
    const { witness, first, second } = await withTwoEpochs();
    const link = second.link(first.sign());
    await witness.addEpoch({ ...link, more: 'not kept' });
    const { epochs = [] } = witness.epochs(hostFingerprint(relay.key)) ?? {};
    expect(epochs.map((one) => [one.note, one.link])).toEqual([
      [first.sign(), null],
      [link['checkpoint'], link],
    ]);
    expect(witness.epochs(hostFingerprint(bob.key))).toBeUndefined();
  });

  test('a restore may skip an epoch that the witness never saw', async () => {
    const { witness, first } = await withTwoEpochs();
    const third = new Log(3, new Log(9).grow('z'));
    expect(await witness.addEpoch(third.link(first.sign()))).toEqual({ type: 'opened' });
  });

  test('nobody opens an epoch by what a relay shows to all: the relay signs it after the newest note', async () => {
    const { witness, first, second } = await withTwoEpochs();
    const old = first.sign();
    await witness.addCheckpoint(first.grow('c').body(2));
    expect(await witness.addEpoch(second.link())).toMatchObject({ type: 'not open' });
    expect(await witness.addEpoch(second.link(old))).toMatchObject({ type: 'not open' });
  });

  test.each([
    ['unknown', 'of another relay', { relay_pubkey: bob.key }],
    ['not signed', 'with a checkpoint of another', { checkpoint: signNote('x\n', 'x', relay.signer) }],
    ['not consistent', 'of another leaf', { record_b64: Buffer.from('b').toString('base64') }],
    ['not consistent', 'that is the proof of a record', { index: 1 }],
  ])('refuses as %s a link %s', async (type, _what, changes) => {
    const { witness, first, second } = await withTwoEpochs();
    expect(await witness.addEpoch({ ...second.link(first.sign()), ...changes })).toMatchObject({ type });
  });

  test.each<[unknown]>([[undefined], [null], ['link'], [[]]])(
    'refuses as malformed what is no document: %j',
    async (document) => {
      const { witness } = await newWitness();
      expect(await witness.addEpoch(document)).toMatchObject({ type: 'malformed' });
    },
  );
});

test('one folder has one witness', async () => {
  const folder = await temporaryFolder();
  await witnessAt(folder);
  await expect(WitnessStore.open(folder)).rejects.toThrow('another witness is using');
});
