/**
 * What a host of a simulation knows of the log of its relay, by the rules of the product: it looks, and paired hosts
 * tell each other where the relay does not see it. The relay answers by its real routes.
 */
import { hear, seenFor, toldNoteOf } from '../../../src/host/core/heard-notes.ts';
import { look } from '../../../src/host/core/relay-look.ts';
import {
  type Answer,
  type EvidenceRow,
  type KeptNote,
  NEW_TRUST,
  type PendingNote,
  type Question,
} from '../../../src/host/core/relay-trust.ts';
import type { PeerId } from '../../../src/host/core/rows.ts';
import type { Reply } from '../../../src/http/exchange.ts';
import type { Epoch } from '../../../src/protocol/names.ts';
import { afterOf } from '../../../src/protocol/seen.ts';
import type { Engine } from '../../../src/relay/engine/engine.ts';
import type { HopRelayRequest, RelayParts } from '../../../src/relay/http/operation.ts';
import { LOG_CHECKPOINT, LOG_CONSISTENCY, LOG_LINK, SHOW_CHECKPOINT } from '../../../src/relay/http/v2-log.ts';
import { relay as relayHost } from '../hosts.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { SimulatedRelay } from './simulated-relay.ts';

const LEFT_MAX = 64;

export class Lookout {
  readonly evidence: EvidenceRow[] = [];
  readonly #no: number;
  readonly #random: SeededRandom;
  readonly #nowMs: () => number;
  #trust = NEW_TRUST;
  #kept: KeptNote[] = [];
  #pending: PendingNote[] = [];
  #epoch: Epoch | undefined;
  #turn = 0;
  #isLooking = false;

  constructor(no: number, random: SeededRandom, nowMs: () => number) {
    this.#no = no;
    this.#random = random;
    this.#nowMs = nowMs;
  }

  get #known() {
    return { relayPubkey: relayHost.key, trust: this.#trust, kept: this.#kept, pending: this.#pending };
  }

  get #facts() {
    return { nowMs: this.#nowMs(), randomBytes: (count: number) => this.#random.bytes(count) };
  }

  /** Hears what the other one tells of the relay. */
  hears(other: Lookout): void {
    const telling = { relayPubkey: relayHost.key, evidence: other.evidence };
    const entry = seenFor(toldNoteOf(other.#known, other.#facts), telling, other.#turn++, other.#facts);
    if (!entry) return;
    const peerId = String(other.#no) as PeerId;
    const { pending, evidence } = hear(this.#known, { peerId, entry }, this.#facts);
    if (pending) {
      const others = this.#pending.filter((one) => one.peerId !== peerId || one.epoch !== pending.epoch);
      this.#pending = [...others, pending];
    }
    this.#note(evidence);
  }

  /** `within` gives up what the relay does not answer. */
  async looksAt(relay: SimulatedRelay, within: <T>(answer: Promise<T>) => Promise<T | undefined>): Promise<void> {
    const { serving } = relay;
    if (!serving || this.#isLooking) return;
    this.#isLooking = true;
    this.#sees(serving.engine.epoch);
    const steps = look({ ...this.#known, rows: [] }, this.#facts);
    let step = steps.next();
    while (!step.done) {
      const answer = relay.serving === serving && (await within(answered(step.value, serving.engine, relay)));
      step = steps.next(answer || { type: 'none' });
    }
    this.#isLooking = false;
    const { isEnded, trust, kept, pendingOver, evidence } = step.value;
    if (!isEnded) return;
    this.#trust = trust;
    this.#kept = kept;
    this.#pending = this.#pending.filter((note) => !pendingOver.includes(note));
    this.#note(evidence);
  }

  /** As a pull or a push names the epoch. */
  #sees(epoch: Epoch): void {
    const before = this.#epoch;
    this.#epoch = epoch;
    if (before === undefined || before === epoch) return;
    const left = [...this.#trust.left.filter((one) => one !== before), before].slice(-LEFT_MAX);
    this.#trust = { ...this.#trust, left };
  }

  #note(found: readonly EvidenceRow[]): void {
    for (const row of found) if (!this.evidence.some(({ digest }) => digest === row.digest)) this.evidence.push(row);
  }
}

async function answered(question: Question, engine: Engine, relay: SimulatedRelay): Promise<Answer> {
  const reply = await replyOf(question, engine, relay);
  const text = String(reply.body);
  if (reply.status !== 200) return { type: 'refused', status: reply.status, code: reply.problem ?? '' };
  const isNote = question.ask === 'head' || question.ask === 'headAt';
  return { type: 'answer', document: isNote ? text : JSON.parse(text) };
}

/** A request as the routes get it, when its query was parsed. */
function asking(query: object, body?: object): HopRelayRequest<never> {
  const bytes = Buffer.from(JSON.stringify(body ?? {}));
  return { query, body: { bytes } } as unknown as HopRelayRequest<never>;
}

function replyOf(question: Question, engine: Engine, relay: SimulatedRelay): Reply | Promise<Reply> {
  const endEpoch = async (ending: Epoch): Promise<Epoch> => {
    const [epoch, nowMs] = [relay.newEpoch(), relay.clock.nowMs()];
    const ended = { type: 'RotateEpoch', epoch, reason: 'log-contradicted', ending, nowMs } as const;
    return (await engine.rotateEpoch(ended)).epoch;
  };
  const parts = { engine, relayPubkey: relayHost.key, endEpoch } as unknown as RelayParts;
  switch (question.ask) {
    case 'head':
      return LOG_CHECKPOINT.handle(asking({ after: afterOf(question.knew).toString('base64url') }), parts);
    case 'headAt':
      return LOG_CHECKPOINT.handle(asking({ epoch: question.epoch, size: question.size }), parts);
    case 'consistency':
      return LOG_CONSISTENCY.handle(asking({ epoch: question.epoch, from: question.from, to: question.to }), parts);
    case 'link':
      return LOG_LINK.handle(asking({ epoch: question.epoch }), parts);
    case 'show': {
      const { note, knew, older } = question;
      return SHOW_CHECKPOINT.handle(asking({}, { note, knew, older }), parts);
    }
    case 'proof':
      throw new Error('invariant: a lookout has no rows to prove');
  }
}
