/**
 * Everything of the relays that the daemon runs: one use of each (`relay-use.ts`), and what the owner sets and sees.
 * What is run follows the rows: a relay that the owner changed begins anew, and the others go on as they were.
 */
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { SingleFlightTask } from '../../lib/periodic-task.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import type {
  RelayAddInput,
  RelayAddResult,
  RelayListResult,
  RelayPreferInput,
  RelayRemoveInput,
  RelayRemoveResult,
  RelaySetInput,
  RelaySetResult,
  RelayStatusResult,
  RelayUnsetResult,
  RelayView,
} from '../contract/relays.ts';
import { showsTwoHistories } from '../core/evidence-text.ts';
import type { Refusal } from '../core/refusal.ts';
import { isLeft } from '../core/relay-move.ts';
import { quarantineRetries } from '../inbound/quarantine.ts';
import { evidenceIn } from '../outbox/trust-rows.ts';
import { type OwnRelay, ownRelays } from '../outbox/homes.ts';
import * as owners from './owners-relays.ts';
import type { RelayCarrier } from './push-batch.ts';
import { RELAY_TIMING, type RelayTiming } from './relay-timing.ts';
import { endEnrolmentsOfName, enrolmentIn, positionIn } from './relay-rows.ts';
import { RelayUse, type RelayUses } from './relay-use.ts';
import { isoTime, isoTimeOrNull } from '../../protocol/time.ts';
import type { RelayRow } from '../core/relay-rows.ts';
import { sharedRelays } from '../outbox/seen.ts';
import { livePeers } from '../peers/peers.ts';
import type { Reader } from '../store/host-store.ts';
import { pinnedView } from './owners-relays.ts';
import { heldByRelays, outboxCounts } from './relay-counts.ts';

const NAME_NOT_TOLD = 'the relays could not be told the new name of this host';
/** The time for what waits at a relay that is removed. */
const LAST_PULL_MS = 30_000;

interface RelayServiceOptions {
  context: HostContext;
  timing?: Partial<RelayTiming>;
}

export class RelayService implements RelayUses {
  uses: readonly RelayUse[] = [];
  /** The carriers of all relays, in the owner's order. */
  all: readonly RelayCarrier[] = [];
  readonly #context: HostContext;
  readonly #timing: RelayTiming;
  readonly #stopping = new AbortController();
  readonly #ended = new Set<Promise<void>>();
  /** Relays that the owner named: they are begun with anew, whether or not anything of them changed. */
  readonly #named = new Set<PublicKey>();
  readonly #following: SingleFlightTask;
  readonly #retries: SingleFlightTask;
  readonly #evidence: SingleFlightTask;
  #isStarted = false;
  #unsubscribe: () => void = () => undefined;

  constructor({ context, timing = {} }: RelayServiceOptions) {
    this.#context = context;
    this.#timing = { ...RELAY_TIMING, ...timing };
    this.#retries = quarantineRetries(context);
    this.#following = new SingleFlightTask({
      work: () => this.#followRows(),
      onError: (error) => this.#logFailed('the relays of this host could not be used', error),
    });
    this.#evidence = new SingleFlightTask({
      work: async () => {
        const uses = this.uses;
        const known = await context.store.read((reader) =>
          Promise.all(uses.map(({ relay }) => evidenceIn(reader, relay.row.pubkey))),
        );
        for (const [at, { carrier }] of uses.entries()) carrier.hasTwoHistories = !!known[at]?.some(showsTwoHistories);
      },
      onError: (error) => this.#logFailed('the evidence against the relays could not be read', error),
    });
  }

  start(): void {
    const refresh = (): void => {
      for (const { link } of this.uses) link.refresh();
    };
    this.#unsubscribe = this.#context.subscribe('relay', {
      'peers-changed': refresh,
      'peer-rotated': ({ keys }) => {
        for (const { peers } of this.uses) for (const key of keys) peers.forget(key);
      },
      'identity-changed': refresh,
      'relay-changed': () => void this.#following.rerun(),
      // While a home that is long-polled cannot be used, the others are.
      'relay-turned': () => {
        for (const use of this.uses) use.hurry();
      },
      'evidence-changed': () => void this.#evidence.rerun(),
      'relay-note-heard': () => {
        for (const { looks } of this.uses) looks.owe();
      },
      'host-renamed': () => void this.#takeName().catch((error) => this.#logFailed(NAME_NOT_TOLD, error)),
    });
    this.#isStarted = true;
    void this.#following.rerun();
  }

  /** Ends requests under way; what they would have done is done again. */
  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#stopping.abort();
    await this.#following.stop();
    await Promise.all([...this.uses.map((use) => use.stop()), ...this.#ended]);
    await Promise.all([this.#retries.stop(), this.#evidence.stop()]);
  }

  /** Uses the relays that stand in the rows now. */
  async #followRows(): Promise<void> {
    const [relays, move] = await this.#context.store.read(
      async (reader) => [await ownRelays(reader), reader.get('relayMove')] as const,
    );
    if (!this.#isStarted || this.#stopping.signal.aborted) return;
    const before = this.uses;
    this.uses = relays.map((relay) => {
      const known = before.find((use) => use.relay.row.pubkey === relay.row.pubkey);
      known?.take(relay, this.#named.has(relay.row.pubkey));
      return known ?? this.#use(relay);
    });
    this.all = this.uses.map(({ carrier }) => carrier);
    this.#named.clear();
    for (const { carrier, relay } of this.uses) carrier.isLeft = isLeft(move, relay.row.pubkey);
    for (const use of this.uses) if (!before.includes(use)) use.start();
    for (const use of before) if (!this.uses.includes(use)) this.#end(use);
    void this.#evidence.rerun();
  }

  #use(relay: OwnRelay): RelayUse {
    const { pubkey: relayPubkey } = relay.row;
    return new RelayUse({
      context: this.#context,
      timing: this.#timing,
      relay,
      relays: this,
      keyLearned: () => void this.#retries.rerun(),
      turned: () => this.#context.emit({ type: 'relay-turned', relayPubkey }),
    });
  }

  #end(use: RelayUse): void {
    const ended = use.stop().finally(() => this.#ended.delete(ended));
    this.#ended.add(ended);
  }

  /** Begins again with each relay under the new name: requests of v1 are signed by name. */
  async #takeName(): Promise<void> {
    const context = this.#context;
    await context.store.transact((tx) => endEnrolmentsOfName(tx, context.identity().signer.publicKey));
    for (const { link } of this.uses) link.restart();
  }

  #logFailed(message: string, error: unknown): void {
    if (isStoreFailure(error)) return;
    this.#context.log('error', message, { err: error });
  }

  /** Looks at the log of each relay, unless that was done within a minute; for so long at most. */
  async look(waitMs: number): Promise<void> {
    await Promise.all(this.uses.map(({ looks }) => looks.look(waitMs)));
  }

  /** The relay, or the first one, answered a request of another part of the daemon. */
  answered(relayPubkey?: PublicKey): void {
    const use = relayPubkey === undefined ? this.uses[0] : this.useOf(relayPubkey);
    use?.link.answered();
  }

  set(input: RelaySetInput): Promise<RelaySetResult | Refusal> {
    return this.#followed(owners.setRelay(this.#parts(), input));
  }

  unset(): Promise<RelayUnsetResult | Refusal> {
    return this.#followed(owners.unsetRelay(this.#parts()));
  }

  add(input: RelayAddInput, besides?: owners.WithRelay): Promise<RelayAddResult | Refusal> {
    return this.#followed(owners.addRelay(this.#parts(), input, besides));
  }

  remove(input: RelayRemoveInput): Promise<RelayRemoveResult | Refusal> {
    const lastPull = async (relayPubkey: PublicKey): Promise<number | null> =>
      (await this.useOf(relayPubkey)?.lastPull(LAST_PULL_MS)) ?? null;
    return this.#followed(owners.removeRelay(this.#parts(), input, lastPull));
  }

  async prefer({ relay }: RelayPreferInput): Promise<RelayListResult | Refusal> {
    return (await this.#followed(owners.preferRelay(this.#parts(), relay))) ?? this.list();
  }

  async list(): Promise<RelayListResult> {
    return { relays: await this.views() };
  }

  views(): Promise<RelayView[]> {
    return this.#context.store.read((reader) => relayViews(reader, this.#context, (key) => this.useOf(key)));
  }

  /** The first relay, and each where there are several. */
  status(): Promise<RelayStatusResult> {
    return this.#context.store.read((reader) => relayStatus(reader, this.#context, (key) => this.useOf(key)));
  }

  /** Undefined when this host does not use the relay. */
  useOf(relayPubkey: PublicKey): RelayUse | undefined {
    return this.uses.find(({ relay }) => relay.row.pubkey === relayPubkey);
  }

  #parts(): owners.OwnersParts {
    const naming = (relayPubkey: PublicKey): void => void this.#named.add(relayPubkey);
    return { context: this.#context, stopping: this.#stopping.signal, naming };
  }

  /** The result of a change, once what is run follows it. */
  async #followed<T>(change: Promise<T>): Promise<T> {
    const result = await change;
    await this.#following.rerun();
    return result;
  }
}

/** Finds what this daemon has of a relay in use; nothing before it began with it. */
type UseOf = (relayPubkey: RelayRow['pubkey']) => RelayUse | undefined;

async function relayStatus(reader: Reader, context: HostContext, useOf: UseOf): Promise<RelayStatusResult> {
  const row = reader.get('relay');
  const own = await ownRelays(reader);
  let quarantined = 0;
  for await (const { row: item } of reader.range('quarantine', [])) if (item.via === 'relay') quarantined++;
  return {
    relay: row ? pinnedView(row) : null,
    ...(await linkMembers(reader, context, row, useOf)),
    outbox: await outboxCounts(reader),
    quarantined,
    ...(own.some(({ rank }) => rank > 0) && { relays: await relayViews(reader, context, useOf) }),
  };
}

/** Of each, in the owner's order. */
async function relayViews(reader: Reader, context: HostContext, useOf: UseOf): Promise<RelayView[]> {
  const own = await ownRelays(reader);
  const peers = await livePeers(reader);
  const held = await heldByRelays(reader);
  const views: RelayView[] = [];
  for (const [at, { row, role }] of own.entries()) {
    const health = useOf(row.pubkey)?.link.health;
    const there = held.get(row.pubkey);
    const heardMs = health?.heardMs;
    views.push({
      number: at + 1,
      role,
      relay: pinnedView(row),
      ...(await linkMembers(reader, context, row, useOf)),
      is_down: health?.isDown ?? false,
      heard_seconds: heardMs === undefined ? null : Math.floor(heardMs / 1000),
      unheard_seconds: Math.floor((health?.unheardMs ?? 0) / 1000),
      held: there?.held ?? 0,
      held_alone: there?.alone ?? 0,
      copies_at: own.flatMap(({ row: other }, nth) => (there?.also.has(other.pubkey) ? [nth + 1] : [])),
      hosts: peers.filter((peer) => sharedRelays(reader, peer)[0] === row.pubkey).map(({ hostName }) => hostName),
    });
  }
  return views;
}

type LinkMembers = Omit<RelayStatusResult, 'relay' | 'outbox' | 'quarantined' | 'relays'>;

async function linkMembers(
  reader: Reader,
  context: HostContext,
  row: RelayRow | undefined,
  useOf: UseOf,
): Promise<LinkMembers> {
  const { link, pull } = (row && useOf(row.pubkey)) ?? {};
  const { publicKey: hostPubkey } = context.identity().signer;
  const scope = row?.epoch ? { relayPubkey: row.pubkey, epoch: row.epoch, hostPubkey } : undefined;
  const known = scope && enrolmentIn(reader, scope);
  const { problem, state = 'connecting' } = link ?? {};
  const evidence = row ? await evidenceIn(reader, row.pubkey) : [];
  const isDoubted = (state === 'ready' || state === 'connecting') && evidence.some(showsTwoHistories);
  return {
    state: row ? (isDoubted ? 'two-histories' : state) : 'unset',
    problem: problem ? { code: problem.code, message: problem.message, at: isoTime(problem.atMs) } : null,
    seen_key: row?.seenKey
      ? {
          relay_pubkey: row.seenKey.pubkey,
          fingerprint: displayFingerprint(row.seenKey.pubkey),
          at: isoTime(row.seenKey.atMs),
        }
      : null,
    epoch: row?.epoch ?? null,
    epochs_left: (row && reader.get('relayTrust', row.pubkey)?.left.length) ?? 0,
    clock_ahead_ms: link?.skewMs ?? null,
    limits: link?.session?.limits ?? null,
    enrolment: known
      ? {
          checked_at: isoTime(known.checkedAtMs),
          authorized_by: known.authorizedBy,
          account: known.account,
          crowded: known.isCrowded,
          valid_until: isoTimeOrNull(known.validUntilMs),
          enc_key: known.encKey && {
            at: isoTime(known.encKey.at),
            checked_at: isoTime(known.encKey.checkedAtMs),
          },
          senders: known.senders && {
            count: known.senders.count,
            iat: isoTime(known.senders.iat),
            checked_at: isoTime(known.senders.checkedAtMs),
          },
        }
      : null,
    received_through: scope ? positionIn(reader, scope) : 0,
    head_seq: pull?.headSeq ?? null,
    long_poll: pull?.isHeldBack ?? null,
    evidence: evidence.filter(({ dismissedAtMs }) => dismissedAtMs === null).length,
  };
}
