/**
 * Finds what is on its way in a world of mail: rows of outboxes, items in quarantine, and steps that senders do not
 * know yet.
 */
import { type History, mayForget } from './oracle.ts';
import type { PostHost } from './post-host.ts';

export interface Travelling {
  hosts: readonly PostHost[];
  history: History;
  /** A clock is off, or was, in this run. */
  isClockOff: boolean;
  /** Returns what senders know, as `Seen` has it. */
  sent: () => Promise<ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>>;
}

/** Returns what the outboxes still send or wait for, a line each. */
export async function rowsOnTheirWay(hosts: readonly PostHost[]): Promise<string[]> {
  const pages = await Promise.all(
    hosts.map(async (host) => ({ host, ...(await host.ask('outbox', { limit: 200, receipts: true })) })),
  );
  return pages.flatMap(({ host, rows }) =>
    rows
      .filter(({ kind, state, alerted_at: alertedAt }) =>
        kind === 'receipt' ? state === 'pending' : alertedAt === null,
      )
      .map(
        ({ kind, item_id: id, state, host: to, last_error: error }) =>
          `${kind} ${id} of ${host.name} to ${to} is ${state}${error === null ? '' : ` (${error})`}`,
      ),
  );
}

/** Returns what arrived and counts for nothing, and what was done and is not known to senders. */
export async function leftBehind(world: Travelling): Promise<string[]> {
  return [...(await inQuarantine(world)), ...(await unknownSteps(world))];
}

async function inQuarantine(world: Travelling): Promise<string[]> {
  const asked = world.hosts.map(async (host) => ({ host, ...(await host.ask('quarantine', {})) }));
  return (await Promise.all(asked)).flatMap(({ host, items }) =>
    items
      .filter(
        ({ kind, item_id: id, reason }) =>
          kind !== 'receipt' || !mayKeepReceipt(world, { host: host.name, id, reason }),
      )
      .map(({ kind, item_id: id, detail }) => `${kind} ${id} in quarantine at ${host.name}: ${detail}`),
  );
}

/**
 * A host that was restored does not know what it sent after its backup, and a receipt for that may come again as long
 * as the world is used. While clocks are off, what was written under a former key may look younger than the new one:
 * then the sender knows a lower state.
 */
export function mayKeepReceipt(
  { history, isClockOff }: Pick<Travelling, 'history' | 'isClockOff'>,
  { host, id, reason }: { host: string; id: string; reason: string },
): boolean {
  const [, message = ''] = id.split(':');
  if (reason === 'unknown-message') {
    const asked = history.everAsked.find(({ accepted }) => accepted?.result.message_id === message);
    const restores = [...history.earlierRestores, ...history.restores];
    return restores.some((restore) => (asked ? mayForget(restore, asked) : restore.host === host));
  }
  return reason === 'retired-key' && isClockOff;
}

/** Messages that were read or acked, as it was answered, and of which their senders do not know that yet. */
async function unknownSteps({ history, isClockOff, sent }: Travelling): Promise<string[]> {
  if (history.restores.length > 0 || isClockOff) return [];
  const done = history.acts.filter(({ what }) => what !== 'told');
  if (done.length === 0) return [];
  const known = await sent();
  return done.flatMap(({ agent, what, changed = [] }) =>
    changed
      .map((id) => ({ id, state: known.get(id)?.get(agent)?.at(-1) }))
      .filter(({ state }) => state !== undefined && state !== 'acked' && state !== what)
      .map(({ id, state }) => `the receipt of ${agent} for ${id}, which was ${what} and is said to be ${state}`),
  );
}
