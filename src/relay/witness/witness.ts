/**
 * A witness of relays whose keys are pinned (c2sp.org/tlog-witness): it cosigns a checkpoint after it has seen that the
 * log continues the one that it knows.
 *
 * Invariants:
 *   - what is cosigned is durable before the answer is made, and to compare and to store is one step: of one relay, one
 *     request after another is decided;
 *   - of one relay one epoch at a time is cosigned. Another is opened for good by its link, under a checkpoint that the
 *     relay signed after the newest note that the witness has; so nobody can open an old one from what a relay shows.
 */
import { type Checkpoint, plainNote } from '../../protocol/checkpoint.ts';
import { type AddCheckpoint, cosignatureLine, parseAddCheckpoint } from '../../protocol/cosignature.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import { isObject } from '../../protocol/json.ts';
import { verifyConsistency } from '../../protocol/merkle.ts';
import { type PublicKey, hostFingerprint } from '../../protocol/public-key.ts';
import { noteBytes } from '../../protocol/seen.ts';
import { checkProofs, NotVerified } from '../replay/proof-check.ts';
import type { WitnessedEpoch, WitnessStore } from './witness-store.ts';

interface WitnessOptions {
  store: WitnessStore;
  name: string;
  signer: Signer;
  relays: readonly PublicKey[];
  nowMs: () => number;
  /** Gets the texts when a relay signed two roots for one size of one epoch. */
  onContradiction: (relayPubkey: PublicKey, notes: readonly [string, string]) => void;
}

/** `cosigned` has the line of the cosignature, without a newline; every refusal a sentence. */
export type WitnessAnswer =
  | { type: 'cosigned'; line: string }
  | { type: 'opened' }
  | { type: 'other size'; size: number }
  | { type: 'malformed' | 'unknown' | 'not signed' | 'not open' | 'not consistent'; why: string };

interface PinnedRelay {
  relayPubkey: PublicKey;
  fingerprint: Sha256Hex;
  /** Ends when the last request that came is decided. */
  decided: Promise<unknown>;
}

export class Witness {
  readonly #options: WitnessOptions;
  readonly #relays: readonly PinnedRelay[];

  constructor(options: WitnessOptions) {
    this.#options = options;
    this.#relays = options.relays.map((relayPubkey) => ({
      relayPubkey,
      fingerprint: hostFingerprint(relayPubkey),
      decided: Promise.resolve(),
    }));
  }

  /** The epochs of a relay that is pinned. */
  epochs(fingerprint: string): { relayPubkey: PublicKey; epochs: readonly WitnessedEpoch[] } | undefined {
    const relay = this.#relays.find((one) => one.fingerprint === fingerprint);
    return relay && { relayPubkey: relay.relayPubkey, epochs: this.#options.store.epochs(relay.fingerprint) };
  }

  /** Rejects with an error of the disk; nothing is cosigned then. */
  async addCheckpoint(body: string): Promise<WitnessAnswer> {
    const asked = parseAddCheckpoint(body);
    if (!asked) return { type: 'malformed', why: 'the body is no request of add-checkpoint' };
    const relay = this.#relays.find(({ fingerprint }) => asked.note.startsWith(`poste/${fingerprint}/`));
    if (!relay) return { type: 'unknown', why: 'the origin is of no relay that is pinned here' };
    const plain = plainNote(asked.note, relay.relayPubkey);
    if (!plain) return { type: 'not signed', why: 'the note is no plain checkpoint that the relay signed' };
    if (asked.old > plain.checkpoint.size) return { type: 'malformed', why: 'the old size is above that of the note' };
    return oneAfterAnother(relay, () => this.#compareAndStore(relay, { ...asked, ...plain }));
  }

  /** Opens an epoch by an answer of `log/link`. Rejects with an error of the disk. */
  async addEpoch(document: unknown): Promise<WitnessAnswer> {
    if (!isObject(document)) return { type: 'malformed', why: 'the body is no answer of log/link' };
    const { relay_pubkey: key, checkpoint: note } = document;
    const relay = this.#relays.find(({ relayPubkey }) => relayPubkey === key);
    if (!relay) return { type: 'unknown', why: 'the link is of no relay that is pinned here' };
    const plain = typeof note === 'string' ? plainNote(note, relay.relayPubkey) : undefined;
    if (!plain) return { type: 'not signed', why: 'the checkpoint of the link is no plain one that the relay signed' };
    if (!isLink(document, relay.relayPubkey)) return { type: 'not consistent', why: 'the link does not verify' };
    // Nothing else is stored of what anybody may send.
    const { record_b64, proof } = document;
    const { epoch } = plain.checkpoint;
    const link = { relay_pubkey: key, epoch, checkpoint: plain.note, index: 0, record_b64, proof };
    return oneAfterAnother(relay, () => this.#open(relay, plain, link));
  }

  async #compareAndStore(
    { relayPubkey, fingerprint }: PinnedRelay,
    { old, proof, note, checkpoint }: AddCheckpoint & { checkpoint: Checkpoint },
  ): Promise<WitnessAnswer> {
    const { store, name, signer, nowMs, onContradiction } = this.#options;
    const { epoch, size, rootHash } = checkpoint;
    const current = store.epochs(fingerprint).at(-1);
    if (current && current.epoch !== epoch)
      return { type: 'not open', why: `epoch ${current.epoch} is open here: add-epoch opens the one behind it` };
    const known = current && plainNote(current.note, relayPubkey)?.checkpoint;
    if (current && !known) throw new Error('invariant: a note that was taken is one of the relay');
    if (old !== (known?.size ?? 0)) return { type: 'other size', size: known?.size ?? 0 };
    const isNew = known?.size !== size;
    if (known && !isNew && !known.rootHash.equals(rootHash)) onContradiction(relayPubkey, [current.note, note]);
    const isContinued = known
      ? verifyConsistency({ from: old, to: size, proof, fromRoot: known.rootHash, toRoot: rootHash })
      : size > 0 && proof.length === 0;
    if (!isContinued) return { type: 'not consistent', why: 'the checkpoint does not continue the one that is known' };
    const atMs = nowMs();
    if (isNew)
      await store.put(fingerprint, { ...(current ?? { epoch, link: null, openedAtMs: atMs }), note, notedAtMs: atMs });
    return { type: 'cosigned', line: cosignatureLine(note, name, signer, Math.floor(atMs / 1000)) };
  }

  async #open(
    { fingerprint }: PinnedRelay,
    { note, checkpoint }: { note: string; checkpoint: Checkpoint },
    link: unknown,
  ): Promise<WitnessAnswer> {
    const { store, nowMs } = this.#options;
    const { epoch, after } = checkpoint;
    const epochs = store.epochs(fingerprint);
    const current = epochs.at(-1);
    if (current?.epoch === epoch) return { type: 'opened' };
    if (epochs.some((one) => one.epoch === epoch))
      return { type: 'not open', why: 'another epoch was opened behind this one, which is not cosigned any more' };
    if (current && after?.equals(noteBytes(current.note)) !== true)
      return { type: 'not open', why: 'the relay is to sign the checkpoint after the newest note that is known here' };
    const atMs = nowMs();
    await store.put(fingerprint, { epoch, note, link, openedAtMs: atMs, notedAtMs: atMs });
    return { type: 'opened' };
  }
}

async function oneAfterAnother<T>(relay: PinnedRelay, decide: () => Promise<T>): Promise<T> {
  const before = relay.decided;
  const decided = before.then(decide);
  relay.decided = decided.catch(() => undefined);
  return decided;
}

function isLink(document: unknown, relayKey: PublicKey): boolean {
  try {
    return checkProofs({ proofs: [document], relayKey }).verified.some(({ check }) => check === 'link');
  } catch (error) {
    if (error instanceof NotVerified) return false;
    throw error;
  }
}
