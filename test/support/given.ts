/**
 * `given(events).when(command)`: reduces the events into rows, reads the facts, decides, and shows what was decided.
 *
 *     const push = given(enrolled(bob)).when(pushOf(alice, 'm1', [[bob, 'x']]));
 *     expect(push.events).toEqual([accepted(alice, 'm1', [[bob, seq, 'x']])]);
 *
 * Every history begins with `RelayInitialised`. Nothing is stored, nothing waits.
 */
import { decide, type DecidableCommand } from '../../src/library/decide.ts';
import { MapRows } from '../../src/library/map-rows.ts';
import type { ExpireItems } from '../../src/relay/core/command.ts';
import { type DecidedExpiry, decideExpire } from '../../src/relay/core/decide-queue.ts';
import type { Decided, Outcome, Refusal } from '../../src/relay/core/decision.ts';
import type { RelayEvent } from '../../src/relay/core/event.ts';
import { LOG_FORMAT } from '../../src/relay/core/log-format.ts';
import { rowKey } from '../../src/relay/core/rows.ts';
import { initialised } from './events.ts';
import type { TestHost } from './hosts.ts';
import { type SettingsChanges, settingsWith } from './settings.ts';

export function given(...events: readonly RelayEvent[]): Given {
  return new Given(events);
}

export class Given {
  readonly rows: MapRows;
  #settings = settingsWith();
  #logFormat = LOG_FORMAT;

  constructor(events: readonly RelayEvent[]) {
    this.rows = new MapRows(initialised, ...events);
  }

  /** Decides under other settings than the documented defaults. */
  under(changes: SettingsChanges): this {
    this.#settings = settingsWith(changes);
    return this;
  }

  /** Decides for a log of this format. */
  asOfFormat(logFormat: number): this {
    this.#logFormat = logFormat;
    return this;
  }

  /** The operator revoked the key. */
  revoked(host: TestHost, revokedAtMs: number): this {
    this.rows.apply({ type: 'HostRevoked', hostPubkey: host.key, cause: 'operator', atMs: revokedAtMs });
    return this;
  }

  /** The wire bytes of a queued item are gone. */
  withoutPayload(target: TestHost, seq: number): this {
    this.rows.missingPayloads.add(rowKey.queue(target.key, seq));
    return this;
  }

  /** The queue row of an item is gone. */
  withoutQueueRow(target: TestHost, seq: number): this {
    this.rows.put({ table: 'queue', key: rowKey.queue(target.key, seq), row: null });
    return this;
  }

  /** Returns what a sweep decides, before its notices are signed. */
  whenExpiring(command: ExpireItems): DecidedExpiry | undefined {
    return decideExpire(command, this.rows, this.#settings);
  }

  when(command: DecidableCommand): Decision {
    return new Decision(decide(command, this.rows, this.#settings, this.#logFormat), this.rows);
  }
}

/** Holds what was decided, in the views that tests compare. */
export class Decision {
  /** Empty when nothing happened. */
  readonly events: readonly RelayEvent[];
  /** The answer; `undefined` when the request was refused. */
  readonly outcome: Outcome | undefined;
  readonly refusal: Refusal | undefined;
  readonly #before: MapRows;

  constructor(decision: Decided<Outcome> | Refusal, before: MapRows) {
    this.events = decision.type === 'Decided' ? decision.events : [];
    this.outcome = decision.type === 'Decided' ? decision.outcome : undefined;
    this.refusal = decision.type === 'Refusal' ? decision : undefined;
    this.#before = before;
  }

  /** The answer in one word: `accepted`, `duplicate`, `rejected:<rejection>`, a problem code, or the outcome's type. */
  get verdict(): string {
    const { outcome, refusal } = this;
    if (outcome?.type === 'ItemStored') return outcome.status;
    if (outcome?.type === 'ItemRejected') return `rejected:${outcome.rejection}`;
    return refusal?.code ?? outcome?.type ?? 'nothing';
  }

  /** The sequence numbers that a stored item was answered with. */
  get seqs(): number[] {
    const { outcome } = this;
    return outcome?.type === 'ItemStored' ? outcome.targets.map(({ seq }) => seq) : [];
  }

  /** The rows after the decided events. */
  after(): MapRows {
    const rows = this.#before.copy();
    for (const event of this.events) rows.apply(event);
    return rows;
  }
}
