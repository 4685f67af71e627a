/**
 * Makes and verifies signatures in a thread of its own (signature-worker.ts), so that they cost the event loop next to
 * nothing: a verification takes 100 µs, a signature 40. To hand one to the thread pool costs 12; what comes in one turn of
 * the event loop, and what waits here while the thread works, goes to it together.
 *
 * The thread begins when it is first asked. Until it runs, where there is none to be had, and after it ended, the thread pool
 * signs, and the caller's thread verifies.
 */
import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { SIGNATURE_CHARACTERS, type Signer, verifySignature } from '../../protocol/ed25519.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { SignatureAnswer, SignatureTask, SignatureWork } from './signature-worker.ts';

/** Beside this file in the bundle. In the sources there is none: a thread does not run TypeScript. */
const WORKER = extname(import.meta.url) === '.js' ? new URL('./signature-worker.js', import.meta.url) : undefined;
/** While the answer to one message comes back, the thread has another. */
const MESSAGES_AT_ONCE = 2;

interface Signing {
  texts: readonly string[];
  resolve: (signatures: string[] | Promise<string[]>) => void;
}

interface Verification {
  key: PublicKey;
  message: Buffer;
  signature: string;
  resolve: (isValid: boolean) => void;
}

/** What goes to the thread as one message. */
interface Asked {
  signings: Signing[];
  verifications: Verification[];
}

export class SignatureThread {
  readonly #signer: Signer;
  readonly #file: URL | undefined;
  #worker: Worker | undefined;
  #isRunning = false;
  #isEnded = false;
  /** Not answered yet, the oldest first. */
  #asked: Asked[] = [];
  #waiting: Asked = { signings: [], verifications: [] };
  #asksSoon = false;

  constructor(signer: Signer, file: URL | undefined = WORKER) {
    this.#signer = signer;
    this.#file = availableParallelism() > 1 ? file : undefined;
  }

  /** Signs the UTF-8 bytes of each text, none of which has a line break. Signatures are base64, in the order of the texts. */
  async sign(texts: readonly string[]): Promise<string[]> {
    if (!this.#isAsked()) return this.#signInPool(texts);
    return new Promise((resolve) => {
      this.#waiting.signings.push({ texts, resolve });
      this.#askSoon();
    });
  }

  /** As `verifySignature`. */
  async verify(key: PublicKey, message: Buffer, signature: string): Promise<boolean> {
    if (!this.#isAsked()) return verifySignature(key, message, signature);
    return new Promise((resolve) => {
      this.#waiting.verifications.push({ key, message, signature, resolve });
      this.#askSoon();
    });
  }

  /** Ends the thread. What it was asked is done all the same. */
  async close(): Promise<void> {
    this.#isEnded = true;
    await this.#worker?.terminate();
  }

  /** Whether the thread runs; it is started when it does not. */
  #isAsked(): boolean {
    if (!this.#isRunning) this.#start();
    return this.#isRunning;
  }

  #start(): void {
    if (!this.#file || this.#worker || this.#isEnded) return;
    const workerData: SignatureTask = { key: this.#signer.privateKey };
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

  /** At the end of this turn of the event loop: a message costs as much as ten of those that go with it. */
  #askSoon(): void {
    if (this.#asksSoon || this.#asked.length >= MESSAGES_AT_ONCE) return;
    this.#asksSoon = true;
    setImmediate(() => {
      this.#asksSoon = false;
      this.#ask();
    });
  }

  #ask(): void {
    const { signings, verifications } = this.#waiting;
    if (signings.length + verifications.length === 0 || this.#asked.length >= MESSAGES_AT_ONCE) return;
    this.#asked.push(this.#waiting);
    this.#waiting = { signings: [], verifications: [] };
    const work: SignatureWork = {
      texts: signings.flatMap(({ texts }) => texts.map((text) => `${text}\n`)).join(''),
      claims: verifications.flatMap(({ key, message, signature }) => [key, message.toString('latin1'), signature]),
    };
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
    this.#worker?.postMessage(work);
  }

  #answered({ signatures, valid }: SignatureAnswer): void {
    const { signings = [], verifications = [] } = this.#asked.shift() ?? {};
    for (const [at, { resolve }] of verifications.entries()) resolve(valid[at] === true);
    let from = 0;
    for (const { texts, resolve } of signings)
      resolve(texts.map(() => signatures.slice(from, (from += SIGNATURE_CHARACTERS))));
    this.#ask();
  }

  #ended(): void {
    this.#isRunning = false;
    this.#isEnded = true;
    for (const { signings, verifications } of [...this.#asked, this.#waiting]) {
      for (const { texts, resolve } of signings) resolve(this.#signInPool(texts));
      for (const { key, message, signature, resolve } of verifications)
        resolve(verifySignature(key, message, signature));
    }
    this.#asked = [];
    this.#waiting = { signings: [], verifications: [] };
  }

  #signInPool(texts: readonly string[]): Promise<string[]> {
    return Promise.all(texts.map((text) => this.#signer.signInPool(Buffer.from(text))));
  }
}
