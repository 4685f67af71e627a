/**
 * Looks at the log of the pinned relay: asks what a look wants to know, and writes what it found. What is asked, and
 * what an answer means, is decided in the core (`core/relay-look.ts`).
 *
 *     owed ─▶ at most once in ten minutes ─▶ rows of now ─▶ questions and answers ─▶ one transaction
 *
 * Invariants:
 *   - what is owed is done: a look that does not end, or over a state that changed, stays owed and changes nothing;
 *   - no mail waits for a look, and no look for mail.
 */
import { isDue } from '../core/look-rows.ts';
import { look } from '../core/relay-look.ts';
import type { LookOutcome, RowToProve, TrustState } from '../core/relay-trust.ts';
import { isSending, copyAt } from '../core/outbox-row.ts';
import { peerIsAt } from '../core/relay-rows.ts';
import type { RelayCopy } from '../core/relay-acceptance.ts';
import type { OutboxRow } from '../core/rows.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { SingleFlightTask } from '../../lib/periodic-task.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { openRows } from '../outbox/outbox.ts';
import { applyLook, trustIn } from '../outbox/trust-rows.ts';
import { livePeers } from '../peers/peers.ts';
import type { Reader } from '../store/host-store.ts';
import { relayRowOf } from '../outbox/homes.ts';
import { answerTo } from './look-answers.ts';
import type { PeersAtRelay } from './peers-at-relay.ts';
import type { V2Session } from './register-host.ts';
import type { RelayLink } from './relay-link.ts';
import type { RelayTiming } from './relay-timing.ts';
import { RelayCallFailed } from './relay-request.ts';
import { witnessesAt } from './relay-witnesses.ts';

/** A look for `poste trace`, `poste doctor` or a host on the LAN: one that is younger will do. */
const FRESH_MS = 60_000;
/** Rows that one look asks about. */
const ROWS_MAX = 8;
/** Hosts that the relay is asked about after one look. */
const MET_MAX = 4;
/** Accepted receipts that wait for a proof, at most: nobody confirms them, so on a busy host there are ever more. */
const RECEIPTS_MAX = 1_000;

interface RelayLooksOptions {
  context: HostContext;
  link: RelayLink;
  peers: PeersAtRelay;
  timing: RelayTiming;
  stopping: AbortSignal;
}

export class RelayLooks {
  readonly #options: RelayLooksOptions;
  readonly #looking: SingleFlightTask;
  readonly #rows = new AcceptedRows();
  #isOwed = false;
  #isSoon = false;
  /** Times of the clock that never goes back. */
  #owedSinceMs = 0;
  #beganAtMs = Number.NEGATIVE_INFINITY;
  #endedAtMs = Number.NEGATIVE_INFINITY;
  /** From 0.8 to 1.2, thrown for each look: hosts that began together do not look together for ever. */
  #spread = 1;
  #timer: NodeJS.Timeout | undefined;
  /** Counts the hosts that were asked about, so that each has its turn. */
  #met = 0;

  constructor(options: RelayLooksOptions) {
    this.#options = options;
    this.#looking = new SingleFlightTask({
      work: () => this.#lookOnce(),
      onError: (error) => {
        if (!isStoreFailure(error))
          options.context.log('error', 'the log of the relay was not looked at', { err: error });
      },
    });
  }

  /** There is something to look at; `isSoon`: something is to be confirmed. */
  owe(isSoon = false): void {
    if (this.#isOwed && (this.#isSoon || !isSoon)) return;
    if (!this.#isOwed) this.#owedSinceMs = this.#options.context.monotonicMs();
    this.#isOwed = true;
    this.#isSoon ||= isSoon;
    this.#schedule();
  }

  /** The relay took these rows: they are to be in its log. */
  accepted(rows: readonly OutboxRow[]): void {
    for (const row of rows) this.#rows.add(row);
    if (rows.length > 0) this.owe();
  }

  /** The relay can be used from now on. */
  entered(): void {
    this.owe();
    this.#schedule();
  }

  /** Another relay is pinned, or none: nothing was looked at yet. */
  begin(): void {
    this.#beganAtMs = this.#endedAtMs = Number.NEGATIVE_INFINITY;
  }

  /** True when a look of so long ago at most came to its end. */
  youngerThan(ms: number): boolean {
    return this.#options.context.monotonicMs() - this.#endedAtMs < ms;
  }

  /** Resolves when no look is under way. */
  get idle(): Promise<void> {
    return this.#looking.idle;
  }

  /** Looks now, unless it did lately. Resolves when that is done, and after `waitMs` in any case. */
  look(waitMs: number): Promise<void> {
    if (this.youngerThan(FRESH_MS) || this.#session() === undefined) return Promise.resolve();
    this.owe();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      void this.#looking.run().then(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** The maker of the link ends the requests under way. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#looking.stop();
  }

  /** A session that may be used now. Nothing of v1 has a log. */
  #session(): V2Session | undefined {
    const { session, pauseMs } = this.#options.link;
    return session?.protocol === 2 && pauseMs <= 0 ? session : undefined;
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    const { context, link, timing, stopping } = this.#options;
    if (!this.#isOwed || stopping.aborted || link.session?.protocol === 1) return;
    const everyMs = (this.#isSoon ? timing.lookSoonMs : timing.lookMs) * this.#spread;
    const atMs = Math.max(this.#beganAtMs + everyMs, this.#owedSinceMs + timing.lookSettleMs);
    const inMs = Math.max(0, atMs - context.monotonicMs(), link.pauseMs);
    this.#timer = setTimeout(() => void this.#looking.run(), inMs);
  }

  async #lookOnce(): Promise<void> {
    const { context, link } = this.#options;
    const session = this.#session();
    // The next session owes one.
    if (!session) return link.session?.protocol === 2 ? this.#schedule() : undefined;
    const wasSoon = this.#isSoon;
    this.#isOwed = this.#isSoon = false;
    this.#beganAtMs = context.monotonicMs();
    this.#spread = 0.8 + (0.4 * context.randomBytes(1).readUInt8()) / 255;
    let found: LookOutcome | undefined;
    try {
      found = await this.#look(session);
      if (!found) return;
      this.#endedAtMs = context.monotonicMs();
      await this.#goOn(session.scope.relayPubkey);
      await this.#meet(session);
      await this.#askForWitnesses(session);
    } finally {
      if (!found || found.isOwed) this.owe(found ? found.isSoon : wasSoon);
      this.#schedule();
    }
  }

  /** What one look did not come to is asked about in the next: messages soon. */
  async #goOn(relayPubkey: PublicKey): Promise<void> {
    const { context } = this.#options;
    const now = { nowMs: context.nowMs(), monotonicMs: context.monotonicMs() };
    const [next] = await context.store.read((reader) => this.#rows.toProve(reader, relayPubkey, now));
    if (next) this.owe(this.#rows.isMessage(next));
  }

  /**
   * Asks whether the relay knows some of the hosts that no mail needed it for: what is seen of it is shown to those
   * alone that use it too, and is worth most where they meet without it.
   */
  async #meet(session: V2Session): Promise<void> {
    const { context, peers } = this.#options;
    const { relayPubkey } = session.scope;
    const others = (await context.store.read(livePeers)).filter((peer) => !peerIsAt(peer, relayPubkey));
    for (let asked = 0; asked < Math.min(MET_MAX, others.length); asked++) {
      const peer = others[this.#met++ % others.length];
      if (peer && peers.isEnrolled(session, peer) === undefined) await peers.ask(session, peer);
    }
  }

  /** Notes which witnesses of the owner's cosigned the log: where none did for a day, `poste doctor` says so. */
  async #askForWitnesses({ client, scope }: V2Session): Promise<void> {
    const { context } = this.#options;
    const row = await context.store.read((reader) => relayRowOf(reader, scope.relayPubkey));
    if (!row?.witnesses) return;
    try {
      await witnessesAt(client, context, row);
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
    }
  }

  /** Undefined for a look that did not end, or over a state that is another by now. */
  async #look(session: V2Session): Promise<LookOutcome | undefined> {
    const { context, link } = this.#options;
    const { relayPubkey } = session.scope;
    const nowMs = context.nowMs();
    const state: TrustState = await context.store.read(async (reader) => ({
      ...(await trustIn(reader, relayPubkey)),
      rows: await this.#rows.toProve(reader, relayPubkey, { nowMs, monotonicMs: context.monotonicMs() }),
    }));
    const steps = look(state, { nowMs, randomBytes: context.randomBytes });
    let step = steps.next();
    while (!step.done) step = steps.next(await answerTo(session.client, step.value));
    const found = step.value;
    if (!found.isEnded) return undefined;
    const isWritten = await context.store.transact(async (tx) => {
      if (!(await applyLook(tx, context, state, found))) return false;
      if (found.pushAgain) await link.rewind(tx, session);
      return true;
    });
    if (!isWritten) return undefined;
    for (const { rowId, proven, denied } of found.rows)
      if (!proven && !denied) this.#rows.putOff(rowId, context.monotonicMs());
    for (const { kind, epoch } of found.evidence)
      context.log('error', 'there is evidence against the relay', { kind, epoch });
    if (found.pushAgain) context.log('warn', 'what the relay took is pushed again, and its queue read from the start');
    return found;
  }
}

/**
 * The rows that the relay accepted and that no proof was seen of. Messages come first: their number is small, since
 * hosts confirm them. They are noted as they are accepted, and found once in the outbox: to go through all open rows
 * for each look would cost more than the look.
 */
class AcceptedRows {
  readonly #ids = { envelope: new Set<number>(), receipt: new Set<number>() };
  /** When a look asked about a row and the relay neither proved nor denied it: a pruned record, say. */
  readonly #putOffAtMs = new Map<number, number>();
  /** The relay whose rows were all found. */
  #relayPubkey: PublicKey | undefined;

  add({ rowId, kind }: Pick<OutboxRow, 'rowId' | 'kind'>): void {
    this.#ids[kind].add(rowId);
    const { receipt } = this.#ids;
    for (const oldest of receipt) if (receipt.size > RECEIPTS_MAX) receipt.delete(oldest);
  }

  /** The row is asked about in a day: it must not keep those behind it from their turn. */
  putOff(rowId: number, monotonicMs: number): void {
    this.#putOffAtMs.set(rowId, monotonicMs);
  }

  isMessage({ rowId }: RowToProve): boolean {
    return this.#ids.envelope.has(rowId);
  }

  /** The oldest of them, as many as one look asks about, but for those that were denied a short while ago. */
  async toProve(
    reader: Reader,
    relayPubkey: PublicKey,
    { nowMs, monotonicMs }: { nowMs: number; monotonicMs: number },
  ): Promise<RowToProve[]> {
    if (this.#relayPubkey !== relayPubkey) {
      const found: OutboxRow[] = [];
      for (const { peerId } of await livePeers(reader))
        for await (const row of openRows(reader, peerId)) if (copyAt(row, relayPubkey)) found.push(row);
      for (const row of found.toSorted((a, b) => a.rowId - b.rowId)) this.add(row);
      this.#relayPubkey = relayPubkey;
    }
    const rows: RowToProve[] = [];
    for (const ids of Object.values(this.#ids)) {
      for (const rowId of ids) {
        if (rows.length === ROWS_MAX) return rows;
        if (monotonicMs - (this.#putOffAtMs.get(rowId) ?? Number.NEGATIVE_INFINITY) < DAY_MS) continue;
        const row = reader.get('outbox', rowId);
        this.#putOffAtMs.delete(rowId);
        const copy = row && copyAt(row, relayPubkey);
        if (!row || !isSending(row) || copy?.proven) ids.delete(rowId);
        else if (copy) rows.push(...rowToProve(row, copy, nowMs));
      }
    }
    return rows;
  }
}

/** Nothing of a row that may be pushed again already, or that is to be asked about later. */
function rowToProve(row: OutboxRow, copy: RelayCopy, nowMs: number): RowToProve[] {
  const { rowId, itemId, state, wireHash } = row;
  const { acceptance, proven = null, denied = null } = copy;
  if (state !== 'relay-accepted' || copy.state !== 'live') return [];
  const { epoch, seq, acceptedAtMs, accept } = acceptance;
  const target = accept.targets.find((one) => one.seq === seq)?.host_pubkey;
  if (!target) return [];
  const asked = { rowId, itemId, target, acceptedAtMs, epoch, proven, denied, wireHash, seq };
  return isDue(asked, nowMs) ? [asked] : [];
}
