/**
 * The thread that makes and verifies the signatures which signature-thread.ts hands it.
 *
 * Texts to sign come as one string, with a line break after each, and their signatures go back as one string, each in
 * base64: a string crosses between threads for less than its parts would.
 */
import type { KeyObject } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import { signingWith, verifySignature } from '../../protocol/ed25519.ts';
import type { PublicKey } from '../../protocol/public-key.ts';

/** The thread's task: the key that it signs with. */
export interface SignatureTask {
  key: KeyObject;
}

export interface SignatureWork {
  texts: string;
  /** A key, a message and a signature for each that is to be verified; the message as a string of bytes. */
  claims: string[];
}

export interface SignatureAnswer {
  signatures: string;
  /** True for each claim that is right. */
  valid: boolean[];
}

const sign = signingWith((workerData as SignatureTask).key);
const port = parentPort;

port?.on('message', ({ texts, claims }: SignatureWork) => {
  const valid: boolean[] = [];
  for (let at = 0; at < claims.length; at += 3) {
    const [by, message, signature] = claims.slice(at, at + 3) as [PublicKey, string, string];
    valid.push(verifySignature(by, Buffer.from(message, 'latin1'), signature));
  }
  let signatures = '';
  for (const text of texts.split('\n').slice(0, -1)) signatures += sign(Buffer.from(text));
  const answer: SignatureAnswer = { signatures, valid };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
  port.postMessage(answer);
});
