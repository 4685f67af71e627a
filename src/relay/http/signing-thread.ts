/**
 * Signs lists of texts in a thread of its own (signing-worker.ts).
 *
 * To hand one text to the thread pool costs the event loop a third of what the signature itself costs. A list that goes to
 * a thread as one message costs it a twentieth.
 *
 * The thread begins with the first list. Until it runs, where there is none to be had, and after it ended, the thread pool
 * signs.
 */
import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { SIGNATURE_CHARACTERS, type Signer } from '../../protocol/ed25519.ts';
import type { SigningTask } from './signing-worker.ts';

/** Beside this file in the bundle. In the sources there is none: a thread does not run TypeScript. */
const WORKER = extname(import.meta.url) === '.js' ? new URL('./signing-worker.js', import.meta.url) : undefined;
/** While the answer to one message comes back, the thread has another; more wait here, and go together. */
const MESSAGES_AT_ONCE = 2;

interface Wanted {
  texts: readonly string[];
  resolve: (signatures: string[]) => void;
  reject: (error: unknown) => void;
}

export class SigningThread {
  readonly #signer: Signer;
  readonly #file: URL | undefined;
  #worker: Worker | undefined;
  #isRunning = false;
  #isEnded = false;
  /** What each message that is not answered asks for, the oldest first. */
  readonly #asked: Wanted[][] = [];
  #waiting: Wanted[] = [];

  constructor(signer: Signer, file: URL | undefined = WORKER) {
    this.#signer = signer;
    this.#file = availableParallelism() > 1 ? file : undefined;
  }

  /** Signs the UTF-8 bytes of each text, none of which has a line break. Signatures are base64, in the order of the texts. */
  sign(texts: readonly string[]): Promise<string[]> {
    if (!this.#isRunning) {
      this.#start();
      return this.#signInPool(texts);
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ texts, resolve, reject });
      this.#ask();
    });
  }

  /** Ends the thread. What it was asked is signed all the same. */
  async close(): Promise<void> {
    this.#isEnded = true;
    await this.#worker?.terminate();
  }

  #start(): void {
    if (!this.#file || this.#worker || this.#isEnded) return;
    const workerData: SigningTask = { key: this.#signer.privateKey };
    try {
      this.#worker = new Worker(this.#file, { workerData, name: 'poste-signing' });
    } catch {
      this.#isEnded = true;
      return;
    }
    this.#worker.unref();
    this.#worker.on('online', () => (this.#isRunning = !this.#isEnded));
    this.#worker.on('message', (signatures: string) => this.#answered(signatures));
    // An error is followed by the exit.
    this.#worker.on('error', () => undefined);
    this.#worker.on('exit', () => this.#ended());
  }

  #ask(): void {
    if (this.#waiting.length === 0 || this.#asked.length >= MESSAGES_AT_ONCE) return;
    const wanted = this.#waiting;
    this.#waiting = [];
    this.#asked.push(wanted);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
    this.#worker?.postMessage(wanted.flatMap(({ texts }) => texts.map((text) => `${text}\n`)).join(''));
  }

  #answered(signatures: string): void {
    let from = 0;
    for (const { texts, resolve } of this.#asked.shift() ?? []) {
      resolve(texts.map(() => signatures.slice(from, (from += SIGNATURE_CHARACTERS))));
    }
    this.#ask();
  }

  #ended(): void {
    this.#isRunning = false;
    this.#isEnded = true;
    for (const { texts, resolve, reject } of [...this.#asked.splice(0).flat(), ...this.#waiting.splice(0)])
      this.#signInPool(texts).then(resolve, reject);
  }

  #signInPool(texts: readonly string[]): Promise<string[]> {
    return Promise.all(texts.map((text) => this.#signer.signInPool(Buffer.from(text))));
  }
}
