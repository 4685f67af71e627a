/**
 * Gives memory outside of V8's heap back at once.
 *
 * Left to V8, each 64 MiB of it that come make V8 mark its whole heap, however little of that there is to collect: for
 * a backup this was a sixth of the processor time.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';

/** A closed port: what is transferred to it leaves this thread and arrives nowhere. */
let nowhere: MessagePort | undefined;

/**
 * Nobody may use these memories afterwards: every view of them is empty. Those that are small enough for Node.js to
 * have cut them out of a piece that it shares are left as they are, and so is memory that threads share.
 */
export function releaseMemory(memories: readonly ArrayBufferLike[]): void {
  const released = memories.filter(
    (memory): memory is ArrayBuffer => memory.byteLength > Buffer.poolSize && memory instanceof ArrayBuffer,
  );
  if (released.length === 0) return;
  nowhere ??= closedPort();
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that of a window, and this is a port
  nowhere.postMessage(undefined, released);
}

function closedPort(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port1.close();
  port2.close();
  return port1;
}
