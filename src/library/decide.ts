/**
 * Decides any command over rows in memory: reads the facts that its decision rests on, and decides.
 *
 * `ExpireItems` is not among them: what it decides is signed before it is an event (`decideExpire`, `signNotice`;
 * `MemoryRelay` does both).
 */
import { assertNever } from '../lib/assert-never.ts';
import type { Signer } from '../protocol/ed25519.ts';
import { type Epoch, EPOCH_RANDOM_BYTES, epochFromRandom } from '../protocol/names.ts';
import type { PublicKey } from '../protocol/public-key.ts';
import type { Command, ExpireItems } from '../relay/core/command.ts';
import { decideDeny, decideInvite, decideLapse, decideRevoke, deniedHosts } from '../relay/core/decide-admission.ts';
import {
  decideEnrol,
  decideHostSeen,
  decidePublishEncKey,
  decidePublishSenders,
} from '../relay/core/decide-enrolment.ts';
import { decideCheckpoint, decideLostItem, decideRotateEpoch } from '../relay/core/decide-log.ts';
import { decidePush, knownKeys, pushFacts } from '../relay/core/decide-push.ts';
import { decideAck, decideExpire, decideExtend, decidePurge, signNotice } from '../relay/core/decide-queue.ts';
import { MOVED_AT_ONCE, decideMove, decideRotate } from '../relay/core/decide-rotation.ts';
import {
  type Decided,
  type HostFacts,
  type Outcome,
  type Refusal,
  type RelaySettings,
  decisionOf,
  sendersRow,
} from '../relay/core/decision.ts';
import { LOG_FORMAT } from '../relay/core/log-format.ts';
import { MapRows } from './map-rows.ts';

/** Every command that is decided by the rows alone. */
export type DecidableCommand = Exclude<Command, ExpireItems>;

/** There is no store whose layout it could name. */
const NO_SCHEMA = 0;

/** Changes nothing. `logFormat`: that of the log (core/log-format.ts). Throws `BrokenQueue` for contradicting rows. */
export function decide(
  command: DecidableCommand,
  rows: MapRows,
  settings: RelaySettings,
  logFormat = LOG_FORMAT,
): Decided<Outcome> | Refusal {
  switch (command.type) {
    case 'EnrolHost':
      return decideEnrol(command, hostFacts(rows, settings), logFormat);
    case 'NoteHostSeen':
      return decideHostSeen(command, rows.get('enrolment', command.hostPubkey), logFormat);
    case 'PushItem':
      return decidePush(
        command,
        pushFacts(command, knownKeys(command, rows, settings), rows, rows, settings),
        settings,
      );
    case 'AckItems':
      return decideAck(command, rows, rows.released(command.targetPubkey, command.through));
    case 'ExtendDedup':
      return decideExtend(command, rows, settings);
    case 'PublishSenders':
      return decidePublishSenders(command, sendersRow(rows, command.hostPubkey), logFormat);
    case 'PublishEncKey':
      return decidePublishEncKey(command, rows.get('encKey', command.hostPubkey));
    case 'PurgeDedup':
      return decidePurge(command);
    case 'TakeCheckpoint':
      return decideCheckpoint(command);
    case 'RevokeHost':
      return decideRevoke(command, rows.get('enrolment', command.hostPubkey));
    case 'RotateKey':
      return decideRotate(command, hostFacts(rows, settings), rows.released(command.oldPubkey, Infinity));
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
      return decideRotateEpoch(command, rows);
    case 'ReportLostItem':
      return decideLostItem(command, rows);
    default:
      return assertNever(command);
  }
}

function hostFacts(rows: MapRows, settings: RelaySettings): HostFacts {
  return { rows, directory: rows.directory, admissions: rows.admissions, settings };
}

export interface MemoryRelayOptions {
  /** The relay's own key. */
  signer: Signer;
  settings: RelaySettings;
  /** Milliseconds since the Unix epoch. */
  nowMs: number;
  epoch?: Epoch;
}

/** The relay's core with its rows in memory: no log, no disk, no wire bytes, and nothing waits. */
export class MemoryRelay {
  readonly rows: MapRows;
  readonly settings: RelaySettings;
  readonly #signer: Signer;

  constructor({ signer, settings, nowMs, epoch }: MemoryRelayOptions) {
    this.#signer = signer;
    this.settings = settings;
    this.rows = new MapRows({
      type: 'RelayInitialised',
      relayPubkey: signer.publicKey,
      epoch: epoch ?? epochFromRandom(Buffer.alloc(EPOCH_RANDOM_BYTES, 1)),
      schemaVersion: NO_SCHEMA,
      atMs: nowMs,
    });
  }

  /** Decides, and reduces what was decided. Throws `BrokenQueue`. */
  handle(command: Command): Decided<Outcome> | Refusal {
    const decision = command.type === 'ExpireItems' ? this.#expire(command) : decide(command, this.rows, this.settings);
    if (decision.type === 'Decided') for (const event of decision.events) this.rows.apply(event);
    if (decision.type === 'Refusal') return decision;
    const { nowMs } = command;
    if (command.type === 'RotateKey') this.#move(command.oldPubkey, nowMs);
    if (command.type === 'DenyHosts')
      for (const { hostPubkey } of deniedHosts(command, this.rows, this.rows.directory))
        this.handle({ type: 'RevokeHost', hostPubkey, cause: 'denied', nowMs });
    return decision;
  }

  #expire(command: ExpireItems): Decided<Outcome> {
    const expiry = decideExpire(command, this.rows, this.settings);
    if (!expiry) return decisionOf({ type: 'Done' });
    const notices = expiry.notices.map((notice) => signNotice(notice, this.#signer));
    return decisionOf({ type: 'Done' }, { ...expiry, notices });
  }

  /** A rotation begins the move of a queue; here it ends at once. */
  #move(oldPubkey: PublicKey, nowMs: number): void {
    while (this.rows.get('move', oldPubkey)) {
      const fromSeqs = this.rows
        .queue(oldPubkey)
        .slice(0, MOVED_AT_ONCE)
        .map(({ seq }) => seq);
      this.handle({ type: 'MoveItems', oldPubkey, fromSeqs, nowMs });
    }
  }
}
