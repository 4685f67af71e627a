/**
 * Everything of the relays that the daemon runs: one use of each (`relay-use.ts`), and what the owner sets and sees.
 * What is run follows the rows: a relay that the owner changed begins anew, and the others go on as they were.
 */
import type { PublicKey } from '../../protocol/public-key.ts';
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
import { type OwnRelay, ownRelays } from '../store/own-relays.ts';
import * as owners from './owners-relays.ts';
import type { RelayCarrier } from './push-batch.ts';
import { RELAY_TIMING, type RelayTiming } from './relay-timing.ts';
import { endEnrolmentsOfName } from './relay-rows.ts';
import { RelayUse, type RelayUses } from './relay-use.ts';
import { relayStatus, relayViews } from './relay-views.ts';

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
