/**
 * The thread that signs what signing-thread.ts hands it. Texts come as one string, with a line break after each, and their
 * signatures go back as one string, each in base64: a string crosses between threads for less than its parts would.
 */
import { type KeyObject, sign } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';

/** What the thread is given: the key that it signs with. */
export interface SigningTask {
  key: KeyObject;
}

const { key } = workerData as SigningTask;
const port = parentPort;
port?.on('message', (texts: string) => {
  let signatures = '';
  for (const text of texts.split('\n').slice(0, -1))
    signatures += sign(null, Buffer.from(text), key).toString('base64');
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a thread
  port.postMessage(signatures);
});
