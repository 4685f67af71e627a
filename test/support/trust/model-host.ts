/** A host as the rules of trust have it: real looks, real notes of peers, and a mailbox that is counted. */
import { hear, isAllHeard, seenFor, type ToldNote, toldNoteOf } from '../../../src/host/core/heard-notes.ts';
import { look } from '../../../src/host/core/relay-look.ts';
import {
  type Answer,
  type EvidenceKind,
  type EvidenceRow,
  type KeptNote,
  type LookFacts,
  type LookOutcome,
  NEW_TRUST,
  type PendingNote,
  type Question,
  type RelayTrustRow,
  type RowToProve,
} from '../../../src/host/core/relay-trust.ts';
import type { PeerId } from '../../../src/host/core/rows.ts';
import { evidenceOf, headOfPending } from '../../../src/host/core/signed-heads.ts';
import type { ItemId, Epoch } from '../../../src/protocol/names.ts';
import { SEEN_ENTRIES_MAX, type SeenEntry, markOf, noteHash } from '../../../src/protocol/seen.ts';
import { relay as relayHost } from '../hosts.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { NOON_MS } from '../test-clock.ts';
import { type ModelItem, type ModelRelay, targetOf, wireHashOf } from './model-relay.ts';

export const MINUTE_MS = 60_000;
const LOOK_MINUTES = 10;
const ROWS_MAX = 8;
const LEFT_MAX = 64;
/** As in a daemon (outbox/trust-rows.ts). */
const HEARD_LATELY_MAX = 512;

const REFUSED: Answer = { type: 'refused', status: 404, code: 'NOT_FOUND' };

interface ModelRow {
  rowId: number;
  item: ModelItem;
  /** What the relay answered, when it last took it. */
  accepted: { epoch: Epoch; seq: number; atMs: number } | null;
  proven: RowToProve['proven'];
  denied: RowToProve['denied'];
  isDone: boolean;
}

interface SavedHost {
  trust: RelayTrustRow;
  kept: KeptNote[];
  pending: PendingNote[];
}

/**
 * A rule that a worse host does not have: the controls of the model. The rules are in the code under test, so each is
 * taken away around it: in what a look begins with, what it is answered, when it is, or what is kept of it.
 */
export type Lacking =
  | 'notes of peers'
  | 'proofs of rows'
  /** A look in which a question was not answered says nothing. */
  | 'ends of looks'
  /** Words at the third refusal, each ten minutes after the one before. */
  | 'patience'
  /** Epochs that the relay left. */
  | 'left epochs'
  /** Own notes, in what peers knew when they asked. */
  | 'own notes'
  /** Notes of epochs before the present one, to which the links of a new one lead back. */
  | 'earlier epochs'
  /** A smaller head is only old when the relay proves that it is part of what it showed before. */
  | 'old answers'
  /** A smaller head that is no part of that counts when it is still so a minute later. */
  | 'waiting a minute'
  /** A look that is owed is done later when it cannot be done now. */
  | 'owed looks'
  /** A note of a peer of an epoch that this host does not see says nothing. */
  | 'unknown epochs'
  /** All is pushed again once an hour, and then more and more seldom. */
  | 'bounded pushes'
  /** The smaller head of a relay that went back is kept in the place of the larger. */
  | 'heads that went back'
  /** What a peer knew counts when the relay signed the hash of it. */
  | 'signed order'
  /** An answer without the `after` that was asked is of a cache. */
  | 'fresh answers'
  /** The relay is shown what it signed and does not hold. */
  | 'shown notes'
  /** A peer that has heard one entry has not heard the next. */
  | 'news';

export class ModelHost {
  readonly name: string;
  lacks: Lacking | undefined;
  trust = NEW_TRUST;
  kept: KeptNote[] = [];
  pending: PendingNote[] = [];
  readonly evidence: EvidenceRow[] = [];
  readonly rows = new Map<ItemId, ModelRow>();
  readonly received = new Set<ItemId>();
  readonly setBacks: NonNullable<LookOutcome['setBack']>[] = [];
  asleepUntil = 0;
  pushedAgain = 0;
  looks = 0;
  /** Items without a note, as the other host has heard it. */
  leftOut = 0;
  questions = 0;
  readonly #relay: ModelRelay;
  readonly #random: SeededRandom;
  #mailEpoch: Epoch | undefined;
  #isOwed = false;
  #isSoon = false;
  #lookedAt = -LOOK_MINUTES;
  #turn = 0;
  #told: { trust: RelayTrustRow; told: ToldNote | undefined } | undefined;
  /** The marks of what peers showed, to be said to them. */
  readonly #toSay = new Map<string, string[]>();
  /** Of the head in this look. */
  #shownSize = 0;
  readonly #heardLately = new Set<string>();
  static ids = 0;

  constructor(name: string, relay: ModelRelay, random: SeededRandom) {
    this.name = name;
    this.#relay = relay;
    this.#random = random;
  }

  get words(): EvidenceKind[] {
    return [...new Set(this.evidence.map(({ kind }) => kind))];
  }

  get isPushDue(): boolean {
    return this.trust.pushedAgain?.isDue === true;
  }

  get newest(): KeptNote | undefined {
    return this.kept.find(({ epoch }) => epoch === this.trust.current);
  }

  saved(): SavedHost {
    return structuredClone({ trust: this.trust, kept: this.kept, pending: this.pending });
  }

  restore(saved: SavedHost): void {
    Object.assign(this, structuredClone(saved));
    this.#heardLately.clear();
    this.#toSay.clear();
  }

  send(to: string, receiptOf?: ItemId): void {
    const rowId = ++ModelHost.ids;
    const id = `${receiptOf === undefined ? 'm' : 'r'}${rowId}` as ItemId;
    const shown = { seen: this.#seenIn(to), heard: this.#toSay.get(to) ?? [] };
    this.#toSay.delete(to);
    const item = { id, from: this.name, to, ...shown, ...(receiptOf !== undefined && { receiptOf }) };
    this.rows.set(id, { rowId, item, accepted: null, proven: null, denied: null, isDone: false });
  }

  /** What it shows over the LAN. */
  seen(): SeenEntry[] {
    const telling = { relayPubkey: relayHost.key, evidence: this.evidence };
    const entry = seenFor(this.#toldSinceLook, telling, this.#turn++, this.#facts);
    return entry ? [entry] : [];
  }

  /** What it shows in mail. */
  #seenIn(to: string): SeenEntry[] {
    if (!isAllHeard(this.#toldSinceLook, this.evidence, to as PeerId, this.#facts.nowMs)) return this.seen();
    this.leftOut++;
    return [];
  }

  get #toldSinceLook(): ToldNote | undefined {
    const { trust, kept } = this;
    if (this.#told?.trust === trust) return this.#told.told;
    const told = toldNoteOf({ relayPubkey: relayHost.key, trust, kept }, this.#facts);
    if (told && this.lacks === 'news') for (const peer of this.#told?.told?.heardBy ?? []) told.heardBy.add(peer);
    this.#told = { trust, told };
    return told;
  }

  #noteHeard(peer: string, marks: readonly string[]): void {
    const told = this.#toldSinceLook;
    if (told && marks.includes(told.mark)) told.heardBy.add(peer as PeerId);
  }

  hear(peer: string, seen: readonly SeenEntry[]): void {
    if (this.lacks === 'notes of peers') return;
    const peerId = peer as PeerId;
    for (const entry of seen) {
      const name = `${peer} ${entry.checkpoint}`;
      if (this.#heardLately.has(name)) {
        this.#say(peer, entry);
        continue;
      }
      const { relayPubkey, trust, kept, pending } = this.#state();
      const heard = hear({ relayPubkey, trust, kept, pending }, { peerId, entry }, this.#facts);
      const waiting = heard.pending && this.#asBelieved(heard.pending, entry);
      if (waiting) {
        const others = this.pending.filter((one) => one.peerId !== peerId || one.epoch !== waiting.epoch);
        this.pending = [...others, waiting];
      }
      this.#note(heard.evidence);
      if (heard.isOwed) this.#owe(true);
      if (this.#heardLately.size >= HEARD_LATELY_MAX) this.#heardLately.clear();
      if (heard.passedOver) continue;
      this.#heardLately.add(name);
      this.#say(peer, entry);
    }
  }

  #say(peer: string, entry: SeenEntry): void {
    const marks = new Set([markOf(entry), ...(this.#toSay.get(peer) ?? [])]);
    this.#toSay.set(peer, [...marks].slice(0, SEEN_ENTRIES_MAX));
  }

  #asBelieved(note: PendingNote, { knew }: SeenEntry): PendingNote {
    return this.lacks === 'signed order' ? { ...note, knew } : note;
  }

  /** A minute of it; `isLate`: the look of this minute does not come about. */
  step(isLate: boolean): void {
    if (this.asleepUntil > this.#relay.minute) return;
    this.exchange();
    const everyMinutes = this.#isSoon ? 1 : LOOK_MINUTES;
    if (this.#isOwed && !isLate && this.#relay.minute - this.#lookedAt >= everyMinutes) {
      this.#lookedAt = this.#relay.minute;
      this.#look();
    }
    if (this.lacks === 'owed looks') this.#isOwed = false;
  }

  /** Its mail goes out, and what there is for it comes in. */
  exchange(): void {
    if (this.asleepUntil > this.#relay.minute) return;
    this.#push();
    this.#pull();
  }

  /** A host on the LAN is told after a look that is younger than a minute. */
  lookBeforeTelling(): void {
    if (this.asleepUntil > this.#relay.minute || this.#lookedAt === this.#relay.minute) return;
    this.#lookedAt = this.#relay.minute;
    this.#look();
  }

  #push(): void {
    for (const row of this.rows.values()) {
      if (row.accepted || row.isDone) continue;
      const answer = this.#relay.push(this.name, row.item, this.#facts.nowMs);
      if (!answer) return;
      row.accepted = { ...answer, atMs: this.#facts.nowMs };
      row.proven = null;
      this.#saw(answer.epoch);
      this.#owe();
    }
  }

  #pull(): void {
    const page = this.#relay.pull(this.name);
    if (!page) return;
    this.#saw(page.epoch);
    for (const { id, from, receiptOf, seen, heard } of page.items) {
      this.#noteHeard(from, heard);
      this.hear(from, seen);
      this.#owe();
      const confirmed = receiptOf === undefined ? undefined : this.rows.get(receiptOf);
      if (confirmed) confirmed.isDone = true;
      if (receiptOf !== undefined || this.received.has(id)) continue;
      this.received.add(id);
      this.send(from, id);
    }
  }

  /** The relay named another epoch: rules 7 and 8 of pull processing. */
  #saw(epoch: Epoch): void {
    const before = this.#mailEpoch;
    this.#mailEpoch = epoch;
    if (before === undefined || before === epoch) return;
    const left = [...this.trust.left.filter((one) => one !== before), before].slice(-LEFT_MAX);
    this.trust = { ...this.trust, left };
    for (const row of this.rows.values()) if (row.accepted?.epoch !== epoch) row.accepted = null;
    this.#owe();
  }

  #look(): void {
    const steps = look(this.#state(), this.#facts);
    let step = steps.next();
    while (!step.done) {
      this.questions++;
      step = steps.next(this.#answerTo(step.value));
    }
    const found = step.value;
    this.looks++;
    this.#isOwed = found.isOwed;
    this.#isSoon = found.isSoon;
    if (found.isEnded) this.#apply(found);
  }

  #answerTo(question: Question): Answer {
    const { lacks } = this;
    const isBeyond = question.ask === 'consistency' && question.to > this.#shownSize;
    if (lacks === 'old answers' && isBeyond) return REFUSED;
    if (lacks === 'shown notes' && question.ask === 'show') return REFUSED;
    const answer = this.#relay.answer(this.name, question);
    if (question.ask === 'head' && answer.type === 'answer') this.#shownSize = sizeIn(answer.document as string);
    return answer.type === 'none' && lacks === 'ends of looks' ? REFUSED : answer;
  }

  #apply({ trust, kept, pendingOver, evidence, rows, pushAgain, setBack }: LookOutcome): void {
    const { newest: before, lacks } = this;
    const isBack = kept.some(({ epoch, size }) => epoch === before?.epoch && size < before.size);
    if (lacks === 'unknown epochs') this.#note(pendingOver.flatMap((note) => this.#doubted(note, trust)));
    if (lacks === 'heads that went back' && isBack) this.trust = { ...trust, ownNotes: this.trust.ownNotes };
    else Object.assign(this, { trust, kept });
    this.pending = this.pending.filter((note) => !pendingOver.includes(note));
    this.#note(evidence);
    const byId = new Map([...this.rows.values()].map((row) => [row.rowId, row]));
    for (const { rowId, proven, denied } of rows) {
      const row = byId.get(rowId);
      if (row && proven) Object.assign(row, { proven, denied: null });
      if (row && denied) Object.assign(row, { denied, accepted: null });
    }
    if (setBack) this.setBacks.push(setBack);
    if (!pushAgain) return;
    this.pushedAgain++;
    for (const row of this.rows.values()) row.accepted = null;
  }

  /** The word for a note of an epoch that the host does not see. */
  #doubted(note: PendingNote, { echoes }: RelayTrustRow): EvidenceRow[] {
    const head = headOfPending(note);
    if (!echoes.some(({ hash }) => hash === noteHash(note.note))) return [];
    const { nowMs } = this.#facts;
    return [evidenceOf({ relayPubkey: relayHost.key, kind: 'unproven', isSigned: false, heads: [head], nowMs })];
  }

  #note(found: readonly EvidenceRow[]): void {
    for (const row of found) if (!this.evidence.some(({ digest }) => digest === row.digest)) this.evidence.push(row);
  }

  #owe(isSoon = false): void {
    this.#isOwed = true;
    this.#isSoon ||= isSoon;
  }

  get #facts(): LookFacts {
    const nowMs = NOON_MS + this.#relay.minute * MINUTE_MS;
    return { nowMs, randomBytes: (count) => this.#random.bytes(count) };
  }

  #state() {
    const { lacks, pending } = this;
    const kept = lacks === 'earlier epochs' && this.newest ? [this.newest] : this.kept;
    const trust = {
      ...this.trust,
      ...(lacks === 'left epochs' && { left: [] }),
      ...(lacks === 'own notes' && { ownNotes: [] }),
      ...(lacks === 'bounded pushes' && { pushedAgain: null }),
      ...(lacks === 'waiting a minute' && this.newest && { back: { hash: noteHash(this.newest.note), sinceMs: 0 } }),
      ...(lacks === 'fresh answers' && { givesAfter: false }),
      ...(lacks === 'patience' && { refused: this.#almostRefused }),
    };
    return { relayPubkey: relayHost.key, trust, kept, pending, rows: this.#rowsToProve() };
  }

  /** As if two looks had been refused all that is refused thrice. */
  get #almostRefused(): RelayTrustRow['refused'] {
    const twice = { times: 2, atMs: this.#facts.nowMs - LOOK_MINUTES * MINUTE_MS };
    const heard = this.pending.map(({ peerId, epoch }) => `heard ${peerId} ${epoch}`);
    return Object.fromEntries(['own', 'old', 'link', 'end', ...heard].map((what) => [what, twice]));
  }

  #rowsToProve(): RowToProve[] {
    const rows: RowToProve[] = [];
    if (this.lacks === 'proofs of rows') return rows;
    for (const { rowId, item, accepted, proven, denied, isDone } of this.rows.values()) {
      if (!accepted || proven || isDone || rows.length === ROWS_MAX) continue;
      const { epoch, seq, atMs } = accepted;
      const { id } = item;
      const target = targetOf(item.to);
      rows.push({
        rowId,
        itemId: id,
        target,
        acceptedAtMs: atMs,
        epoch,
        proven,
        denied,
        wireHash: wireHashOf(id),
        seq,
      });
    }
    return rows;
  }
}

function sizeIn(note: string): number {
  return Number(note.split('\n', 2)[1]);
}
