/**
 * Makes the index of words in the background: of each block of a mailbox once it is full, and of those that have none,
 * the newest first: in a store from before the index, and where retention took a message. What has no index is read by
 * a search, so nothing is missed meanwhile; and the transaction that receives a message does no more than before.
 */
import { type Timers, pause } from '../../lib/clock.ts';
import { paceWork } from '../../lib/pace.ts';
import { PeriodicTask } from '../../lib/periodic-task.ts';
import { presentAgents } from '../agents/agents.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { type AgentId, OWNER_ID } from '../core/rows.ts';
import { BLOCK_POSITIONS, BlockWords, blockAt, wordBlockOf } from '../mailbox/word-blocks.ts';
import { mailboxOf } from '../mailbox/mailbox.ts';

/** However much mail comes, the index takes no more of the time: a message is not received a tenth later for it. */
const SHARE = 0.1;
/** One step reads this number of messages, or these bytes of bodies: others wait for it. */
const STEP_MESSAGES = 32;
const STEP_BYTES = 128 << 10;
const LOOK_EVERY_MS = 600_000;

/** Keeps the index of all mailboxes, from now on. */
export function keepWords(context: HostContext, timers: Timers): Pick<PeriodicTask, 'idle' | 'stop'> {
  const task = new PeriodicTask({
    timers,
    everyMs: LOOK_EVERY_MS,
    work: async (signal) => {
      const rest = async (ms: number): Promise<boolean> => {
        await pause(timers, ms, signal);
        return !signal.aborted;
      };
      await paceWork(indexWords(context), { share: SHARE, monotonicMs: context.monotonicMs, rest });
    },
    onError: (error) => {
      if (!isStoreFailure(error)) context.log('error', 'the index of words was not made', { err: error });
    },
  });
  /** The block of each mailbox that its newest message is in. */
  const newest = new Map<AgentId, number>();
  const stopListening = context.subscribe('words', {
    'mail-stored': ({ agentId, position }) => {
      if (newest.get(agentId) === blockAt(position)) return;
      newest.set(agentId, blockAt(position));
      void task.rerun();
    },
  });
  task.signal.addEventListener('abort', stopListening);
  void task.run();
  return task;
}

/** Makes the index of every full block that has none. Pauses after each step; may be left at any of them. */
export async function* indexWords({ store }: HostContext): AsyncGenerator<void, void, void> {
  const agents = await store.read(presentAgents);
  for (const agentId of [OWNER_ID, ...agents.map((agent) => agent.agentId)]) {
    let block: number | null = await store.read((reader) => blockAt(mailboxOf(reader, agentId).nextPosition));
    while ((block = await blockBefore({ store }, agentId, block)) !== null) {
      yield* indexBlock({ store }, agentId, block);
    }
  }
}

type StoreOwner = Pick<HostContext, 'store'>;

/** The newest block before this one that has entries and no index. */
function blockBefore({ store }: StoreOwner, agentId: AgentId, before: number): Promise<number | null> {
  return store.read(async (reader) => {
    for (let block = before; block > 0; ) {
      if (wordBlockOf(reader, agentId, block - 1)) block--;
      else {
        const until: [AgentId, number] = [agentId, block * BLOCK_POSITIONS];
        const [key] = await reader.keys('entry', [agentId], { until, reverse: true, limit: 1 });
        if (!key) return null;
        const found = blockAt(key[1]);
        if (!wordBlockOf(reader, agentId, found)) return found;
        block = found;
      }
    }
    return null;
  });
}

async function* indexBlock({ store }: StoreOwner, agentId: AgentId, block: number): AsyncGenerator<void, void, void> {
  const words = new BlockWords(agentId, block);
  const begin = block * BLOCK_POSITIONS;
  const until: [AgentId, number] = [agentId, begin + BLOCK_POSITIONS];
  for (let from: number | null = begin; from !== null; ) {
    const first: number = from;
    from = await store.read(async (reader) => {
      const keys = await reader.keys('entry', [agentId], { from: [agentId, first], until, limit: STEP_MESSAGES });
      let bytes = 0;
      for (const [, position] of keys) {
        if (bytes >= STEP_BYTES) return position;
        const entry = reader.get('entry', agentId, position);
        const message = entry && reader.get('message', entry.ref);
        if (!message) throw new Error('invariant: what is in a mailbox is kept');
        words.add(position, message, reader.get('body', message.ref) ?? '', entry.storedAtMs);
        bytes += message.bodyBytes;
      }
      const last = keys.at(-1);
      return last && keys.length === STEP_MESSAGES ? last[1] + 1 : null;
    });
    yield;
  }
  await store.transact(async (tx) => {
    // A message that was deleted meanwhile must not come back in the index: the next look makes it.
    const left = await tx.keys('entry', [agentId], { from: [agentId, begin], until });
    if (left.length === words.messages) words.put(tx);
  });
  yield;
}
