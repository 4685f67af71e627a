/**
 * Everything of the relay that the daemon runs: the link, the carrier of the outbox, the pulls, and what the owner sets
 * and sees.
 */
import { isoTime, isoTimeOrNull } from '../../protocol/time.ts';
import { displayFingerprint, hostFingerprint, parseFingerprint } from '../../protocol/public-key.ts';
import { isAcceptablePoint } from '../../protocol/acceptable-point.ts';
import { parseWitnessKey } from '../../protocol/cosignature.ts';
import { showsTwoHistories } from '../core/evidence-text.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { RelayProofSource, RelayRow } from '../core/relay-rows.ts';
import type {
  PinnedRelay,
  RelaySetInput,
  RelaySetResult,
  RelayStatusResult,
  RelayUnsetResult,
} from '../contract/relays.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { dropEnrolmentsOfName, enrolmentIn, pinRelay, positionIn, unpinRelay } from './relay-rows.ts';
import type { Reader } from '../store/host-store.ts';
import { certificatesOf } from '../../lib/certificates.ts';
import { systemTimers } from '../../lib/clock.ts';
import { CERTIFICATE_NOT_TRUSTED, RelayCallFailed, callerTrusting } from './relay-request.ts';
import { evidenceOfPinned } from '../outbox/trust-rows.ts';
import { quarantineRetries } from '../inbound/quarantine.ts';
import { SingleFlightTask } from '../../lib/periodic-task.ts';
import { shownRelay } from './register-host.ts';
import { PeersAtRelay } from './peers-at-relay.ts';
import { PullLoop } from './pull-loop.ts';
import { RelayCarrier } from './push-batch.ts';
import { RELAY_TIMING, RelayLink, type RelayTiming } from './relay-link.ts';
import { RelayLooks } from './relay-looks.ts';

/** A placeholder for the key that only the relay's operator can confirm. */
export const OPERATORS_KEY = "SHA256:<the fingerprint that the relay's operator gives you>";

const NAME_NOT_TOLD = 'the relay could not be told the new name of this host';

interface RelayServiceOptions {
  context: HostContext;
  timing?: Partial<RelayTiming>;
}

export class RelayService {
  /** Takes what the outbox has for the relay. */
  readonly carrier: RelayCarrier;
  readonly #context: HostContext;
  readonly #stopping = new AbortController();
  readonly #link: RelayLink;
  readonly #looks: RelayLooks;
  readonly #pull: PullLoop;
  readonly #retries: SingleFlightTask;
  readonly #evidence: SingleFlightTask;
  #unsubscribe: () => void = () => undefined;

  constructor({ context, timing: changes = {} }: RelayServiceOptions) {
    const timing = { ...RELAY_TIMING, ...changes };
    const stopping = this.#stopping.signal;
    this.#context = context;
    this.#link = new RelayLink({ context, timing, stopping, entered: () => this.#looks.entered() });
    this.#retries = quarantineRetries(context);
    const link = this.#link;
    const peers = new PeersAtRelay({ context, link, keyLearned: () => void this.#retries.rerun() });
    this.#evidence = new SingleFlightTask({
      work: async () => {
        const known = await context.store.read((reader) => evidenceOfPinned(reader));
        this.carrier.hasTwoHistories = known.some(showsTwoHistories);
      },
      onError: (error) => this.#logFailed('the evidence against the relay could not be read', error),
    });
    const looks = new RelayLooks({ context, link, peers, timing, stopping });
    this.#looks = looks;
    this.carrier = new RelayCarrier({ context, link, peers, looks });
    this.#pull = new PullLoop({ context, link, timing, peers, looks, timers: systemTimers, stopping });
  }

  start(): void {
    this.#unsubscribe = this.#context.subscribe('relay', {
      'peers-changed': () => this.#link.refresh(),
      'identity-changed': () => this.#link.refresh(),
      'relay-changed': () => {
        this.#looks.begin();
        this.#link.restart();
        void this.#evidence.rerun();
      },
      'evidence-changed': () => void this.#evidence.rerun(),
      'relay-note-heard': () => this.#looks.owe(),
      'host-renamed': () => void this.#takeName().catch((error) => this.#logFailed(NAME_NOT_TOLD, error)),
    });
    this.#link.refresh();
    void this.#evidence.run();
    this.#pull.start();
  }

  /** Ends requests under way; what they would have done is done again. */
  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#stopping.abort();
    await Promise.all([this.#link.stop(), this.#pull.stop(), this.#looks.stop()]);
    await Promise.all([this.#retries.stop(), this.#evidence.stop()]);
  }

  /** Begins again with the relay under the new name: requests of v1 are signed by name. */
  async #takeName(): Promise<void> {
    const context = this.#context;
    await context.store.transact((tx) => dropEnrolmentsOfName(tx, context.identity().signer.publicKey));
    this.#link.restart();
  }

  #logFailed(message: string, error: unknown): void {
    if (isStoreFailure(error)) return;
    this.#context.log('error', message, { err: error });
  }

  /** Looks at the log of the relay, unless that was done within a minute; for so long at most. */
  look(waitMs: number): Promise<void> {
    return this.#looks.look(waitMs);
  }

  /** The relay answered a request of another part of the daemon. */
  answered(): void {
    this.#link.answered();
  }

  /** Pins the relay at an address. A key that changed there has to be named. */
  async set(input: RelaySetInput): Promise<RelaySetResult | Refusal> {
    const context = this.#context;
    const parsed = parseRelayUrl(input.url);
    if ('fault' in parsed) return refusal('BAD_INPUT', sentence(parsed.fault), { field: 'url' });
    const { url } = parsed;
    const wrong = faultOfInput(input);
    if (wrong) return wrong;
    const expected = input.key === undefined ? undefined : parseFingerprint(input.key);
    const known = await context.store.read((reader) => reader.get('relay'));
    const ca = trustedOf(input, url) ?? (known?.url === url ? known.ca : undefined);
    if (ca && 'code' in ca) return ca;
    const relay = await this.#shownRelay(url, ca);
    if ('code' in relay) return relay;
    const { pubkey: shown, isV1 } = relay;
    const fingerprint = displayFingerprint(shown);
    if (isV1 && expected !== undefined) {
      const message = `The relay at ${url} speaks only v1, which proves no key: it can be used without --key alone.`;
      return refusal('RELAY_UNREACHABLE', message);
    }
    if (expected !== undefined && hostFingerprint(shown) !== expected) {
      const fault = 'and not the one that you named: nothing was changed.';
      const message = `The relay at ${url} has the key ${fingerprint}, ${fault}`;
      return refusal('RELAY_KEY_MISMATCH', message, { shown: fingerprint, expected: input.key });
    }
    return context.store.transact((tx): RelaySetResult | Refusal => {
      const before = tx.get('relay');
      const isSame = before?.pubkey === shown;
      if (before && !before.isV1 && isV1 && (isSame || before.url === url)) {
        const message =
          `The relay at ${url} spoke v2 and speaks v1 now: ` +
          'it is pinned, and used in v2 alone. poste relay unset lets it go.';
        return refusal('RELAY_UNREACHABLE', message);
      }
      if (before && !isSame && before.url === url && expected === undefined) {
        const pinned = displayFingerprint(before.pubkey);
        const message =
          `The relay at ${url} had the key ${pinned} and shows ${fingerprint} now: ` +
          'ask its operator which is right.';
        // In v1 no key can be named.
        if (isV1) return refusal('RELAY_KEY_MISMATCH', `${message} poste relay unset lets this relay go.`);
        const details = { shown: fingerprint, pinned };
        return refusal('RELAY_KEY_MISMATCH', `${message} Name that one: --key ${OPERATORS_KEY}.`, details);
      }
      const kept = before?.url === url ? before.proof : null;
      const proof = proofSource(input) ?? kept;
      const witnesses = witnessRows(input.witnesses, isSame ? before.witnesses : undefined, context.nowMs());
      const row = pinRelay(tx, context, {
        url,
        pubkey: shown,
        proof,
        ...(ca && { ca }),
        ...(isV1 && { isV1 }),
        ...(witnesses && { witnesses }),
      });
      const trust = isSame ? 'same' : 'first-use';
      return { relay: pinnedView(row), trust: expected === undefined ? trust : 'named' };
    });
  }

  async #shownRelay(
    url: string,
    ca: RelayRow['ca'],
  ): Promise<(Pick<RelayRow, 'pubkey'> & { isV1: boolean }) | Refusal> {
    const { hostName, signer } = this.#context.identity();
    const nowMs = (): number => this.#context.nowMs();
    const stopping = this.#stopping.signal;
    try {
      const relay = await shownRelay({ url, signer, hostName, nowMs, stopping, caller: callerTrusting(ca) });
      if (isAcceptablePoint(relay.pubkey)) return relay;
      return refusal('RELAY_UNREACHABLE', `The key that the relay at ${url} shows is not a good one.`);
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
      if (error.code === CERTIFICATE_NOT_TRUSTED) {
        const given = ca ? `: the authority of ${ca.path} did not sign it` : '';
        const message =
          `${url} cannot be used: ${error.message}${given}. ` +
          `If a private authority signed it, name its certificate: poste relay set ${url} --ca <file>.`;
        return refusal('RELAY_UNREACHABLE', message);
      }
      return refusal('RELAY_UNREACHABLE', `${url} cannot be used: ${error.message}. Check the address and try again.`);
    }
  }

  /** Uses no relay any more. Mail that it took may still arrive; no expiry notice will be seen. */
  async unset(): Promise<RelayUnsetResult | Refusal> {
    const context = this.#context;
    return context.store.transact(async (tx) => {
      const row = await unpinRelay(tx, context);
      if (!row) return refusal('NO_RELAY', 'No relay is set: poste relay set sets one.');
      const { relay_accepted: accepted } = await outboxCounts(tx);
      return { relay: pinnedView(row), relay_accepted: accepted };
    });
  }

  status(): Promise<RelayStatusResult> {
    const context = this.#context;
    const link = this.#link;
    return context.store.read(async (reader) => {
      const row = reader.get('relay');
      const { publicKey: hostPubkey } = context.identity().signer;
      const scope = row?.epoch ? { relayPubkey: row.pubkey, epoch: row.epoch, hostPubkey } : undefined;
      const known = scope && enrolmentIn(reader, scope);
      const { problem } = link;
      const evidence = await evidenceOfPinned(reader);
      const isDoubted = (link.state === 'ready' || link.state === 'connecting') && evidence.some(showsTwoHistories);
      let quarantined = 0;
      for await (const { row: item } of reader.range('quarantine', [])) if (item.via === 'relay') quarantined++;
      return {
        relay: row ? pinnedView(row) : null,
        state: row ? (isDoubted ? 'two-histories' : link.state) : 'unset',
        problem: row && problem ? { code: problem.code, message: problem.message, at: isoTime(problem.atMs) } : null,
        seen_key: row?.seenKey
          ? {
              relay_pubkey: row.seenKey.pubkey,
              fingerprint: displayFingerprint(row.seenKey.pubkey),
              at: isoTime(row.seenKey.atMs),
            }
          : null,
        epoch: row?.epoch ?? null,
        epochs_left: (row && reader.get('relayTrust', row.pubkey)?.left.length) ?? 0,
        clock_ahead_ms: row ? link.skewMs : null,
        limits: link.session?.limits ?? null,
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
        head_seq: row ? this.#pull.headSeq : null,
        long_poll: row ? this.#pull.isHeldBack : null,
        outbox: await outboxCounts(reader),
        quarantined,
        evidence: evidence.filter(({ dismissedAtMs }) => dismissedAtMs === null).length,
      };
    });
  }
}

function proofSource({ token_file: path, token_command: command }: RelaySetInput): RelayProofSource | null {
  if (path !== undefined) return { type: 'file', path };
  return command === undefined ? null : { type: 'command', command };
}

/** The certificates that are named for a relay; a refusal when they cannot be used. */
function trustedOf({ ca }: RelaySetInput, url: string): RelayRow['ca'] | Refusal {
  if (!ca) return undefined;
  if (!url.startsWith('https:')) {
    return refusal('BAD_INPUT', `A relay at ${url} shows no certificate: --ca is for https.`, { field: 'ca' });
  }
  const pem = certificatesOf(ca.pem);
  if (pem !== undefined) return { pem, path: ca.path };
  const message = `${ca.path} holds no certificate that can be read: it must be PEM, with -----BEGIN CERTIFICATE-----.`;
  return refusal('BAD_INPUT', message, { field: 'ca' });
}

function pinnedView({ url, pubkey, pinnedAtMs, proof, ca, isV1 }: RelayRow): PinnedRelay {
  return {
    url,
    relay_pubkey: pubkey,
    fingerprint: displayFingerprint(pubkey),
    pinned_at: isoTime(pinnedAtMs),
    protocol: isV1 ? 1 : 2,
    token_from: proof?.type ?? null,
    ca_file: ca?.path ?? null,
  };
}

async function outboxCounts(reader: Reader): Promise<RelayStatusResult['outbox']> {
  const counts = { pending: 0, relay_accepted: 0, receipts_pending: 0 };
  for await (const { row } of reader.range('peer', [])) {
    for await (const { key } of reader.range('outboxDue', [row.peerId])) {
      const { kind, state } = reader.get('outbox', key[2]) ?? {};
      if (kind === 'receipt') counts.receipts_pending += state === 'pending' ? 1 : 0;
      else if (state === 'pending') counts.pending++;
      else if (state === 'relay-accepted') counts.relay_accepted++;
    }
  }
  return counts;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

export const RELAY_URL_CHARACTERS_MAX = 2000;

const LOOPBACK = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])$/;

/** The address without a slash at its end, or why it is none: a sentence without a full stop. */
export function parseRelayUrl(text: string): { url: string } | { fault: string } {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return { fault: 'that is no address of a relay: it looks like https://relay.example' };
  }
  if (text.length > RELAY_URL_CHARACTERS_MAX) return { fault: 'the address of the relay is too long' };
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    return { fault: 'the address of a relay has no user, no password, no query and no fragment' };
  }
  const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.test(url.hostname));
  if (!isSafe) {
    return { fault: 'a relay is spoken to by https, or by http on this machine alone: give an address with https://' };
  }
  return { url: url.href.replace(/\/+$/, '') };
}

function faultOfInput({ key, token_file, token_command, witnesses = [] }: RelaySetInput): Refusal | undefined {
  if (key !== undefined && parseFingerprint(key) === undefined) {
    return refusal('BAD_INPUT', 'The fingerprint must look like SHA256:… or have 64 hexadecimal digits.', {
      field: 'key',
    });
  }
  if (token_file !== undefined && token_command !== undefined) {
    return refusal('BAD_INPUT', 'The token comes from a file or from a command, not from both.', {
      field: 'token_file',
    });
  }
  if (witnesses.every(isWitnessKey)) return undefined;
  return refusal('BAD_INPUT', 'A witness is named by its verifier key, as its owner gives it.', {
    field: 'witnesses',
  });
}

function isWitnessKey(vkey: string): boolean {
  const key = parseWitnessKey(vkey);
  return key !== undefined && isAcceptablePoint(key.publicKey);
}

/** Those that are named now, each with what was seen of it before; those of before when none are named. */
function witnessRows(
  named: readonly string[] | undefined,
  before: RelayRow['witnesses'],
  nowMs: number,
): RelayRow['witnesses'] {
  if (named === undefined) return before;
  if (named.length === 0) return undefined;
  const known = new Map(before?.map((row) => [row.vkey, row]));
  return [...new Set(named)].map((vkey) => known.get(vkey) ?? { vkey, atMs: nowMs, epoch: null, size: 0 });
}
