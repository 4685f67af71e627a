/**
 * Measures what concerns a whole queue of 10,000 items: how long until it is answered, and how long it holds the loop,
 * which is how long everybody else waits. The figure is the longest time between two turns of the loop.
 */
import { DAY_MS } from '../src/protocol/limits.ts';
import { LoopWatch } from '../test/support/loop-watch.ts';
import { BenchEngine, anyKey, anyKeys } from './engine.ts';
import { type Figure, grouped, less } from './report.ts';

const ITEMS = 10_000;
const ITEMS_PER_REQUEST = 200;
/** A full queue: 50 MiB. */
const ITEM_BYTES = 5_242;

type Work = (relay: BenchEngine) => Promise<void>;

const target = anyKey('target');
const replacement = anyKey('replacement');

/**
 * Measures what concerns 10,000 items of 50 MiB at once. Every figure is taken on a store of its own that was just
 * opened, with nothing of the queue in memory.
 */
export async function longCommands(): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const senders of [1, ITEMS]) {
    const of = `${grouped(ITEMS)} items of ${grouped(senders)} sender${senders === 1 ? '' : 's'}`;
    figures.push(...(await measured(senders, [[`rotation, ${of}`, rotate]])));
    figures.push(
      ...(await measured(senders, [
        [`ack, ${of}`, ack],
        [`collection, ${of}`, collect],
      ])),
    );
    figures.push(
      ...(await measured(senders, [
        [`expiry, ${of}`, expire],
        [`purge, ${of}`, purge],
      ])),
    );
  }
  return figures;
}

const rotate: Work = async ({ engine }) => {
  const nowMs = Date.now();
  const rotation = { oldPubkey: target, newPubkey: replacement, iatMs: nowMs, signed: null, nowMs };
  const outcome = await engine.admissions.rotateKey({ type: 'RotateKey', ...rotation });
  if (outcome.type !== 'KeyRotated' || outcome.movedItems !== ITEMS) throw new Error('invariant: all items are moved');
};

const ack: Work = (relay) => relay.ackAll(target);

const collect: Work = (relay) => relay.collected();

const expire: Work = async ({ engine }) => {
  await engine.expiry.expire(() => Date.now() + 15 * DAY_MS, new AbortController().signal);
};

const purge: Work = async ({ engine }) => {
  await engine.expiry.purgeDedup(() => Date.now() + 60 * DAY_MS, new AbortController().signal);
};

async function measured(senders: number, works: readonly (readonly [string, Work])[]): Promise<Figure[]> {
  const relay = await BenchEngine.start();
  try {
    await fill(relay, senders);
    await relay.reopen();
    const figures: Figure[] = [];
    for (const [name, work] of works) {
      const watch = new LoopWatch();
      const started = performance.now();
      await work(relay);
      const answeredMs = performance.now() - started;
      figures.push(less(`${name}: answered in`, 'ms', answeredMs), less(`${name}: loop held`, 'ms', watch.stop()));
    }
    return figures;
  } finally {
    await relay.remove();
  }
}

/**
 * Fills the queue with items of one sender, all in one millisecond, so that everything becomes due at once; many
 * senders push when they do.
 */
async function fill(relay: BenchEngine, senders: number): Promise<void> {
  await relay.enrol(target);
  const keys = anyKeys(senders, 'sender');
  await relay.enrolAll(keys);
  const wire = Buffer.alloc(ITEM_BYTES, 'x');
  const nowMs = Date.now();
  for (let from = 0; from < ITEMS; from += ITEMS_PER_REQUEST) {
    const items = Array.from({ length: ITEMS_PER_REQUEST }, (_none, at) => {
      const sender = keys[(from + at) % senders];
      if (!sender) throw new Error('invariant: there is a key for every sender');
      return { sender, target, id: `item-${from + at}`, wire };
    });
    await relay.push(items, senders === 1 ? nowMs : Date.now());
  }
}
