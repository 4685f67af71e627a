/**
 * A disk that takes its time: every append is written and confirmed some turns of the loop later, and may fail. The
 * next one may be written before this one is confirmed; they are confirmed in their order.
 *
 * Between the two, LevelDB shows what nobody may show yet. `durable` holds what was confirmed, and nothing else.
 */
import { setImmediate as immediate } from 'node:timers/promises';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { ItemAccepted, RelayEvent } from '../../src/relay/core/event.ts';
import type { LogBatch } from '../../src/relay/store/durable-log.ts';
import type { Encoding } from '../../src/relay/store/encoding.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';

export interface Delay {
  turnsBefore: number;
  turnsAfter: number;
  /** Says whether the append is rejected, and whether its batch was written all the same. */
  fails: 'no' | 'unwritten' | 'written';
}

/** Knows what a disk has for sure. */
export class DurableEvents {
  /** In order. */
  readonly durable: RelayEvent[] = [];

  get accepted(): ItemAccepted[] {
    return this.durable.filter((event) => event.type === 'ItemAccepted');
  }

  /** The durable sequence numbers of `target`, ascending. */
  seqsOf(target: PublicKey): number[] {
    const targets = this.accepted.flatMap((event) => event.targets);
    return targets.filter(({ hostPubkey }) => hostPubkey === target).map(({ seq }) => seq);
  }

  ackedThrough(target: PublicKey): number {
    let through = 0;
    for (const event of this.durable) {
      if (event.type === 'ItemsAcked' && event.targetPubkey === target) through = Math.max(through, event.through);
    }
    return through;
  }
}

export class SlowDisk extends DurableEvents {
  /** `delays` is used from its beginning, over and over. */
  constructor(store: RelayStore, delays: readonly Delay[]) {
    super();
    const append = store.append.bind(store);
    let appends = 0;
    let confirmed: Promise<void> = Promise.resolve();
    store.append = async (batch: LogBatch, ahead?: Encoding, written?: () => void): Promise<void> => {
      const delay = delays[appends++ % delays.length] ?? { turnsBefore: 0, turnsAfter: 0, fails: 'no' };
      await turns(delay.turnsBefore);
      if (delay.fails === 'unwritten') throw new Error('EIO');
      const before = confirmed;
      confirmed = append(batch, ahead, written).then(async () => {
        await before;
        await turns(delay.turnsAfter);
        if (delay.fails === 'written') throw new Error('EIO');
        for (const { event } of batch.entries) this.durable.push(event);
      });
      await confirmed;
    };
  }
}

export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await immediate();
}

export async function microtasks(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await Promise.resolve();
}
