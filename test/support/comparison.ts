/**
 * Takes the same steps with a real relay and with the model, and shows what either says: arbitrary commands, acks at
 * any place, clock moves and stops. The caller compares.
 */
import * as fc from 'fast-check';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import { HEARTBEAT_STALE_MS } from '../../src/protocol/limits.ts';
import type { HostName } from '../../src/protocol/names.ts';
import { hostFingerprint } from '../../src/protocol/public-key.ts';
import type { DenyHosts, EnrolHost, WireVerdict } from '../../src/relay/core/command.ts';
import { type EnrolmentRow, type UsageRow, rowKey } from '../../src/relay/core/rows.ts';
import { denyOf, enrolOf, hostSeenOf, inviteOf, pushOf, revokeOf, rotateOf, sendersOf } from './commands.ts';
import { epochNumbered } from './epochs.ts';
import { type TestHost, hostNamed, relay as relayHost } from './hosts.ts';
import { NaiveModel } from '../../src/library/model.ts';
import type { ModelEnrolment } from '../../src/library/model-values.ts';
import type { SettingsChanges } from './settings.ts';
import { type TestRelay, outcomeOf } from './test-relay.ts';

const HOSTS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => hostNamed(name));
const ACCOUNTS = ['acme', 'umbrella'];
const INVITES = ['one', 'two', 'three'].map((token) => sha256Hex(token));
const DAY_MS = 86_400_000;

/** So small that every one is reached. */
export const SMALL_SETTINGS: SettingsChanges = {
  enrolmentsMax: 4,
  dedupRowsMax: 11,
  mailBudgetBytes: 12_000,
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

/** Hosts are meant under the key that they have now, unless the step is `literal`. */
export interface PushedInTest {
  sender: number;
  id: number;
  targets: number[];
  /** The length of the wire bytes; another length for the same id is a conflict. */
  size: number;
  verdict: WireVerdict;
  isV1: boolean;
  isLiteral: boolean;
}

export interface EnrolStep {
  type: 'enrol';
  host: number;
  name: number;
  account: number | null;
  isAdmitted: boolean;
  /** The time for which the hop is to be valid. */
  validForMs: number | null;
  invite: number;
}

export type Step =
  | { type: 'push'; items: PushedInTest[] }
  | { type: 'ack'; target: number; where: number; isStale: boolean }
  | EnrolStep
  | { type: 'claimAccount'; host: number; account: number }
  | { type: 'rotate'; from: number; to: number; isLiteral: boolean; aheadMs: number }
  | { type: 'rotateAgain'; which: number }
  | { type: 'revoke'; host: number }
  | {
      type: 'deny';
      selectors: { host: number | null; client: number | null; account: number | null; org: number | null };
    }
  | { type: 'invite'; invite: number; forMs: number }
  | { type: 'senders'; host: number; senders: readonly number[]; agoMs: number }
  | { type: 'sweep' }
  | { type: 'seen'; host: number }
  | { type: 'clock'; byMs: number }
  | { type: 'heartbeat' }
  | { type: 'reopen' };

const hostNumber = fc.nat(HOSTS.length - 1);
const seldom = fc.nat(9).map((number) => number === 0);
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
  isV1: seldom,
  isLiteral: seldom,
});
const selectors = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      host: hostNumber,
      client: fc.constant(null),
      account: fc.constant(null),
      org: fc.constant(null),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      host: fc.option(hostNumber, { freq: 3 }),
      client: fc.nat(1),
      account: fc.option(fc.nat(1)),
      org: fc.option(fc.nat(1)),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      host: fc.constant(null),
      client: fc.constant(null),
      account: fc.option(fc.nat(1)),
      org: fc.nat(1),
    }),
  },
);

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
      isAdmitted: seldom.map((isRefused) => !isRefused),
      validForMs: fc.option(fc.constantFrom(1, 900_000)),
      invite: fc.nat(2),
    }),
  ),
  often(
    7,
    fc.record({
      type: fc.constant('rotate' as const),
      from: fc.oneof({ weight: 4, arbitrary: fc.nat(3) }, { weight: 1, arbitrary: hostNumber }),
      to: hostNumber,
      isLiteral: seldom,
      aheadMs: fc.oneof(
        { weight: 9, arbitrary: fc.constant(0) },
        { weight: 1, arbitrary: fc.integer({ min: 299_999, max: 300_001 }) },
      ),
    }),
  ),
  often(1, fc.record({ type: fc.constant('rotateAgain' as const), which: fc.nat(9) })),
  often(1, fc.record({ type: fc.constant('revoke' as const), host: hostNumber })),
  often(1, fc.record({ type: fc.constant('deny' as const), selectors })),
  often(
    1,
    fc.record({
      type: fc.constant('invite' as const),
      invite: fc.nat(2),
      forMs: fc.constantFrom(1, DAY_MS, 30 * DAY_MS),
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

/** The words of the relay and those of the model. */
export interface Sayings {
  seen: unknown;
  expected: unknown;
}

const NOTHING: Sayings = { seen: undefined, expected: undefined };

export class Comparison {
  readonly #relay: TestRelay;
  readonly #model: NaiveModel;
  readonly #rotations: { from: TestHost; to: TestHost }[] = [];
  #heartbeatAtMs: number;
  #epoch: string;

  /** `relay` was opened just now, on an empty folder. */
  constructor(relay: TestRelay) {
    this.#relay = relay;
    this.#model = new NaiveModel(relay.settings, relayHost.signer);
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
      case 'rotate': {
        const [from, to] = [one.isLiteral ? HOSTS[one.from]! : this.#present(one.from), HOSTS[one.to]!];
        return this.#rotate(from, to, clock.nowMs + one.aheadMs);
      }
      case 'rotateAgain': {
        const again = this.#rotations[one.which % Math.max(1, this.#rotations.length)];
        return again ? this.#rotate(again.from, again.to, clock.nowMs) : NOTHING;
      }
      case 'revoke': {
        const { key } = HOSTS[one.host]!;
        const answer = await engine.admissions.revokeHost(revokeOf(HOSTS[one.host]!, { nowMs: clock.nowMs }));
        return { seen: answer.type === 'Refusal' ? answer.code : answer.type, expected: this.#model.revoke(key) };
      }
      case 'deny': {
        const command = denyStep(one.selectors, clock.nowMs);
        await this.#relay.deny(command);
        this.#model.deny(command);
        return NOTHING;
      }
      case 'invite': {
        const inviteHash = INVITES[one.invite]!;
        const command = inviteOf(inviteHash, { expiresAtMs: clock.nowMs + one.forMs, nowMs: clock.nowMs });
        await engine.admissions.issueInvite(command);
        this.#model.invite(command);
        return NOTHING;
      }
      case 'seen': {
        await engine.noteHostSeen(hostSeenOf(HOSTS[one.host]!, clock.nowMs));
        const host = this.#model.enrolments.get(HOSTS[one.host]!.key);
        if (host) host.seen = true;
        return NOTHING;
      }
      case 'senders': {
        const { nowMs } = clock;
        const senders = one.senders.map((sender) => HOSTS[sender]!);
        const command = sendersOf(this.#present(one.host), senders, { iatMs: nowMs - one.agoMs, nowMs });
        const answer = await this.#relay.publishSenders(command);
        const seen = answer.type === 'Refusal' ? answer.code : answer.type;
        return { seen, expected: this.#model.publishSenders(command) };
      }
      case 'sweep':
        await this.#relay.sweep();
        await engine.admissions.lapse(clock.nowMs);
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
    // An opening answers before its revocations are durable.
    await engine.durable();
    const seen: unknown[] = [engine.directory.liveCount, engine.epoch];
    const expected: unknown[] = [model.live().length, this.#epoch];
    for (const host of HOSTS) {
      const { key } = host;
      const queue = await this.#relay.queue(host);
      const wires = await engine.payloads(queue);
      seen.push({
        queue: queue.map(({ seq, itemId, senderPubkey }, at) => [seq, itemId, senderPubkey, wires[at]?.toString()]),
        head: engine.head(key),
        enrolment: enrolmentShown(store.get('enrolment', key)),
        senders: store.get('senders', key)?.senders.toSorted(),
        dedupRows: store.get('sender', key)?.dedupRows ?? 0,
        shares: HOSTS.map((sender) => store.get('share', key + sender.key)),
      });
      const enrolment = model.enrolments.get(key);
      const list = model.lists.get(key);
      expected.push({
        queue: model.queue(key).map(({ seq, itemId, sender, wire }) => [seq, itemId, sender, wire]),
        head: model.targetRow(key),
        enrolment: enrolment && { ...enrolment },
        senders: list && [...list.senders].toSorted(),
        dedupRows: model.dedupRows(new Set([key])),
        shares: HOSTS.map((sender) => orNothing(model.share(key, new Set([sender.key])))),
      });
    }
    seen.push(ACCOUNTS.map((account) => store.get('account', account)));
    expected.push(ACCOUNTS.map((account) => orNothing(model.account(account))));
    seen.push(INVITES.map((hash) => store.get('invite', hash)?.expiresAtMs));
    expected.push(INVITES.map((hash) => model.invites.get(hash)));
    seen.push(model.denied.map((entry) => store.get('deny', rowKey.deny(entry))?.untilMs));
    expected.push(model.denied.map(({ untilMs }) => untilMs));
    return { seen, expected };
  }

  /** The key that the host of this number has now. */
  #present(number: number): TestHost {
    const { present } = this.#model.host(HOSTS[number]!.key);
    return HOSTS.find(({ key }) => key === present)!;
  }

  async #rotate(from: TestHost, to: TestHost, iatMs: number): Promise<Sayings> {
    const command = rotateOf(from, to, { iatMs, nowMs: this.#relay.clock.nowMs });
    const { lastLsn } = this.#relay.store;
    const answer = await this.#relay.rotate(command);
    const expected = this.#model.rotate(command);
    const isRepeated = this.#rotations.some((one) => one.from === from && one.to === to);
    if (answer.type === 'KeyRotated' && !isRepeated) this.#rotations.push({ from, to });
    const changesNothing = answer.type === 'Refusal' || isRepeated;
    if (changesNothing && this.#relay.store.lastLsn !== lastLsn) throw new Error('a rotation without effect is logged');
    if (answer.type === 'Refusal') return { seen: answer.code, expected: expected.verdict };
    const { type: verdict, movedItems, headSeq } = answer;
    return { seen: { verdict, movedItems, headSeq }, expected };
  }

  async #push(items: readonly PushedInTest[]): Promise<Sayings> {
    const { nowMs } = this.#relay.clock;
    const commands = items.map(({ sender, id, targets, size, verdict, isV1, isLiteral }) => {
      const hostOf = (number: number): TestHost => (isLiteral ? HOSTS[number]! : this.#present(number));
      const wire = `m${id}`.padEnd(size, 'x').slice(0, size);
      const to = targets.map((target) => [hostOf(target), wire] as const);
      return pushOf(hostOf(sender), `m${id}`, to, { wireVerdict: verdict, isKnownById: isV1, nowMs });
    });
    const outcomes = await this.#relay.push(...commands);
    const seen = outcomes.map(outcomeOf);
    // A revoked sender gets no answer, and nothing of its request is looked at from there on.
    const revoked = commands.findIndex(({ senderPubkey }) => this.#model.enrolments.get(senderPubkey)?.isRevoked);
    const expected = commands.slice(0, revoked < 0 ? undefined : revoked).map((command, at) => {
      const { verdict, seqs } = this.#model.push(command);
      // Two keys of one host may have had the item each: either seq is an original one.
      const answered = seen[at]?.seqs ?? [];
      return { verdict, seqs: seqs.map((of, place) => (of.includes(answered[place]!) ? answered[place] : of)) };
    });
    return { seen, expected: revoked < 0 ? expected : [] };
  }

  async #ack({ target, where, isStale }: Step & { type: 'ack' }): Promise<Sayings> {
    const host = this.#present(target);
    const { key } = host;
    const queue = this.#model.queue(key);
    const headSeq = this.#model.heads.get(key) ?? 0;
    const inQueue = queue[Math.floor(where * queue.length)]?.seq ?? headSeq;
    const through = where < 0 ? 0 : where > 1 ? headSeq + 1 : inQueue;
    const answer = await this.#relay.ack(host, through, isStale ? { epoch: epochNumbered(0) } : {});
    const seen = answer.type === 'Acked' ? answer : { code: answer.code, members: answer.members };
    if (isStale) return { seen, expected: { code: 'EPOCH_CHANGED', members: { epoch: this.#epoch } } };
    const { verdict, deleted } = this.#model.ack(key, through, this.#relay.clock.nowMs);
    if (verdict !== 'Acked') return { seen, expected: { code: verdict, members: { head_seq: headSeq } } };
    return { seen, expected: { type: 'Acked', ackedThrough: this.#model.acked.get(key) ?? 0, deleted, headSeq } };
  }

  async #enrol(command: EnrolHost): Promise<Sayings> {
    const answer = await this.#relay.enrol(command);
    const { verdict, lapsing } = this.#model.enrol(command);
    // Of several that are equally old, any one may give way.
    const lapsed = lapsing.filter((key) => this.#relay.engine.directory.get(key) === undefined);
    for (const key of lapsed) this.#model.enrolments.delete(key);
    return {
      seen: [answer.type === 'Enrolled' ? answer.type : answer.code, lapsed.length],
      expected: [verdict, lapsing.length > 0 ? 1 : 0],
    };
  }

  async #reopen(): Promise<Sayings> {
    const { clock } = this.#relay;
    await this.#relay.reopen();
    this.#model.restart(clock.nowMs);
    const ageMs = clock.nowMs - this.#heartbeatAtMs;
    const isDoubtful = this.#relay.doubtsOldHeartbeats && (ageMs > HEARTBEAT_STALE_MS || ageMs < -60_000);
    const { epoch } = this.#relay.engine;
    const seen = epoch !== this.#epoch;
    this.#epoch = epoch;
    if (isDoubtful) this.#heartbeatAtMs = clock.nowMs;
    return { seen, expected: isDoubtful };
  }
}

function enrolStep(step: EnrolStep, nowMs: number): EnrolHost {
  const { host, name, account, isAdmitted, validForMs, invite } = step;
  const proven = account !== null && {
    account: ACCOUNTS[account]!,
    org: `org-${account}`,
    clientId: `client-${host % 2}`,
    ...(validForMs !== null && { validUntilMs: nowMs + validForMs }),
  };
  return enrolOf(HOSTS[host]!, {
    hostName: ['Same', 'SAME', `own${host}`][name] as HostName,
    authorizedBy: proven ? 'account-token' : 'host-key',
    answer: { ok: isAdmitted, ...proven },
    inviteHash: INVITES[invite],
    nowMs,
  });
}

function denyStep({ host, client, account, org }: (Step & { type: 'deny' })['selectors'], nowMs: number): DenyHosts {
  return denyOf({
    hostFp: host === null ? null : hostFingerprint(HOSTS[host]!.key),
    clientId: client === null ? null : `client-${client}`,
    account: account === null ? null : ACCOUNTS[account]!,
    org: org === null ? null : `org-${org}`,
    nowMs,
  });
}

/** An enrolment row as the model keeps it. */
function enrolmentShown(row: EnrolmentRow | undefined): ModelEnrolment | undefined {
  if (!row) return undefined;
  const {
    hostPubkey: key,
    hostName: name,
    revokedAtMs,
    ownerFp: _ownerFp,
    rotatedTo: _rotatedTo,
    madeV2Hop: _v2,
    sendersDatedMs: _datedMs,
    ...others
  } = row;
  return { key, name, isRevoked: revokedAtMs !== null, ...others };
}

function orNothing(usage: UsageRow): UsageRow | undefined {
  return usage.items === 0 && usage.bytes === 0 ? undefined : usage;
}
