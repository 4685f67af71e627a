/** Rotations by hand: the record of docs/protocol.md and its two signatures, each part of which may be wrong. */
import { canonicalize } from 'json-canonicalize';
import type { RotationRow } from '../../src/relay/core/rows.ts';
import type { TestHost } from './hosts.ts';
import { NOON_MS } from './test-clock.ts';

export interface RotationChanges {
  /** Put over the record before it is signed. */
  rec?: Readonly<Record<string, unknown>>;
  /** Put over the record after it is signed. */
  sent?: Readonly<Record<string, unknown>>;
  oldSigner?: TestHost;
  newSigner?: TestHost;
}

export interface RotationBody {
  rotation: { rec: Record<string, unknown>; old_sig: string; new_sig: string };
}

/** The body of `POST /v2/relay/rotate`: the host of `from` goes on as `to`. */
export function rotationBody(from: TestHost, to: TestHost, changes: RotationChanges = {}): RotationBody {
  const rec = { v: 1, type: 'host-rotation', old_pubkey: from.key, new_pubkey: to.key, iat: NOON_MS, ...changes.rec };
  const message = Buffer.from(canonicalize(rec));
  return {
    rotation: {
      rec: { ...rec, ...changes.sent },
      old_sig: (changes.oldSigner ?? from).signer.sign(message),
      new_sig: (changes.newSigner ?? to).signer.sign(message),
    },
  };
}

/** The record that the host of `from` goes on as `to`, as a relay keeps it. */
export function signedRotation(from: TestHost, to: TestHost): RotationRow {
  const { rec, old_sig: oldSig, new_sig: newSig } = rotationBody(from, to).rotation;
  return { record: canonicalize(rec), oldSig, newSig };
}
