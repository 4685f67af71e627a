/**
 * Makes and verifies signatures in a thread of its own (signature-worker.ts), so that they cost the event loop next to
 * nothing: a verification takes 50 to 100 µs, a signature 20 to 40. To hand one to the thread pool costs 12; what comes
 * in one turn of the event loop, and what waits here while the thread works, goes to it together, up to a few
 * milliseconds' work: one request is answered while the receipts of another are signed, and none waits to be verified
 * behind hundreds of receipts. Verifications go first, as a request begins with one, and leave half of the room to what
 * waits for its signatures. Receipts that are signed together are hashed there as well, one tree a message.
 *
 * The thread begins when it is first asked. Until it runs, where there is none to be had, and after it ended, the
 * thread pool signs, and the caller's thread verifies.
 */
import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { receiptStatement } from '../../protocol/documents.ts';
import { SIGNATURE_CHARACTERS, type Signer, verifySignature } from '../../protocol/ed25519.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { SignatureAnswer, SignatureTask, SignatureWork, SignedTree } from './signature-worker.ts';

/** It lies beside this file in the bundle. In the sources there is none: a thread does not run TypeScript. */
const WORKER = extname(import.meta.url) === '.js' ? new URL('./signature-worker.js', import.meta.url) : undefined;
/** While the answer to one message comes back, the thread has another. */
const MESSAGES_AT_ONCE = 2;

/** Signatures that go to the thread as one message; a verification takes as long as two. */
const SIGNATURES_A_MESSAGE = 48;
const SIGNATURES_A_VERIFICATION = 2;
/** The hashes of a tree of 200 receipts take as long. */
const SIGNATURES_A_TREE = 24;
/** So many texts go along where the verifications and the tree of a message leave less room. */
const LEAST_TEXTS = 12;

/** Goes to the thread in one message or in several. */
interface Signing {
  texts: readonly string[];
  /** The number of texts that went to the thread. */
  handedOver: number;
  signatures: string[];
  resolve: (signatures: string[] | Promise<string[]>) => void;
}

/** A run of texts of one signing. */
interface SigningPart {
  signing: Signing;
  from: number;
  through: number;
}

interface Verification {
  key: PublicKey;
  message: Buffer;
  signature: string;
  resolve: (isValid: boolean) => void;
}

interface TreeSigning {
  receipts: readonly string[];
  resolve: (tree: SignedTree | Promise<SignedTree>) => void;
}

/** The work that went to the thread as one message. */
interface ThreadWork {
  trees: TreeSigning[];
  parts: SigningPart[];
  verifications: Verification[];
}

export type Signatures = Pick<SignatureThread, 'sign' | 'signTree' | 'verify'>;

export class SignatureThread {
  readonly #signer: Signer;
  readonly #file: URL | undefined;
  #worker: Worker | undefined;
  #isRunning = false;
  #isEnded = false;
  /** The messages that are not answered yet, the oldest first. */
  #asked: ThreadWork[] = [];
  #signings: Signing[] = [];
  #trees: TreeSigning[] = [];
  #verifications: Verification[] = [];
  #asksSoon = false;

  constructor(signer: Signer, file: URL | undefined = WORKER) {
    this.#signer = signer;
    this.#file = availableParallelism() > 1 ? file : undefined;
  }

  /** Signs the UTF-8 bytes of each text; none has a line break. Signatures are base64, in the order of the texts. */
  async sign(texts: readonly string[]): Promise<string[]> {
    if (!this.#isAsked()) return this.#signInPool(texts);
    if (texts.length === 0) return [];
    return new Promise((resolve) => {
      this.#signings.push({ texts, handedOver: 0, signatures: [], resolve });
      this.#askSoon();
    });
  }

  /** Signs the statement over the tree of these receipts, which are canonical and have no line break. */
  async signTree(receipts: readonly string[]): Promise<SignedTree> {
    if (!this.#isAsked()) return this.#signTreeHere(receipts);
    return new Promise((resolve) => {
      this.#trees.push({ receipts, resolve });
      this.#askSoon();
    });
  }

  /** Verifies as `verifySignature` does. */
  async verify(key: PublicKey, message: Buffer, signature: string): Promise<boolean> {
    if (!this.#isAsked()) return verifySignature(key, message, signature);
    return new Promise((resolve) => {
      this.#verifications.push({ key, message, signature, resolve });
      this.#askSoon();
    });
  }

  /** Ends the thread. The work that it was given is done all the same. */
  async close(): Promise<void> {
    this.#isEnded = true;
    await this.#worker?.terminate();
  }

  /** Returns true when the thread runs; starts it when it does not. */
  #isAsked(): boolean {
    if (!this.#isRunning) this.#start();
    return this.#isRunning;
  }

  #start(): void {
    if (!this.#file || this.#worker || this.#isEnded) return;
    const { privateKey: key, publicKey } = this.#signer;
    const workerData: SignatureTask = { key, publicKey };
    try {
      this.#worker = new Worker(this.#file, { workerData, name: 'poste-signature' });
    } catch {
      this.#isEnded = true;
      return;
    }
    this.#worker.unref();
    this.#worker.on('online', () => (this.#isRunning = !this.#isEnded));
    this.#worker.on('message', (answer: SignatureAnswer) => this.#answered(answer));
    // An error is followed by the exit.
    this.#worker.on('error', () => undefined);
    this.#worker.on('exit', () => this.#ended());
  }

  /** Asks at the end of this turn of the event loop: a message costs as much as ten of those that go with it. */
  #askSoon(): void {
    if (this.#asksSoon || this.#asked.length >= MESSAGES_AT_ONCE) return;
    this.#asksSoon = true;
    setImmediate(() => {
      this.#asksSoon = false;
      this.#ask();
    });
  }

  #ask(): void {
    while (
      this.#signings.length + this.#trees.length + this.#verifications.length > 0 &&
      this.#asked.length < MESSAGES_AT_ONCE
    ) {
      const asked = this.#nextMessage();
      const { parts, trees, verifications } = asked;
      this.#asked.push(asked);
      const work: SignatureWork = {
        texts: parts.map(({ signing, from, through }) => linesOf(signing.texts.slice(from, through))).join(''),
        claims: verifications.flatMap(({ key, message, signature }) => [key, message.toString('latin1'), signature]),
        trees: trees.map(({ receipts }) => linesOf(receipts)),
      };
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
      this.#worker?.postMessage(work);
    }
  }

  #nextMessage(): ThreadWork {
    const most = SIGNATURES_A_MESSAGE / SIGNATURES_A_VERIFICATION;
    // However many come, as with wrong signatures from anywhere, what was accepted gets its receipts.
    const isSigned = this.#signings.length + this.#trees.length > 0;
    const verifications = this.#verifications.splice(0, isSigned ? most / 2 : most);
    const trees = this.#trees.splice(0, 1);
    const taken = SIGNATURES_A_VERIFICATION * verifications.length + SIGNATURES_A_TREE * trees.length;
    let room = Math.max(SIGNATURES_A_MESSAGE - taken, LEAST_TEXTS);
    const parts: SigningPart[] = [];
    for (let [signing] = this.#signings; signing && room > 0; [signing] = this.#signings) {
      const from = signing.handedOver;
      const through = Math.min(from + room, signing.texts.length);
      parts.push({ signing, from, through });
      room -= through - from;
      signing.handedOver = through;
      if (through === signing.texts.length) this.#signings.shift();
    }
    return { parts, trees, verifications };
  }

  #answered({ signatures, valid, trees: signed }: SignatureAnswer): void {
    const { parts = [], trees = [], verifications = [] } = this.#asked.shift() ?? {};
    this.#ask();
    for (const [at, { resolve }] of verifications.entries()) resolve(valid[at] === true);
    for (const [at, { resolve }] of trees.entries()) resolve(signed[at] as SignedTree);
    let at = 0;
    for (const { signing, from, through } of parts) {
      for (let text = from; text < through; text++)
        signing.signatures.push(signatures.slice(at, (at += SIGNATURE_CHARACTERS)));
      if (through === signing.texts.length) signing.resolve(signing.signatures);
    }
  }

  #ended(): void {
    this.#isRunning = false;
    this.#isEnded = true;
    const begun = this.#asked.flatMap(({ parts }) => parts.map(({ signing }) => signing));
    for (const { texts, resolve } of new Set([...begun, ...this.#signings])) resolve(this.#signInPool(texts));
    const verifications = [...this.#asked.flatMap((asked) => asked.verifications), ...this.#verifications];
    for (const { key, message, signature, resolve } of verifications) resolve(verifySignature(key, message, signature));
    const trees = [...this.#asked.flatMap((asked) => asked.trees), ...this.#trees];
    for (const { receipts, resolve } of trees) resolve(this.#signTreeHere(receipts));
    this.#asked = [];
    this.#signings = [];
    this.#trees = [];
    this.#verifications = [];
  }

  async #signTreeHere(receipts: readonly string[]): Promise<SignedTree> {
    const { text, paths } = receiptStatement(this.#signer.publicKey, receipts);
    const signature = await this.#signer.signInPool(Buffer.from(text));
    return { text, signature, paths: paths.toString('latin1') };
  }

  #signInPool(texts: readonly string[]): Promise<string[]> {
    return Promise.all(texts.map((text) => this.#signer.signInPool(Buffer.from(text))));
  }
}

/** Each with a line break behind it. */
function linesOf(texts: readonly string[]): string {
  return texts.length === 0 ? '' : `${texts.join('\n')}\n`;
}
