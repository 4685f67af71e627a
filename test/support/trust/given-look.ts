/**
 * `given(state).when(shown)`: one look of a host over a state, at a relay that shows some logs.
 *
 *     const look = given(knowing(keptOf(log, 3))).when(shown(log));
 *     expect(look.newest).toMatchObject({ size: 5 });
 */
import { look } from '../../../src/host/core/relay-look.ts';
import {
  type Answer,
  type EvidenceKind,
  type KeptNote,
  type LookOutcome,
  NEW_TRUST,
  type Question,
  type RelayTrustRow,
  type TrustState,
} from '../../../src/host/core/relay-trust.ts';
import { noteHash } from '../../../src/protocol/seen.ts';
import { relay } from '../hosts.ts';
import { SeededRandom } from '../seeded-random.ts';
import type { SmallLog } from '../small-log.ts';
import { NOON_MS } from '../test-clock.ts';

const random = new SeededRandom(37);
export const randomBytes = (count: number): Buffer => random.bytes(count);

export function keptOf(log: SmallLog, size = log.size, knew?: Buffer): KeptNote {
  return { ...log.end(size), note: log.note(size, knew), knew: knew?.toString('base64') ?? null, atMs: NOON_MS };
}

/** A host that kept these notes, the last one of the present epoch, of a relay that signs `after`. */
export function knowing(...kept: KeptNote[]): TrustState {
  const current = kept.at(-1)?.epoch ?? null;
  const ownNotes = kept.map(({ epoch, note }) => ({ epoch, hash: noteHash(note), note }));
  const trust = { ...NEW_TRUST, current, ownNotes, givesAfter: true };
  return { relayPubkey: relay.key, trust, kept, pending: [], rows: [] };
}

/** Answers a question of a look; undefined: as the logs say. */
export type Otherwise = (question: Question) => Answer | undefined;

export const REFUSED: Answer = { type: 'refused', status: 404, code: 'NOT_FOUND' };
export const NEW_EPOCH: Answer = { type: 'refused', status: 409, code: 'EPOCH_CHANGED' };

/** Refuses these questions. */
export function refusing(...asked: Question['ask'][]): Otherwise {
  return ({ ask }) => (asked.includes(ask) ? REFUSED : undefined);
}

/** Signs the newest head without `after`, as a relay of before does, and takes no `size`. */
export const OF_BEFORE: Otherwise = ({ ask }) => (ask === 'headAt' || ask === 'show' ? REFUSED : undefined);

export interface Shown {
  /** The last one is of the present epoch. */
  logs: readonly SmallLog[];
  givesAfter: boolean;
  otherwise: Otherwise;
}

export function shown(...logs: SmallLog[]): Shown {
  return { logs, givesAfter: true, otherwise: () => undefined };
}

export function given(state: TrustState): GivenLook {
  return new GivenLook(state, NOON_MS);
}

class GivenLook {
  readonly state: TrustState;
  readonly nowMs: number;

  constructor(state: TrustState, nowMs: number) {
    this.state = state;
    this.nowMs = nowMs;
  }

  when(relayShown: Shown, otherwise: Otherwise = relayShown.otherwise): Looked {
    const steps = look(this.state, { nowMs: this.nowMs, randomBytes });
    const questions: Question[] = [];
    let step = steps.next();
    while (!step.done) {
      questions.push(step.value);
      step = steps.next(otherwise(step.value) ?? answerOf(relayShown, step.value));
    }
    return new Looked(this, step.value, questions);
  }
}

/** What the look asked and found, in the views that tests compare. */
export class Looked {
  readonly outcome: LookOutcome;
  readonly questions: readonly Question[];
  readonly #given: GivenLook;

  constructor(givenLook: GivenLook, outcome: LookOutcome, questions: readonly Question[]) {
    this.#given = givenLook;
    this.outcome = outcome;
    this.questions = questions;
  }

  get trust(): RelayTrustRow {
    return this.outcome.trust;
  }

  get newest(): KeptNote | undefined {
    return this.outcome.kept.find(({ epoch }) => epoch === this.trust.current);
  }

  /** The words, with `!` behind those that the relay signed. */
  get words(): (EvidenceKind | `${EvidenceKind}!`)[] {
    return this.outcome.evidence.map(({ kind, isSigned }) => (isSigned ? (`${kind}!` as const) : kind));
  }

  get asked(): Question['ask'][] {
    return this.questions.map(({ ask }) => ask);
  }

  /** The hashes in what was known to the host as it asked for the newest head. */
  get knew(): string {
    const [head] = this.questions;
    return head?.ask === 'head' ? head.knew.toString('hex') : '';
  }

  /** The state of the host later, with what the look left in it. */
  later(minutes: number, changes: Partial<TrustState> = {}): GivenLook {
    const { state, nowMs } = this.#given;
    const { trust, kept, pendingOver } = this.outcome;
    const pending = state.pending.filter((note) => !pendingOver.includes(note));
    return new GivenLook({ ...state, trust, kept, pending, ...changes }, nowMs + minutes * 60_000);
  }
}

function answerOf({ logs, givesAfter }: Shown, question: Question): Answer {
  const document = documentOf(logs, givesAfter, question);
  return document === undefined ? REFUSED : { type: 'answer', document };
}

function documentOf(logs: readonly SmallLog[], givesAfter: boolean, question: Question): unknown {
  const tip = logs.at(-1)!;
  switch (question.ask) {
    case 'head':
      return tip.note(tip.size, givesAfter ? question.knew : undefined);
    case 'headAt': {
      const log = logs.find(({ epoch }) => epoch === question.epoch);
      return log && question.size <= log.size ? log.note(question.size) : undefined;
    }
    case 'consistency':
      return logs.find(({ epoch }) => epoch === question.epoch)?.consistency(question.from, question.to);
    case 'link':
      return logs.find(({ epoch }) => epoch === question.epoch)?.leafAt(0);
    case 'show':
      return { known: false };
    case 'proof':
      return undefined;
  }
}
