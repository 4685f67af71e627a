/**
 * A node takes the lead of a shared log. First it catches up with everything that the log holds; then it decides
 * whether the epoch goes on (`epochFault`), and a new epoch is the first thing that it appends.
 */
import type { Cancel } from '../../lib/clock.ts';
import type { EpochReason, RelayEvent } from '../core/event.ts';
import { type QueueRow, rowKey } from '../core/rows.ts';
import { payloadKey } from '../store/keys.ts';
import { SCHEMA_VERSION } from '../store/marks.ts';
import { appendAtOnce, refuseForeignKey } from '../store/open.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { catchUp } from './follow.ts';
import { Leadership } from './leadership.ts';
import type { NodeOptions } from './node-options.ts';
import { type View, closeView } from './open-view.ts';
import type { Presence } from './presence.ts';
import type { LogReach } from './reach.ts';
import {
  Fenced,
  type LogState,
  type OpenedLog,
  OutcomeUnknown,
  type SharedLog,
  type Tenure,
  isPassing,
} from './shared-log.ts';
import type { ViewLog } from './view-log.ts';
import { doubtWith, isSettled } from './doubt.ts';
import { type EpochFault, epochFault } from './takeover-rules.ts';
import { doubtLacking, heldBy, isHeld } from './witness.ts';

/** A leader that stops gets this long for what it writes: it may wait for a standby that is away. */
const LAST_BATCH_WITHIN_MS = 5_000;

/** The answer of a log that has begun, and by how much this clock is off that of its server. */
export type BegunLog = OpenedLog & { state: LogState; offMs: number };

/** A node that leads. */
export interface LeadingNode {
  store: RelayStore;
  leadership: Leadership;
  initialised: boolean;
  notices: string[];
  epochBegun: EpochReason | undefined;
  log: SharedLog;
  tenure: Tenure;
  view: ViewLog;
  /** A batch that the log does not take fails from now on. */
  stopRetrying(): void;
  /** Gives the lead back and closes the view. To be called when nothing is appended any more. */
  close(): Promise<void>;
}

/** The node that takes the lead. */
interface Candidate {
  readonly options: NodeOptions;
  readonly name: string;
  readonly settings: Buffer;
  readonly reach: LogReach;
  /** Called with the lead as soon as this node has it. */
  hasTaken(tenure: Tenure): void;
  /** Notes once more what was seen, and ends that. */
  stopWitness(): Promise<void>;
}

interface LeadParts {
  view: View;
  opened: BegunLog;
  presence: Presence;
  /** When the sign of life of the node before was first seen, by the server's clock. */
  seenMs: number;
}

/** `undefined` when another was faster, or the log cannot be reached now. */
export async function takeLead(node: Candidate, parts: LeadParts): Promise<LeadingNode | undefined> {
  const { options, name, reach } = node;
  const { view, opened, presence } = parts;
  const { log, clock, timers } = options;
  const { store } = view;
  const takenMs = clock.monotonicMs();
  const taken = await take(node, parts);
  if (!taken) return undefined;
  const { tenure } = taken;
  node.hasTaken(tenure);
  let isServing = false;
  // A log that was set back fences its leader, who alone may know what it lacks: the next leader finds this doubt.
  let told: Promise<unknown> | undefined;
  const tellOfLack = async (): Promise<void> => {
    const cancel = timers.after(LAST_BATCH_WITHIN_MS, () => void log.close());
    told ??= doubtLacking(log, tenure.logId, [heldBy(view)]);
    await told.finally(cancel);
  };
  const giveBack = async (): Promise<void> => {
    if (store.isFailed) await tellOfLack();
    await leadership.resign();
  };
  const leadership = new Leadership({
    ...options,
    tenure,
    name,
    ledOn: opened.server,
    takenMs,
    reach,
    acked: () => view.log.mark,
    onLost: (fenced) => {
      if (isServing)
        void tellOfLack()
          .catch((untold: unknown) => reach.note(untold))
          .finally(() => options.onLost?.(fenced));
    },
  });
  try {
    await catchUp({ log, store, view: view.log }, tenure);
    view.log.format = opened.state.format;
    await view.log.leads(tenure);
    await store.append({ entries: [], changes: [], payloads: [] });
    const begun = await begin(options, view, taken);
    if (taken.doubt !== undefined) await log.clearDoubt(tenure, taken.doubt);
    if (leadership.isLost) throw new Fenced();
    const present = presence.keep(tenure, view.log, timers);
    let cancelGiveUp: Cancel | undefined;
    isServing = true;
    return {
      store,
      leadership,
      ...begun,
      notices: [...view.notices, ...begun.notices],
      stopRetrying: () => {
        view.log.stop();
        cancelGiveUp = timers.after(LAST_BATCH_WITHIN_MS, () => void log.close());
      },
      log,
      tenure,
      view: view.log,
      close: async () => {
        cancelGiveUp?.();
        // First: another node waits for it. A node that is not reached, or that could not tell what the log lacks,
        // leads until its lease is over.
        await giveBack().catch((error: unknown) => reach.note(error));
        await leadership.stop();
        await present.stop();
        await node.stopWitness();
        await closeView(view);
        await log.close();
      },
    };
  } catch (error) {
    await leadership.stop();
    // It still has the lead, and takes it again when the log is reached.
    if (!isPassing(error) || store.isFailed) throw error;
    reach.note(error);
    return undefined;
  }
}

interface Taken {
  tenure: Tenure;
  /** Says why a new epoch must begin, apart from a doubt that was there. */
  fault: EpochFault | undefined;
  /** The whole doubt, as it stands in the row now. */
  doubt: string | undefined;
}

async function take(
  { options, name, settings, reach }: Candidate,
  { view, opened, seenMs }: LeadParts,
): Promise<Taken | undefined> {
  const { log, durability } = options;
  const { found, survived } = view;
  const { state, server } = opened;
  try {
    const isWhole = survived && found !== undefined && found.no > 0 && (await isHeld(log, state.logId, found));
    const fault = epochFault(state, server, durability, { ledLast: found?.tenure, isWhole }, seenMs);
    const tenure = await log.lead(state, { holder: name, settings, doubt: fault?.sentence });
    return tenure === 'held' ? undefined : { tenure, fault, doubt: doubtWith(state.doubt, fault?.sentence) };
  } catch (error) {
    // The row tells next time whether this node leads.
    if (!isPassing(error) && !(error instanceof OutcomeUnknown)) throw error;
    reach.note(error);
    return undefined;
  }
}

/** The first event of a leader: a new relay, or a new epoch when this one may not go on. */
async function begin(
  { log, signer, clock, newEpoch }: NodeOptions,
  { store }: View,
  { fault: own, doubt }: Taken,
): Promise<Pick<LeadingNode, 'initialised' | 'notices' | 'epochBegun'>> {
  const nowMs = clock.nowMs();
  const relay = store.get('relay', rowKey.relay);
  if (!relay) {
    const fields = { relayPubkey: signer.publicKey, epoch: newEpoch(), schemaVersion: SCHEMA_VERSION, atMs: nowMs };
    await appendAtOnce(store, { type: 'RelayInitialised', ...fields }, nowMs);
    return { initialised: true, notices: [], epochBegun: undefined };
  }
  refuseForeignKey(relay, signer, 'log', log.place);
  // The log is applied to its end now: also the epoch that another leader may have begun for this doubt.
  const ofDoubt: EpochFault | undefined =
    doubt === undefined || doubt === own?.sentence || isSettled(doubt, store.tree)
      ? undefined
      : { reason: 'log-in-doubt', sentence: `The log is in doubt (${doubt}).` };
  const fault = ofDoubt ?? own;
  if (!fault) return { initialised: false, notices: [], epochBegun: undefined };
  const event: RelayEvent = { type: 'EpochRotated', epoch: newEpoch(), reason: fault.reason, atMs: nowMs };
  await appendAtOnce(store, event, nowMs);
  const notice = `${fault.sentence} A new epoch begins; senders will push again what was not confirmed.`;
  return { initialised: false, notices: [notice], epochBegun: fault.reason };
}

/** Returns the place where the log keeps the wire bytes of a row. */
export function placeOf({ payloadTarget, payloadSeq }: QueueRow): Buffer {
  return payloadKey(payloadTarget, payloadSeq).subarray(1);
}
