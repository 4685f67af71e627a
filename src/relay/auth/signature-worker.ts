/**
 * The thread that makes and verifies the signatures which signature-thread.ts hands it.
 *
 * Texts to sign come as one string, with a line break after each, and their signatures go back as one string, each in
 * base64: a string crosses between threads for less than its parts would. Receipts that are signed together come as one
 * string too, and so do the paths of their tree go back.
 */
import type { KeyObject } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import { receiptStatement } from '../../protocol/documents.ts';
import { signingWith, verifySignature } from '../../protocol/ed25519.ts';
import type { PublicKey } from '../../protocol/public-key.ts';

/** The thread's task: the key that it signs with. */
export interface SignatureTask {
  key: KeyObject;
  publicKey: PublicKey;
}

export interface SignatureWork {
  texts: string;
  /** A key, a message and a signature for each that is to be verified; the message as a string of bytes. */
  claims: string[];
  /** The receipts of each tree, with a line break after each. */
  trees: string[];
}

export interface SignatureAnswer {
  signatures: string;
  /** True for each claim that is right. */
  valid: boolean[];
  trees: SignedTree[];
}

/** A statement over receipts, signed. */
export interface SignedTree {
  /** Its canonical text, and its signature in base64. */
  text: string;
  signature: string;
  /** The paths of the receipts one behind another, with one character for each byte. */
  paths: string;
}

const { key, publicKey } = workerData as SignatureTask;
const sign = signingWith(key);
const port = parentPort;

function linesOf(texts: string): string[] {
  return texts.split('\n').slice(0, -1);
}

port?.on('message', ({ texts, claims, trees }: SignatureWork) => {
  const valid: boolean[] = [];
  for (let at = 0; at < claims.length; at += 3) {
    const [by, message, signature] = claims.slice(at, at + 3) as [PublicKey, string, string];
    valid.push(verifySignature(by, Buffer.from(message, 'latin1'), signature));
  }
  let signatures = '';
  for (const text of linesOf(texts)) signatures += sign(Buffer.from(text));
  const signedTrees = trees.map((receipts): SignedTree => {
    const { text, paths } = receiptStatement(publicKey, linesOf(receipts));
    return { text, signature: sign(Buffer.from(text)), paths: paths.toString('latin1') };
  });
  const answer: SignatureAnswer = { signatures, valid, trees: signedTrees };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
  port.postMessage(answer);
});
