/**
 * The rehearsal of a daemon that has just started: it sends some messages that are written nowhere and reach nobody.
 *
 * A program compiles what it runs for the first time and is slow at it for a while, so the first messages of a daemon
 * would take several times as long as later ones.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Timers } from '../lib/clock.ts';
import { SingleFlightTask } from '../lib/periodic-task.ts';
import { handlersOf, type HandlerParts, parseOperationInput, perform } from './api/handlers.ts';
import { createHostContext } from './base/context.ts';
import { addressOf, OWNER_NAME } from './core/address.ts';
import { OWNER_ID } from './core/rows.ts';
import { livePeers } from './peers/peers.ts';

/** The start, and what programs ask at once, come first. */
const AFTER_MS = 1000;
const MESSAGES = 30;
/** No message of the owner has the same key. */
const KEY_BYTES = 16;
const BODY = 'A rehearsal. '.repeat(40);

/** Begins it soon. Returns how to end it. */
export function rehearseSoon(parts: HandlerParts, timers: Timers): () => Promise<void> {
  const { context } = parts;
  const task = new SingleFlightTask({
    work: (signal) => rehearse(parts, signal),
    onError: (error) => context.log('warn', 'the rehearsal failed', { err: error }),
  });
  const cancel = timers.after(AFTER_MS, () => void task.run());
  return () => {
    cancel();
    return task.stop();
  };
}

/** Sends to the owner here, and to that of a paired host where there is one, as the owner. */
export async function rehearse(parts: HandlerParts, signal: AbortSignal): Promise<void> {
  const { context: own } = parts;
  const context = createHostContext(own.store.unwritten(), own.identity(), own.retry, () => undefined);
  const handlers = handlersOf({ ...parts, context });
  const [peer] = await own.store.read(livePeers);
  const recipients = [OWNER_NAME, ...(peer ? [addressOf(OWNER_NAME, peer.hostName)] : [])];
  for (let sent = 0; sent < MESSAGES && !signal.aborted; sent++) {
    for (const to of recipients) {
      const key = own.randomBytes(KEY_BYTES).toString('hex');
      const mail = { to: [to], subject: 'Rehearsal', body: BODY, idempotency_key: key };
      const input = parseOperationInput('mail-send', Buffer.from(JSON.stringify(mail)));
      await perform(handlers, 'mail-send', { agentId: OWNER_ID, signal }, input);
      // Requests that came meanwhile.
      await turn();
    }
  }
}
