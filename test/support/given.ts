/**
 * `given(events).when(command)`: reduces the events into rows, reads the facts, decides, and shows what was decided.
 *
 *     const push = given(enrolled(bob)).when(pushOf(alice, 'm1', [[bob, 'x']]));
 *     expect(push.events).toEqual([accepted(alice, 'm1', [[bob, seq, 'x']])]);
 *
 * Every history begins with `RelayInitialised`. Nothing is stored, nothing waits.
 */
import { assertNever } from '../../src/lib/assert-never.ts';
import type { Command, ExpireItems } from '../../src/relay/core/command.ts';
import { decideDeny, decideInvite, decideLapse, decideRevoke } from '../../src/relay/core/decide-admission.ts';
import {
  decideEnrol,
  decideHostSeen,
  decidePublishEncKey,
  decidePublishSenders,
} from '../../src/relay/core/decide-enrolment.ts';
import { decidePush } from '../../src/relay/core/decide-push.ts';
import { decideMove, decideRotate } from '../../src/relay/core/decide-rotation.ts';
import type {
  AckOutcome,
  Decided,
  Done,
  EncKeyOutcome,
  EnrolOutcome,
  EpochOutcome,
  InviteOutcome,
  PushOutcome,
  Refusal,
  RevokeOutcome,
  RotateOutcome,
  SendersOutcome,
} from '../../src/relay/core/decision.ts';
import type { RelayEvent } from '../../src/relay/core/event.ts';
import {
  ackFacts,
  enrolFacts,
  expireFacts,
  extendFacts,
  lostItemFacts,
  rotateFacts,
} from '../../src/relay/core/facts.ts';
import { pushFacts } from '../../src/relay/core/push-facts.ts';
import { rowKey } from '../../src/relay/core/rows.ts';
import type { TestHost } from './hosts.ts';
import { initialised } from './events.ts';
import { MapRows } from './map-rows.ts';
import { type SettingsChanges, settingsWith } from './settings.ts';
import {
  type DecidedExpiry,
  decideExpire,
  decidePurge,
  decideAck,
  decideExtend,
} from '../../src/relay/core/decide-queue.ts';
import { decideLostItem, decideRotateEpoch, decideCheckpoint } from '../../src/relay/core/decide-log.ts';

export type AnyOutcome =
  | RotateOutcome
  | RevokeOutcome
  | InviteOutcome
  | PushOutcome
  | EnrolOutcome
  | AckOutcome
  | EpochOutcome
  | SendersOutcome
  | EncKeyOutcome
  | Done;

export function given(...events: readonly RelayEvent[]): Given {
  return new Given(events);
}

export class Given {
  readonly rows: MapRows;
  #settings = settingsWith();

  constructor(events: readonly RelayEvent[]) {
    this.rows = new MapRows(initialised, ...events);
  }

  /** Decides under other settings than the documented defaults. */
  under(changes: SettingsChanges): this {
    this.#settings = settingsWith(changes);
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

  /** What a sweep decides, before its notices are signed. */
  whenExpiring(command: ExpireItems): DecidedExpiry | undefined {
    return decideExpire(command, expireFacts(command, this.rows, this.#settings));
  }

  when(command: Exclude<Command, ExpireItems>): Decision {
    return new Decision(this.#decide(command), this.rows);
  }

  #decide(command: Exclude<Command, ExpireItems>): Decided<AnyOutcome> | Refusal {
    const { rows } = this;
    switch (command.type) {
      case 'EnrolHost':
        return decideEnrol(command, enrolFacts(command, rows, rows.directory, rows.admissions, this.#settings));
      case 'NoteHostSeen':
        return decideHostSeen(command, rows.get('enrolment', command.hostPubkey));
      case 'PushItem':
        return decidePush(command, pushFacts(command, rows, rows.directory, this.#settings));
      case 'AckItems':
        return decideAck(command, ackFacts(command, rows, rows.released(command.targetPubkey, command.through)));
      case 'ExtendDedup':
        return decideExtend(command, extendFacts(command, rows, this.#settings));
      case 'PublishSenders':
        return decidePublishSenders(command, rows.get('senders', command.hostPubkey));
      case 'PublishEncKey':
        return decidePublishEncKey(command, rows.get('encKey', command.hostPubkey));
      case 'PurgeDedup':
        return decidePurge(command);
      case 'TakeCheckpoint':
        return decideCheckpoint(command);
      case 'RevokeHost':
        return decideRevoke(command, rows.get('enrolment', command.hostPubkey));
      case 'RotateKey': {
        const waiting = rows.released(command.oldPubkey, Infinity);
        const facts = rotateFacts(command, rows, rows.directory, rows.admissions, this.#settings, waiting);
        return decideRotate(command, facts);
      }
      case 'MoveItems': {
        const move = rows.get('move', command.oldPubkey);
        if (!move) throw new Error('only a queue that is on its way can be moved');
        return decideMove(command, move);
      }
      case 'DenyHosts':
        return decideDeny(command, rows.admissions.hasEntry(command), rows.admissions.deniedCount);
      case 'IssueInvite':
        return decideInvite(command, rows.admissions.inviteCount);
      case 'LapseAdmissions':
        return decideLapse(command);
      case 'RotateEpoch':
        return decideRotateEpoch(command);
      case 'ReportLostItem':
        return decideLostItem(command, lostItemFacts(command, rows));
      default:
        return assertNever(command);
    }
  }
}

/** What was decided, in the views that tests compare. */
export class Decision {
  /** Empty when nothing happened. */
  readonly events: readonly RelayEvent[];
  /** The answer; `undefined` when the request was refused. */
  readonly outcome: AnyOutcome | undefined;
  readonly refusal: Refusal | undefined;
  readonly #before: MapRows;

  constructor(decision: Decided<AnyOutcome> | Refusal, before: MapRows) {
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
