/**
 * Checks whether an engine that serves again keeps what its relay had promised: everything is there, or something says
 * that it is not, and after the new epoch that follows, with everything pushed again as senders do, it is there.
 */
import { hasHash } from '../../src/protocol/encodings.ts';
import { StoreFailed } from '../../src/relay/engine/committer.ts';
import type { Engine } from '../../src/relay/engine/engine.ts';
import { LostItems } from '../../src/relay/engine/lost-items.ts';
import type { QueueRow } from '../../src/relay/core/rows.ts';
import { openServed } from '../../src/relay/replay/offline.ts';
import { verifyServed } from '../../src/relay/replay/verify.ts';
import { openStore } from '../../src/relay/store/open.ts';
import { unusableStore, refusedIfDamaged, StoreRefused } from '../../src/relay/store/refused.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';
import { resultOf } from './audits.ts';
import { rotateEpochOf } from './commands.ts';
import { epochNumbered, epochSource } from './epochs.ts';
import { type Promises, RECEIVERS, RELAY_SIGNER, engineOver, push } from './mutated-store.ts';

/** The outcome of a start. */
export type Start =
  | { type: 'refused'; said: string }
  /**
   * `epoch`: what began a new one. `isMarked`: something was refused, or what was acked came to be stored once more;
   * nothing that was promised is missing unsaid.
   */
  | { type: 'served'; epoch: 'same' | 'at the start' | 'at a pull' | 'by the check of the rows'; isMarked: boolean }
  | { type: 'wrong'; said: string };

/**
 * Starts a relay on the closed store in `folder`, inside this process. `begun`: whether what happened to the store may
 * have begun an epoch before.
 */
export async function startOn(folder: string, promises: Promises, { begun = false } = {}): Promise<Start> {
  let store: RelayStore | undefined;
  let engine: Engine | undefined;
  try {
    const { nowMs, epoch } = promises;
    const opened = await openStore({ folder, signer: RELAY_SIGNER, nowMs, newEpoch: epochSource(100) });
    ({ store } = opened);
    engine = await engineOver(store, nowMs, () => undefined);
    const isNewEpoch = opened.epochBegun !== undefined || (begun && engine.epoch !== epoch);
    return await new ServedPromises(store, engine, promises).judged(isNewEpoch);
  } catch (error) {
    const refused = refusedIfDamaged(unusableStore(error, folder), folder);
    // Of the latter the relay says one sentence, and ends.
    if (refused instanceof StoreRefused || refused instanceof StoreFailed)
      return { type: 'refused', said: refused.message };
    return { type: 'wrong', said: String((error as Error).stack) };
  } finally {
    await engine?.close();
    await store?.close();
  }
}

/** One receiver got this: the texts by seq, or that it was refused. */
type Got = ReadonlyMap<number, string> | 'refused';

class ServedPromises {
  readonly #store: RelayStore;
  readonly #engine: Engine;
  readonly #promises: Promises;
  readonly #lost: LostItems;
  #isMarked = false;

  constructor(store: RelayStore, engine: Engine, promises: Promises) {
    this.#store = store;
    this.#engine = engine;
    this.#promises = promises;
    this.#lost = new LostItems({
      engine,
      clock: { nowMs: () => promises.nowMs, monotonicMs: () => 0 },
      newEpoch: epochSource(150),
      onLost: () => undefined,
      onUnreadable: () => undefined,
    });
  }

  async judged(isNewEpoch: boolean): Promise<Start> {
    const { epoch } = this.#promises;
    if (isNewEpoch) return this.#afterEpoch('at the start');
    if (this.#engine.epoch !== epoch) return { type: 'wrong', said: 'another epoch, and nothing said so' };
    const got = await this.#pulled(this.#promises.acked);
    if (this.#engine.epoch !== epoch) return this.#afterEpoch('at a pull');
    if (this.#missing(got).length > 0) return this.#afterCheck(this.#missing(got));
    return this.#goesOn();
  }

  /**
   * Receivers take everything again, and senders push again what was not confirmed; a second time after another epoch.
   */
  async #afterEpoch(epoch: 'at the start' | 'at a pull' | 'by the check of the rows'): Promise<Start> {
    const { items, acked, nowMs } = this.#promises;
    const waiting = items.filter(({ seqs }) => seqs.some((seq, at) => seq > (acked[at] ?? 0)));
    for (let before; before !== this.#engine.epoch; ) {
      before = this.#engine.epoch;
      const taken = new Set<string>();
      for (const { id, text } of waiting) {
        const { outcome } = await push(this.#engine, id, text, nowMs);
        if (outcome === 'refused') this.#isMarked = true;
        else taken.add(text);
      }
      const got = await this.#pulled(RECEIVERS.map(() => 0));
      if (before !== this.#engine.epoch) continue;
      for (const [at, one] of got.entries()) {
        if (one === 'refused') continue;
        const texts = [...one.values()];
        const wanted = waiting.filter(({ text, seqs }) => taken.has(text) && (seqs[at] ?? 0) > (acked[at] ?? 0));
        const gone = wanted.filter(({ text }) => !texts.includes(text)).map(({ id }) => id);
        if (gone.length > 0) return { type: 'wrong', said: `${gone.join(' ')} lost after a new epoch ${epoch}` };
        if (new Set(texts).size < texts.length) return { type: 'wrong', said: `doubled after a new epoch ${epoch}` };
      }
    }
    return { type: 'served', epoch, isMarked: this.#isMarked };
  }

  /** Makes the check of the rows, which the relay makes every day: it must find what is missing without a word. */
  async #afterCheck(missing: readonly string[]): Promise<Start> {
    const served = await openServed(this.#store.location);
    let found: number;
    try {
      ({ found } = await resultOf(verifyServed(served)));
    } finally {
      await served.close();
    }
    if (found === 0) return { type: 'wrong', said: `${missing.join(' ')} lost in silence` };
    await this.#engine.rotateEpoch(rotateEpochOf(epochNumbered(200), { nowMs: this.#promises.nowMs }));
    return this.#afterEpoch('by the check of the rows');
  }

  /** Nothing is missing: what is known is known, and no seq is given again. */
  async #goesOn(): Promise<Start> {
    const { items, nowMs } = this.#promises;
    for (const { id, text, seqs } of items) {
      const again = await push(this.#engine, id, text, nowMs);
      // Stored once more when it is no longer known: its receivers know it.
      if (again.outcome !== 'duplicate') this.#isMarked = true;
      else if (String(again.seqs) !== String(seqs)) {
        return { type: 'wrong', said: `${id} was known at ${String(again.seqs)}` };
      }
    }
    const { outcome, seqs } = await push(this.#engine, 'one more', 'one more', nowMs);
    if (outcome === 'refused') this.#isMarked = true;
    const highest = items.at(-1)?.seqs ?? [];
    const reused = seqs.some((seq, at) => seq <= (highest[at] ?? 0));
    return reused
      ? { type: 'wrong', said: `a seq was given again: ${String(seqs)}` }
      : { type: 'served', epoch: 'same', isMarked: this.#isMarked };
  }

  #missing(got: readonly Got[]): string[] {
    const { items, acked } = this.#promises;
    return got.flatMap((one, at) =>
      one === 'refused'
        ? []
        : items
            .filter(({ seqs, text }) => (seqs[at] ?? 0) > (acked[at] ?? 0) && one.get(seqs[at] ?? 0) !== text)
            .map(({ id }) => `${id} of ${RECEIVERS[at]?.name ?? ''}`),
    );
  }

  /** Everything that waits for each receiver after what it has. */
  #pulled(after: readonly number[]): Promise<Got[]> {
    return Promise.all(RECEIVERS.map((host, at) => this.#pulledBy(host.key, after[at] ?? 0)));
  }

  async #pulledBy(target: (typeof RECEIVERS)[number]['key'], from: number): Promise<Got> {
    const got = new Map<number, string>();
    try {
      for (let after = from, isMore = true; isMore; ) {
        const { rows, more } = await this.#engine.page(target, after, 10);
        const wires = await this.#engine.payloads(rows);
        const lost: QueueRow[] = [];
        for (const [at, row] of rows.entries()) {
          const wire = wires[at];
          if (wire && hasHash(wire, row.wireHash)) got.set(row.seq, wire.toString());
          else lost.push(row);
        }
        await this.#lost.report(lost, 'pull');
        after = rows.at(-1)?.seq ?? after;
        isMore = more && rows.length > 0;
      }
      return got;
    } catch (error) {
      if (error instanceof StoreFailed) throw error;
      // A damaged row or a broken queue: 503, logged and counted.
      this.#isMarked = true;
      return 'refused';
    }
  }
}
