/** Hosts with fixed keys, so that a failure repeats with the same bytes. */
import { hash } from 'node:crypto';
import { type Signer, signerFromSeed } from '../../src/protocol/ed25519.ts';
import type { HostName } from '../../src/protocol/names.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';

export interface TestHost {
  name: HostName;
  key: PublicKey;
  signer: Signer;
}

/** Key objects take a tenth of a millisecond to make, and some tests ask for the same hosts thousands of times. */
const signers = new Map<string, Signer>();

/** The host whose seed is the SHA-256 of its name: the same name is always the same key. */
export function hostNamed(name: string): TestHost {
  const signer = signers.get(name) ?? signerFromSeed(hash('sha256', name, 'buffer'));
  signers.set(name, signer);
  return { name: name as HostName, key: signer.publicKey, signer };
}

export const alice = hostNamed('alice');
export const bob = hostNamed('bob');
export const carol = hostNamed('carol');
export const dave = hostNamed('dave');
/** The relay's own key. */
export const relay = hostNamed('relay');
