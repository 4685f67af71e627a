/**
 * Moves this host from its first relay to another one (host/core/relay-move.ts has the steps): from the row, on one
 * timer for the next moment, and when something happened.
 *
 *     row and facts ─▶ letters ─▶ row and facts again, and what follows, in one transaction ─▶ until nothing changes
 *
 * Invariants:
 *   - what a step does is in the transaction that changes the row, but for letters, which are sent before it and have
 *     keys of their own: a crash repeats work, and nothing is done twice;
 *   - the old relay counts as drained by an answer to a pull that began after its empty list was seen to be there, in
 *     the same epoch and under the same key of this host.
 */
import { sha256Hex } from '../../protocol/encodings.ts';
import { HOME_RELAYS_MAX, isHomeUrl } from '../../protocol/home-relays.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { isoTime, isoTimeOrNull } from '../../protocol/time.ts';
import type { Cancel, Timers } from '../../lib/clock.ts';
import { SingleFlightTask } from '../../lib/periodic-task.ts';
import { shellWord } from '../../lib/shell-word.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { clockNow } from '../core/outbox-row.ts';
import type { RelayMoveCancelled, RelayMoveInput, RelayMoveStarted, RelayMoveView } from '../contract/relay-move.ts';
import { type Refusal, isRefusal, refusal } from '../core/refusal.ts';
import {
  cancelledMove,
  type MovedRelay,
  type MoveEffect,
  type MoveFacts,
  type MoveStep,
  moveLetter,
  newMove,
  type RelayMoveRow,
  stepMove,
} from '../core/relay-move.ts';
import type { PeerId } from '../core/rows.ts';
import { ownHome, renewOwnHome, type OwnRelay, ownRelays } from '../outbox/homes.ts';
import { livePeers } from '../peers/peers.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { pinnedView, type WithRelay } from './owners-relays.ts';
import { heldAt } from './relay-counts.ts';
import { faultOfKey, refusedKey, relayUrlOf } from './relay-input.ts';
import { enrolmentIn, putOwnRelays, type RelayScope } from './relay-rows.ts';
import type { RelayService } from './relay-service.ts';

interface Words {
  subject: string;
  body: string;
}

interface RelayMoverOptions {
  context: HostContext;
  timers: Timers;
  relays: Pick<RelayService, 'add' | 'useOf'>;
  /** Sends a message to the owner of a paired host, once under one key. */
  write: (peerId: PeerId, words: Words, key: string) => Promise<void>;
  /** Tells the owner of this host. */
  report: (tx: Transaction, words: Words) => void;
}

interface Look {
  row: RelayMoveRow;
  facts: MoveFacts;
  step: MoveStep;
}

/** The list of a relay that is to refuse everybody, as `register-host.ts` keeps it. */
const EMPTY_LIST = sha256Hex('');

export class RelayMover {
  readonly #options: RelayMoverOptions;
  readonly #task: SingleFlightTask;
  #unsubscribe: () => void = () => undefined;
  #cancelTimer: Cancel = () => undefined;
  /** Ends the wait for messages that the old relay has, when these are all that is waited for. */
  #endRows: () => void = () => undefined;
  #awaitsPull = false;
  /** When the empty list was first seen at the old relay, by the monotonic clock. */
  #shut: { scope: string; atMs: number } | undefined;

  constructor(options: RelayMoverOptions) {
    this.#options = options;
    this.#task = new SingleFlightTask({
      work: (signal) => this.#run(signal),
      onError: (error) => {
        if (!isStoreFailure(error)) options.context.log('error', 'the move to another relay stopped', { err: error });
      },
    });
  }

  start(): void {
    const rerun = (): void => void this.#task.rerun();
    this.#unsubscribe = this.#options.context.subscribe('move', {
      'relay-changed': rerun,
      'relay-turned': rerun,
      'peers-changed': rerun,
      'home-heard': rerun,
    });
    rerun();
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#cancelTimer();
    this.#endRows();
    await this.#task.stop();
  }

  /** Begins a move away from the first relay; one to the same relay that is under way goes on. */
  async begin(input: RelayMoveInput): Promise<RelayMoveStarted | Refusal> {
    const { context, relays } = this.#options;
    const url = relayUrlOf(input);
    if (isRefusal(url)) return url;
    if (!isHomeUrl(url))
      return refusal('BAD_INPUT', 'Other hosts cannot be told this address: it is too long.', { field: 'url' });
    const known = await context.store.read((reader) => startOf(reader, url));
    if (isRefusal(known)) return known;
    const wrong = faultOfKey(input) ?? (known.to && refusedKey(known.to.row, input));
    if (wrong) return wrong;
    const { dry_run: isDry = false, ...asked } = input;
    const write: WithRelay = async (tx, to) => {
      const now = await startOf(tx, url);
      if (isRefusal(now)) return now;
      if (known.to && !now.to) return refusal('NO_RELAY', `The relay at ${url} was removed: nothing is moved.`);
      if (!now.isUnderWay)
        tx.put('relayMove', [], newMove(movedOf(now.from.row), movedOf(to), !now.to, context.nowMs()));
      return undefined;
    };
    const to = known.to?.row;
    const begun = to && !isDry ? await context.store.transact((tx) => write(tx, to)) : undefined;
    const added = to
      ? (begun ?? { relay: pinnedView(to), trust: 'same' as const })
      : await relays.add({ ...asked, guest: true, dry_run: isDry }, write);
    if (isRefusal(added)) return added;
    const { relay, trust } = added;
    const from = movedView(known.from.row);
    if (isDry) return { relay, trust, from, move: null };
    await this.#task.rerun();
    return { relay, trust, from, move: await this.status() };
  }

  /** The move that is under way, or the last one. */
  async status(): Promise<RelayMoveView | null> {
    return this.#options.context.store.read(async (reader) => {
      const look = await this.#look(reader);
      return look ? this.#view(reader, look) : null;
    });
  }

  /** Ends a move before the old relay refuses mail. The old relay is the first again. */
  async cancel(): Promise<RelayMoveCancelled | Refusal> {
    const { context } = this.#options;
    return context.store.transact(async (tx): Promise<RelayMoveCancelled | Refusal> => {
      const look = await this.#look(tx);
      if (!look || look.row.state === 'done') return refusal('NO_MOVE', 'No move to another relay is under way.');
      const { row } = look;
      const cancelled = cancelledMove(row);
      if (!cancelled) {
        const message =
          `The relay at ${row.from.url} refuses mail for this host already: the move cannot be cancelled. ` +
          `Once it is done, poste relay move ${row.from.url} moves back.`;
        return refusal('NOT_CANCELLABLE', message);
      }
      const move = await this.#view(tx, look);
      tx.delete('relayMove', []);
      const own = await ownRelays(tx);
      const others = own.filter((one) => one.row.pubkey !== row.from.pubkey);
      const kept = cancelled === 'keep-both';
      const left = kept ? others : others.filter((one) => one.row.pubkey !== row.to.pubkey);
      await putOwnRelays(tx, context, [...own.filter((one) => !others.includes(one)), ...left]);
      return { move, kept };
    });
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { context, write } = this.#options;
    const sent = new Set<PeerId>();
    while (!signal.aborted) {
      const look = await context.store.read((reader) => this.#look(reader));
      if (!look || look.step.row === look.row) return this.#await(look);
      for (const peerId of peersOf(look.step)) {
        const key = `relay-move ${look.row.startedAtMs} ${peerId}`;
        await write(peerId, moveLetter(look.row, context.identity().hostName, shellWord(look.row.to.url)), key);
        sent.add(peerId);
      }
      await context.store.transact(async (tx) => {
        const now = await this.#look(tx);
        // One that became due meanwhile is written to first.
        if (now && peersOf(now.step).every((peerId) => sent.has(peerId))) await this.#take(tx, now);
      });
    }
  }

  /** What the row and the facts of now lead to. */
  async #look(reader: Reader): Promise<Look | undefined> {
    const row = reader.get('relayMove');
    if (!row) return undefined;
    const facts = await this.#factsOf(reader, row);
    const step = stepMove(row, facts);
    if (row.state !== 'leaving' || step.row?.state !== 'closing') return { row, facts, step };
    // Counted only where nothing else is waited for.
    const counted = { ...facts, heldAtOld: (await heldAt(reader, row.from.pubkey)).held };
    return { row, facts: counted, step: stepMove(row, counted) };
  }

  async #factsOf(reader: Reader, row: RelayMoveRow): Promise<MoveFacts> {
    const { context, relays } = this.#options;
    const own = await ownRelays(reader);
    const old = own.find((one) => one.row.pubkey === row.from.pubkey);
    const doc = ownHome(reader)?.doc;
    const health = relays.useOf(row.to.pubkey)?.link.health;
    const { publicKey: hostPubkey } = context.identity().signer;
    const { epoch } = old?.row ?? {};
    const scope: RelayScope | undefined = epoch ? { relayPubkey: row.from.pubkey, epoch, hostPubkey } : undefined;
    const isShut = scope !== undefined && enrolmentIn(reader, scope)?.senders?.hash === EMPTY_LIST;
    const position = scope && reader.get('relayPosition', scope.relayPubkey, scope.epoch, hostPubkey);
    return {
      ...clockNow(context),
      hasOld: old !== undefined,
      hasNew: own.some((one) => one.row.pubkey === row.to.pubkey),
      isNewWell: health !== undefined && health.isWell && !health.isDown,
      document: doc ? { seq: doc.seq, relays: doc.relays.map((one) => one.relay_pubkey) } : null,
      peers: (await livePeers(reader)).map(({ peerId, pairedAtMs }) => ({
        peerId,
        pairedAtMs,
        knownSeq: reader.get('peerHome', peerId)?.knownOurs ?? 0,
      })),
      lastItemAtMs: position && position.receivedThrough > 0 ? position.atMs : null,
      heldAtOld: 0,
      isShut,
      isDrained: isShut && row.state === 'closing' && this.#isDrained(scope),
    };
  }

  /** `scope` has the empty list. */
  #isDrained(scope: RelayScope): boolean {
    const { context, relays } = this.#options;
    const name = Object.values(scope).join(' ');
    if (this.#shut?.scope !== name) {
      this.#shut = { scope: name, atMs: context.monotonicMs() };
      return false;
    }
    const drained = relays.useOf(scope.relayPubkey)?.pull.drained;
    return (
      drained !== undefined && Object.values(drained.scope).join(' ') === name && drained.askedMs > this.#shut.atMs
    );
  }

  /** Writes what the step made of the row, and does what follows. */
  async #take(tx: Transaction, { row, step }: Look): Promise<void> {
    if (step.row === null) tx.delete('relayMove', []);
    else if (step.row !== row) tx.put('relayMove', [], step.row);
    for (const effect of step.effects) await this.#carryOut(tx, row, effect);
  }

  async #carryOut(tx: Transaction, { from, to }: RelayMoveRow, effect: MoveEffect): Promise<void> {
    const { context, relays, report } = this.#options;
    const own = await ownRelays(tx);
    const others = own.filter((one) => one.row.pubkey !== to.pubkey);
    switch (effect.type) {
      case 'PreferNew': {
        const found = own.flatMap((one): OwnRelay[] => (others.includes(one) ? [] : [{ ...one, role: 'home' }]));
        await putOwnRelays(tx, context, [...found, ...others]);
        return;
      }
      case 'LeaveOld':
      case 'StayAtOld':
        await renewOwnHome(tx, context);
        tx.afterCommit(() => {
          relays.useOf(from.pubkey)?.link.refresh();
          context.emit({ type: 'relay-changed' });
        });
        return;
      case 'ShutOld':
        tx.afterCommit(() => relays.useOf(from.pubkey)?.link.refresh());
        return;
      case 'RemoveOld':
        await putOwnRelays(
          tx,
          context,
          own.filter((one) => one.row.pubkey !== from.pubkey),
        );
        report(tx, {
          subject: `This host left the relay ${from.url}`,
          body: `All that waited there for this host was taken. Paired hosts reach it at ${to.url} now.`,
        });
        return;
      case 'Write':
        return;
    }
  }

  /** Goes on at the next moment, or when what is waited for happened. */
  #await(look: Look | undefined): void {
    const { context, timers, relays } = this.#options;
    this.#cancelTimer();
    this.#endRows();
    const { row, facts, step } = look ?? {};
    const rerun = (): void => void this.#task.rerun();
    if (facts && facts.heldAtOld > 0) this.#endRows = context.subscribe('leaving', { 'sent-changed': rerun });
    // A timer stands still while the machine sleeps, and is no longer than some weeks.
    if (typeof step?.nextMs === 'number')
      this.#cancelTimer = timers.after(Math.min(Math.max(0, step.nextMs - context.nowMs()), DAY_MS), rerun);
    const pull = row?.state === 'closing' ? relays.useOf(row.from.pubkey)?.pull : undefined;
    if (!pull || this.#awaitsPull) return;
    this.#awaitsPull = true;
    void pull.turned().then(() => {
      this.#awaitsPull = false;
      rerun();
    });
    if (facts?.isShut) pull.hurry();
  }

  async #view(reader: Reader, { row, facts, step }: Look): Promise<RelayMoveView> {
    const namesOf = (peerIds: readonly PeerId[]): string[] =>
      peerIds.flatMap((peerId) => reader.get('peer', peerId)?.hostName ?? []);
    const awaited = row.leftSeq ?? row.namedSeq;
    const isOver = row.state === 'done' || row.state === 'closing';
    const unaware = facts.peers.filter(({ knownSeq }) => awaited === null || knownSeq < awaited);
    return {
      state: row.state,
      from: movedView(row.from),
      to: movedView(row.to),
      started_at: isoTime(row.startedAtMs),
      since: isoTime(row.sinceMs),
      waiting_for: isOver ? [] : namesOf(unaware.map(({ peerId }) => peerId)),
      written_to: namesOf(row.written),
      held: (await heldAt(reader, row.from.pubkey)).held,
      last_item_at: isoTimeOrNull(row.lastItemAtMs),
      next_at: isoTimeOrNull(step.nextMs),
    };
  }
}

function peersOf({ effects }: MoveStep): readonly PeerId[] {
  return effects.flatMap((effect) => (effect.type === 'Write' ? effect.peerIds : []));
}

interface Start {
  from: OwnRelay;
  /** The new relay, where it is in use. */
  to: OwnRelay | undefined;
  isUnderWay: boolean;
}

/** What a move to this address begins with, or why it cannot. */
async function startOf(reader: Reader, url: string): Promise<Start | Refusal> {
  const own = await ownRelays(reader);
  const move = reader.get('relayMove');
  const to = own.find(({ row }) => row.url === url);
  const [first] = own;
  if (move && move.state !== 'done') {
    const from = own.find(({ row }) => row.pubkey === move.from.pubkey);
    if (from && to && to.row.pubkey === move.to.pubkey) return { from, to, isUnderWay: true };
    const message = `This host moves to ${move.to.url} already: poste relay move cancel ends that.`;
    return refusal('MOVE_UNDER_WAY', message, { url: move.to.url });
  }
  if (first?.role !== 'home') {
    const there = `This host takes mail at no relay: poste relay add ${shellWord(url)} has it take mail at this one.`;
    return refusal('NO_RELAY', to ? there : `No relay is set: poste relay set ${shellWord(url)} sets one.`);
  }
  if (to === first) return refusal('RELAY_KNOWN', `${url} is the first relay of this host already.`, { url });
  const homes = own.filter(({ role }) => role === 'home').length;
  if (to?.role === 'home' || homes < HOME_RELAYS_MAX) return { from: first, to, isUnderWay: false };
  const message =
    `A host takes mail at ${HOME_RELAYS_MAX} relays at most, and uses the old one and the new one while it moves: ` +
    'poste relay remove lets one go.';
  return refusal('TOO_MANY_RELAYS', message);
}

function movedOf({ pubkey, url }: MovedRelay): MovedRelay {
  return { pubkey, url };
}

function movedView({ pubkey, url }: MovedRelay): RelayMoveView['from'] {
  return { url, relay_pubkey: pubkey, fingerprint: displayFingerprint(pubkey) };
}
