/** Writes what a relay with a fault in it would have written: events that nobody decided, committed as any other. */
import type { RelayEvent } from '../../src/relay/core/event.ts';
import { reduce } from '../../src/relay/core/reduce.ts';
import { enrolledInAccount } from './events.ts';
import type { TestHost } from './hosts.ts';
import type { TestRelay } from './test-relay.ts';

/** Commits the events behind the back of the engine, which is opened again afterwards. */
export async function commitUndecided(relay: TestRelay, ...events: readonly RelayEvent[]): Promise<void> {
  const { store } = relay;
  for (const event of events) {
    const entry = { lsn: store.lastLsn + 1, event };
    const changes = reduce(entry, store);
    await store.append({ entries: [entry], changes, payloads: [] });
  }
  await relay.reopen();
}

/** `host` gets an account that is not charged for what is in its queue: whatever is released of it is too much. */
export async function withoutCharge(relay: TestRelay, host: TestHost): Promise<void> {
  await commitUndecided(relay, enrolledInAccount(host, 'acme', { atMs: relay.clock.nowMs }));
}
