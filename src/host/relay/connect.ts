/**
 * One attempt to get a session of the pinned relay: who answers there, in which epoch and protocol, and that it knows
 * this host.
 *
 * Specification, "Versioning" rule 3: v1 is spoken only after a 404 for `GET /v2/relay/info`, and only to a relay that
 * answered nothing else when it was set. A relay that is pinned never falls back.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import { retentionMs, type Limits } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { Identity, RelayEnrolmentRow, RelayRow } from '../core/rows.ts';
import type { HostContext } from '../base/context.ts';
import { type RelayScope, enterEpoch, noteSpeaksV2 } from './relay-rows.ts';
import { RelayClient, type RelayInfo } from './relay-client.ts';
import { AnotherRelay, type RelayClientOptions, RelayProblem, askChallenge, callerTrusting } from './relay-request.ts';
import { RelayV1Client, V1_LIMITS } from './relay-v1-client.ts';
import { registerHost, registerHostInV1 } from './register-host.ts';

/** What pulling and pushing have of a relay that can be used: of one key of this host, one epoch and one protocol. */
interface Session {
  scope: RelayScope;
  limits: Limits;
  retentionMs: number;
  /** Requests of a session that ended are aborted. */
  ending: AbortController;
}

export type V2Session = Session & { protocol: 2; client: RelayClient };
export type V1Session = Session & { protocol: 1; client: RelayV1Client };
/** Replaced when its scope or protocol is another. */
export type RelaySession = V2Session | V1Session;

/** A relay that promises more is not believed. */
const RETENTION_MAX_MS = 366 * 86_400_000;

export interface Connecting {
  context: HostContext;
  identity: Identity;
  row: RelayRow;
  /** How many rotations were posted, by the scope that they were posted in. */
  progress: { scope: string; rotations: number };
  /** How far this host's clock is ahead of the relay's; null when the relay does not tell its time. */
  noteSkew: (ms: number | null) => void;
  stopping: AbortSignal;
}

export interface Connected {
  session: RelaySession;
  known: RelayEnrolmentRow;
}

/** Throws `AnotherRelay` when another key is shown, `RelayCallFailed` and `TokenUnavailable`. */
export async function connect(connecting: Connecting): Promise<Connected> {
  const { context, identity, row, stopping } = connecting;
  const ending = new AbortController();
  const options: RelayClientOptions = {
    url: row.url,
    signer: identity.signer,
    hostName: identity.hostName,
    nowMs: () => context.nowMs(),
    stopping: AbortSignal.any([stopping, ending.signal]),
    caller: callerTrusting(row.ca),
  };
  const client = new RelayClient(options, row.pubkey);
  const info = await infoUnlessV1(client, row.isV1 === true);
  if (!info) return connectInV1(connecting, new RelayV1Client(options, row.pubkey), ending);
  if (info.relay_pubkey !== row.pubkey) throw new AnotherRelay(info.relay_pubkey);
  connecting.noteSkew(context.nowMs() - info.now);
  if (row.isV1) {
    await context.store.transact((tx) => noteSpeaksV2(tx, row.pubkey));
    context.log('info', 'the relay speaks v2 now: its key is pinned');
  }
  const scope = { relayPubkey: row.pubkey, epoch: info.epoch as Epoch, hostPubkey: identity.signer.publicKey };
  await enter(connecting, scope);
  const relayNowMs = info.now;
  const { proof } = row;
  const known = await registerHost({ ...connecting, client, scope, proof, relayNowMs });
  const { limits } = info;
  const keptMs = Math.min(RETENTION_MAX_MS, retentionMs(limits));
  const session = { protocol: 2, client, scope, limits, retentionMs: keptMs, ending } as const;
  return { session, known };
}

/** Who is at an address that nobody has set yet: by v2, or by v1 where there is no v2. Throws `RelayCallFailed`. */
export async function shownRelay(options: RelayClientOptions): Promise<{ pubkey: PublicKey; isV1: boolean }> {
  const info = await infoUnlessV1(new RelayClient(options), true);
  if (info) return { pubkey: info.relay_pubkey, isV1: false };
  return { pubkey: (await askChallenge(options)).relayPubkey, isV1: true };
}

async function infoUnlessV1(client: RelayClient, mayBeV1: boolean): Promise<RelayInfo | undefined> {
  try {
    return await client.info();
  } catch (error) {
    if (mayBeV1 && error instanceof RelayProblem && error.status === 404) return undefined;
    throw error;
  }
}

async function connectInV1(connecting: Connecting, client: RelayV1Client, ending: AbortController): Promise<Connected> {
  const { row } = connecting;
  connecting.noteSkew(null);
  const { scope, known } = await registerHostInV1({
    ...connecting,
    client,
    relayPubkey: row.pubkey,
    epoch: row.epoch,
    proof: row.proof,
    enter: (entered) => enter(connecting, entered),
  });
  const limits = V1_LIMITS;
  const session = { protocol: 1, client, scope, limits, retentionMs: retentionMs(limits), ending } as const;
  return { session, known };
}

async function enter({ context, row, progress }: Connecting, scope: RelayScope): Promise<void> {
  const isAnother = await context.store.transact((tx) => enterEpoch(tx, context, scope));
  if (isAnother && row.epoch !== null) context.log('warn', 'the relay began a new epoch', { epoch: scope.epoch });
  const name = Object.values(scope).join(' ');
  if (isAnother || progress.scope !== name) Object.assign(progress, { scope: name, rotations: 0 });
}
