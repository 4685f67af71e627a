/**
 * Takes the same steps with a real relay and with the model, and shows what either says: arbitrary commands, acks at
 * any place, clock moves and stops. The caller compares.
 */
import * as fc from 'fast-check';
import { HEARTBEAT_STALE_MS } from '../../src/protocol/limits.ts';
import type { HostName } from '../../src/protocol/names.ts';
import type { EnrolHost, WireVerdict } from '../../src/relay/core/command.ts';
import type { UsageRow } from '../../src/relay/core/rows.ts';
import { enrolOf, hostSeenOf, pushOf, sendersOf } from './commands.ts';
import { epochNumbered } from './epochs.ts';
import { hostNamed } from './hosts.ts';
import { Model } from './model.ts';
import type { SettingsChanges } from './settings.ts';
import { type TestRelay, outcomeOf } from './test-relay.ts';

const HOSTS = ['a', 'b', 'c', 'd', 'e'].map((name) => hostNamed(name));
const ACCOUNTS = ['acme', 'umbrella'];
const DAY_MS = 86_400_000;

/** So small that every one is reached. */
export const SMALL_SETTINGS: SettingsChanges = {
  enrolmentsMax: 4,
  dedupRowsMax: 11,
  limits: {
    max_item_bytes: 12,
    max_targets: 3,
    max_pull: 3,
    max_pull_bytes: 20,
    max_queue_items: 6,
    max_queue_bytes: 22,
    max_sender_items: 4,
    max_sender_bytes: 17,
    max_owner_items: 8,
    max_owner_bytes: 33,
  },
};

export interface PushedInTest {
  sender: number;
  id: number;
  targets: number[];
  /** How long the wire bytes are; another length for the same id is a conflict. */
  size: number;
  verdict: WireVerdict;
}

export type Step =
  | { type: 'push'; items: PushedInTest[] }
  | { type: 'ack'; target: number; where: number; isStale: boolean }
  | { type: 'enrol'; host: number; name: number; account: number | null; isAdmitted: boolean }
  | { type: 'claimAccount'; host: number; account: number }
  | { type: 'senders'; host: number; senders: readonly number[]; agoMs: number }
  | { type: 'sweep' }
  | { type: 'seen'; host: number }
  | { type: 'clock'; byMs: number }
  | { type: 'heartbeat' }
  | { type: 'reopen' };

const hostNumber = fc.nat(HOSTS.length - 1);
/** Mostly targets that can be pushed to; sometimes one too many, or one twice. */
const targetNumbers = fc.oneof(
  { weight: 12, arbitrary: fc.uniqueArray(fc.nat(2), { minLength: 1, maxLength: 3, size: 'max' }) },
  { weight: 1, arbitrary: fc.array(hostNumber, { minLength: 1, maxLength: 4, size: 'max' }) },
);
const pushed: fc.Arbitrary<PushedInTest> = fc.record({
  sender: fc.nat(2),
  id: fc.nat(4),
  targets: targetNumbers,
  size: fc.oneof({ weight: 12, arbitrary: fc.constant(4) }, { weight: 1, arbitrary: fc.nat(13) }),
  verdict: fc.oneof(
    { weight: 20, arbitrary: fc.constant('ok' as const) },
    { weight: 1, arbitrary: fc.constantFrom('not sealed' as const, 'bad receipt' as const) },
  ),
});

/** Steps of one kind, and how often they come. */
function often<S extends Step>(
  weight: number,
  arbitrary: fc.Arbitrary<S>,
): { weight: number; arbitrary: typeof arbitrary } {
  return { weight, arbitrary };
}

const anyStep = fc.oneof(
  often(
    20,
    fc.record({
      type: fc.constant('push' as const),
      items: fc.array(pushed, { minLength: 1, maxLength: 3, size: 'max' }),
    }),
  ),
  often(
    5,
    fc.record({
      type: fc.constant('ack' as const),
      target: fc.nat(3),
      where: fc.integer({ min: -1, max: 11 }).map((tenths) => tenths / 10),
      isStale: fc.nat(8).map((number) => number === 0),
    }),
  ),
  often(
    5,
    fc.record({
      type: fc.constant('enrol' as const),
      host: hostNumber,
      name: fc.nat(2),
      account: fc.option(fc.nat(1)),
      isAdmitted: fc.nat(9).map((number) => number > 0),
    }),
  ),
  often(1, fc.record({ type: fc.constant('claimAccount' as const), host: hostNumber, account: fc.nat(1) })),
  often(
    1,
    fc.record({
      type: fc.constant('senders' as const),
      host: fc.nat(2),
      // Mostly everybody, so that the story goes on.
      senders: fc.oneof(
        { weight: 3, arbitrary: fc.constant<readonly number[]>([0, 1, 2, 2]) },
        { weight: 1, arbitrary: fc.array(hostNumber, { maxLength: 4 }) },
      ),
      agoMs: fc.oneof(fc.integer({ min: -2, max: 2 }), fc.integer({ min: -300_002, max: -299_998 })),
    }),
  ),
  often(4, fc.record({ type: fc.constant('sweep' as const) })),
  often(1, fc.record({ type: fc.constant('seen' as const), host: hostNumber })),
  often(1, fc.record({ type: fc.constant('clock' as const), byMs: fc.integer({ min: -5, max: 5 }) })),
  often(2, fc.record({ type: fc.constant('clock' as const), byMs: fc.integer({ min: -DAY_MS, max: 2 * DAY_MS }) })),
  // To the millisecond at which something is due, or far beyond it.
  often(
    2,
    fc.record({
      type: fc.constant('clock' as const),
      byMs: fc.constantFrom(7 * DAY_MS, 14 * DAY_MS - 1, 14 * DAY_MS, 21 * DAY_MS, 35 * DAY_MS),
    }),
  ),
  often(1, fc.record({ type: fc.constant('heartbeat' as const) })),
  often(2, fc.record({ type: fc.constant('reopen' as const) })),
);

/** A long story: the limits are reached, and acks make room again. */
export const anySteps: fc.Arbitrary<Step[]> = fc.array(anyStep, { minLength: 1, maxLength: 60, size: 'max' });

/** What the relay said and what the model says. */
export interface Sayings {
  seen: unknown;
  expected: unknown;
}

const NOTHING: Sayings = { seen: undefined, expected: undefined };

export class Comparison {
  readonly #relay: TestRelay;
  readonly #model: Model;
  #heartbeatAtMs: number;
  #epoch: string;

  /** `relay` was opened just now, on an empty folder. */
  constructor(relay: TestRelay) {
    this.#relay = relay;
    this.#model = new Model(relay.settings);
    this.#heartbeatAtMs = relay.clock.nowMs;
    this.#epoch = relay.engine.epoch;
  }

  async take(one: Step): Promise<Sayings> {
    const { clock, engine } = this.#relay;
    switch (one.type) {
      case 'push':
        return this.#push(one.items);
      case 'ack':
        return this.#ack(one);
      case 'enrol':
        return this.#enrol(enrolStep(one, clock.nowMs));
      case 'claimAccount': {
        // The weaker authority says that it proved an account.
        const answer = { ok: true, account: ACCOUNTS[one.account]! };
        return this.#enrol(enrolOf(HOSTS[one.host]!, { answer, nowMs: clock.nowMs }));
      }
      case 'seen': {
        await engine.noteHostSeen(hostSeenOf(HOSTS[one.host]!, clock.nowMs));
        const host = this.#model.hosts.get(HOSTS[one.host]!.key);
        if (host) host.seen = true;
        return NOTHING;
      }
      case 'senders': {
        const { nowMs } = clock;
        const senders = one.senders.map((sender) => HOSTS[sender]!);
        const command = sendersOf(HOSTS[one.host]!, senders, { iatMs: nowMs - one.agoMs, nowMs });
        const answer = await this.#relay.publishSenders(command);
        const seen = answer.type === 'Refusal' ? answer.code : answer.type;
        return { seen, expected: this.#model.publishSenders(command) };
      }
      case 'sweep':
        await this.#relay.sweep();
        this.#model.sweep(clock.nowMs);
        return NOTHING;
      case 'clock':
        clock.move(one.byMs);
        return NOTHING;
      case 'heartbeat':
        await engine.heartbeat(clock.nowMs);
        this.#heartbeatAtMs = clock.nowMs;
        return NOTHING;
      case 'reopen':
        return this.#reopen();
    }
  }

  /** Everything that can be seen from outside, and every row that quotas rest on. */
  async state(): Promise<Sayings> {
    const { engine, store } = this.#relay;
    const model = this.#model;
    const seen: unknown[] = [engine.liveEnrolments, engine.epoch];
    const expected: unknown[] = [model.hosts.size, this.#epoch];
    for (const host of HOSTS) {
      const { key } = host;
      const wires = await this.#relay.wires(host);
      const queue = await this.#relay.queue(host);
      seen.push({
        queue: queue.map(({ seq, itemId, senderPubkey }, at) => [seq, itemId, senderPubkey, wires[at]]),
        head: engine.head(key),
        account: store.get('enrolment', key)?.account,
        dedupRows: store.get('sender', key)?.dedupRows ?? 0,
        shares: HOSTS.map((sender) => store.get('share', key + sender.key)),
      });
      expected.push({
        queue: model.queue(key).map(({ seq, itemId, sender, wire }) => [seq, itemId, sender, wire]),
        head: model.targetRow(key),
        account: model.hosts.get(key)?.account,
        dedupRows: model.dedupRows(key),
        shares: HOSTS.map((sender) => orNothing(model.share(key, sender.key))),
      });
    }
    seen.push(ACCOUNTS.map((account) => store.get('account', account)));
    expected.push(ACCOUNTS.map((account) => orNothing(model.account(account))));
    return { seen, expected };
  }

  async #push(items: readonly PushedInTest[]): Promise<Sayings> {
    const { nowMs } = this.#relay.clock;
    const commands = items.map(({ sender, id, targets, size, verdict }) => {
      const to = targets.map((target) => [HOSTS[target]!, 'x'.repeat(size)] as const);
      return pushOf(HOSTS[sender]!, `m${id}`, to, { wireVerdict: verdict, nowMs });
    });
    const outcomes = await this.#relay.push(...commands);
    this.#model.nextRequest();
    return { seen: outcomes.map(outcomeOf), expected: commands.map((command) => this.#model.push(command)) };
  }

  async #ack({ target, where, isStale }: Step & { type: 'ack' }): Promise<Sayings> {
    const host = HOSTS[target]!;
    const { key } = host;
    const queue = this.#model.queue(key);
    const headSeq = this.#model.heads.get(key) ?? 0;
    const inQueue = queue[Math.floor(where * queue.length)]?.seq ?? headSeq;
    const through = where < 0 ? 0 : where > 1 ? headSeq + 1 : inQueue;
    const answer = await this.#relay.ack(host, through, isStale ? { epoch: epochNumbered(0) } : {});
    const seen = answer.type === 'Acked' ? answer : { code: answer.code, members: answer.members };
    if (isStale) return { seen, expected: { code: 'EPOCH_CHANGED', members: { epoch: this.#epoch } } };
    const { verdict, deleted } = this.#model.ack(key, through);
    if (verdict !== 'Acked') return { seen, expected: { code: verdict, members: { head_seq: headSeq } } };
    return { seen, expected: { type: 'Acked', ackedThrough: this.#model.acked.get(key) ?? 0, deleted, headSeq } };
  }

  async #enrol(command: EnrolHost): Promise<Sayings> {
    const answer = await this.#relay.enrol(command);
    const { verdict, lapsing } = this.#model.enrol(command);
    // Of several that are equally old, any one may give way.
    const lapsed = lapsing.filter((key) => this.#relay.engine.enrolment(key) === undefined);
    for (const key of lapsed) this.#model.hosts.delete(key);
    return {
      seen: [answer.type === 'Enrolled' ? answer.type : answer.code, lapsed.length],
      expected: [verdict, lapsing.length > 0 ? 1 : 0],
    };
  }

  async #reopen(): Promise<Sayings> {
    const { clock } = this.#relay;
    await this.#relay.reopen();
    const ageMs = clock.nowMs - this.#heartbeatAtMs;
    const isDoubtful = ageMs > HEARTBEAT_STALE_MS || ageMs < -60_000;
    const { epoch } = this.#relay.engine;
    const seen = epoch !== this.#epoch;
    this.#epoch = epoch;
    if (isDoubtful) this.#heartbeatAtMs = clock.nowMs;
    return { seen, expected: isDoubtful };
  }
}

function enrolStep({ host, name, account, isAdmitted }: Step & { type: 'enrol' }, nowMs: number): EnrolHost {
  const proven = account === null ? undefined : ACCOUNTS[account];
  return enrolOf(HOSTS[host]!, {
    hostName: ['Same', 'SAME', `own${host}`][name] as HostName,
    authorizedBy: proven ? 'account-token' : 'host-key',
    answer: { ok: isAdmitted, ...(proven && { account: proven }) },
    nowMs,
  });
}

function orNothing(usage: UsageRow): UsageRow | undefined {
  return usage.items === 0 && usage.bytes === 0 ? undefined : usage;
}
