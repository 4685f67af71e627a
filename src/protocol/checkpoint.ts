/**
 * Checkpoints of the relay's log (c2sp.org/tlog-checkpoint@v1): what the relay signs of a tree of one epoch.
 *
 *     poste/<host_fp of the relay key>/<epoch>
 *     <size>
 *     <base64 of the root hash>
 *
 * The first line is the origin, and the name of the signing key too: one log for each relay key and epoch. A relay
 * signs no two checkpoints of one origin that are not consistent.
 */
import { decodeBase64 } from './base64.ts';
import type { Signer } from './ed25519.ts';
import type { Epoch } from './epoch.ts';
import { HASH_BYTES } from './merkle.ts';
import { type PublicKey, hostFingerprint } from './public-key.ts';
import { openNote, signNote } from './signed-note.ts';

export interface Checkpoint {
  epoch: Epoch;
  /** Leaves of the tree. */
  size: number;
  rootHash: Buffer;
}

export function signCheckpoint({ epoch, size, rootHash }: Checkpoint, signer: Signer): string {
  const origin = `${originOf(signer.publicKey)}${epoch}`;
  return signNote(`${origin}\n${size}\n${rootHash.toString('base64')}\n`, origin, signer);
}

/** What the note says, when it is a checkpoint that the relay with this key signed. */
export function openCheckpoint(note: string, relayPubkey: PublicKey): Checkpoint | undefined {
  const [origin = ''] = note.split('\n', 1);
  const relay = originOf(relayPubkey);
  const epoch = origin.startsWith(relay) ? origin.slice(relay.length) : '';
  const text = epoch === '' ? undefined : openNote(note, origin, relayPubkey);
  if (text === undefined) return undefined;
  const [, sizeText = '', root = '', ...extensions] = text.slice(0, -1).split('\n');
  const rootHash = decodeBase64(root);
  const size = Number(sizeText);
  if (!/^(?:0|[1-9][0-9]*)$/.test(sizeText) || !Number.isSafeInteger(size)) return undefined;
  if (rootHash?.length !== HASH_BYTES || extensions.includes('')) return undefined;
  return { epoch: epoch as Epoch, size, rootHash };
}

function originOf(relayPubkey: PublicKey): string {
  return `poste/${hostFingerprint(relayPubkey)}/`;
}
