/**
 * Everything of the relay that the daemon runs: the link, the pushes, the pulls, and what the owner sets and sees.
 */
import {
  displayFingerprint,
  hostFingerprint,
  isAcceptablePoint,
  parseFingerprint,
} from '../../../protocol/public-key.ts';
import { type Refusal, refusal } from '../../core/refusal.ts';
import { parseRelayUrl } from '../../core/relay-url.ts';
import type { PeerRow, RelayProofSource, RelayRow } from '../../core/rows.ts';
import type { RelayFacts } from '../../core/transport-choice.ts';
import type {
  PinnedRelay,
  RelaySetInput,
  RelaySetResult,
  RelayStatusResult,
  RelayUnsetResult,
} from '../../documents/relay.ts';
import type { Office } from '../../office/office.ts';
import { enrolmentIn, pinRelay, positionIn, unpinRelay } from '../../office/relay-rows.ts';
import type { Reader } from '../../store/host-store.ts';
import { RelayCallFailed } from '../relay-request.ts';
import { shownRelay } from './connect.ts';
import { PullLoop } from './pull-loop.ts';
import { PushPass } from './push-pass.ts';
import { RELAY_TIMING, RelayLink, type RelayTiming } from './relay-link.ts';
import { Targets } from './targets.ts';

export interface RelaySideOptions {
  office: Office;
  timing?: Partial<RelayTiming>;
}

export class RelaySide {
  readonly #office: Office;
  readonly #stopping = new AbortController();
  readonly #link: RelayLink;
  readonly #push: PushPass;
  readonly #pull: PullLoop;
  #unlisten: () => void = () => undefined;

  constructor({ office, timing: changes = {} }: RelaySideOptions) {
    const timing = { ...RELAY_TIMING, ...changes };
    const stopping = this.#stopping.signal;
    this.#office = office;
    this.#link = new RelayLink({ office, timing, stopping, ready: () => this.#push.begin() });
    this.#push = new PushPass({ office, link: this.#link, targets: new Targets(office, this.#link) });
    this.#pull = new PullLoop({ office, link: this.#link, timing, stopping });
  }

  start(): void {
    this.#unlisten = this.#office.listen(({ type }) => {
      if (type === 'outbox-changed') this.#push.begin();
      if (type === 'peers-changed') {
        this.#link.refresh();
        this.#push.begin();
      }
      if (type === 'identity-changed') this.#link.refresh();
      if (type === 'relay-changed') this.#link.restart();
    });
    this.#link.refresh();
    this.#pull.start();
  }

  /** Ends requests under way; what they would have done is done again. */
  async stop(): Promise<void> {
    this.#unlisten();
    this.#stopping.abort();
    await Promise.all([this.#link.stop(), this.#push.stop(), this.#pull.stop()]);
  }

  /** What the choice of a way rests on. */
  factsFor(peer: PeerRow): Promise<RelayFacts | null> {
    return this.#push.factsFor(peer);
  }

  /** There may be rows to push. */
  begin(): void {
    this.#push.begin();
  }

  /** Pins the relay at an address. A key that changed there has to be named. */
  async set(input: RelaySetInput): Promise<RelaySetResult | Refusal> {
    const office = this.#office;
    const parsed = parseRelayUrl(input.url);
    if ('fault' in parsed) return refusal('BAD_INPUT', sentence(parsed.fault), { field: 'url' });
    const { url } = parsed;
    const expected = input.key === undefined ? undefined : parseFingerprint(input.key);
    if (input.key !== undefined && expected === undefined) {
      return refusal('BAD_INPUT', 'The fingerprint must look like SHA256:… or have 64 hexadecimal digits.', {
        field: 'key',
      });
    }
    if (input.token_file !== undefined && input.token_command !== undefined) {
      return refusal('BAD_INPUT', 'The token comes from a file or from a command, not from both.', {
        field: 'token_file',
      });
    }
    const relay = await this.#shownRelay(url);
    if ('code' in relay) return relay;
    const { pubkey: shown, isV1 } = relay;
    const fingerprint = displayFingerprint(shown);
    if (isV1 && expected !== undefined) {
      const message = `The relay at ${url} speaks only v1, which proves no key: it can be used without --key alone.`;
      return refusal('RELAY_UNREACHABLE', message);
    }
    if (expected !== undefined && hostFingerprint(shown) !== expected) {
      const message = `The relay at ${url} has the key ${fingerprint}, and not the one that you named: nothing was changed.`;
      return refusal('RELAY_KEY_MISMATCH', message, { shown: fingerprint, expected: input.key });
    }
    return office.store.transact((tx): RelaySetResult | Refusal => {
      const before = tx.get('relay');
      const isSame = before?.pubkey === shown;
      if (before && !before.isV1 && isV1 && (isSame || before.url === url)) {
        const message = `The relay at ${url} spoke v2 and speaks v1 now: it is pinned, and used in v2 alone. poste relay unset lets it go.`;
        return refusal('RELAY_UNREACHABLE', message);
      }
      if (before && !isSame && before.url === url && expected === undefined) {
        const pinned = displayFingerprint(before.pubkey);
        const message = `The relay at ${url} had the key ${pinned} and shows ${fingerprint} now: if its operator confirms that,`;
        // In v1 no key can be named.
        if (isV1) return refusal('RELAY_KEY_MISMATCH', `${message} let the former one go: poste relay unset.`);
        const details = { shown: fingerprint, pinned };
        return refusal('RELAY_KEY_MISMATCH', `${message} name it with --key ${fingerprint}.`, details);
      }
      const kept = before?.url === url ? before.proof : null;
      const proof = proofSource(input) ?? kept;
      const row = pinRelay(tx, office, { url, pubkey: shown, proof, ...(isV1 && { isV1 }) });
      const trust = isSame ? 'same' : 'first-use';
      return { relay: pinnedView(row), trust: expected === undefined ? trust : 'named' };
    });
  }

  async #shownRelay(url: string): Promise<(Pick<RelayRow, 'pubkey'> & { isV1: boolean }) | Refusal> {
    const { hostName, signer } = this.#office.identity();
    const nowMs = (): number => this.#office.nowMs();
    const stopping = this.#stopping.signal;
    try {
      const relay = await shownRelay({ url, signer, hostName, nowMs, stopping });
      if (isAcceptablePoint(relay.pubkey)) return relay;
      return refusal('RELAY_UNREACHABLE', `The key that the relay at ${url} shows is not a good one.`);
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
      return refusal('RELAY_UNREACHABLE', `${url} cannot be used: ${error.message}. Check the address and try again.`);
    }
  }

  /** Uses no relay any more. Mail that it took may still arrive; no expiry notice will be seen. */
  async unset(): Promise<RelayUnsetResult | Refusal> {
    const office = this.#office;
    return office.store.transact(async (tx) => {
      const row = await unpinRelay(tx, office);
      if (!row) return refusal('NO_RELAY', 'No relay is set: poste relay set sets one.');
      const { relay_accepted: accepted } = await outboxCounts(tx);
      return { relay: pinnedView(row), relay_accepted: accepted };
    });
  }

  status(): Promise<RelayStatusResult> {
    const office = this.#office;
    const link = this.#link;
    return office.store.read(async (reader) => {
      const row = reader.get('relay');
      const { publicKey: hostPubkey } = office.identity().signer;
      const scope = row?.epoch ? { relayPubkey: row.pubkey, epoch: row.epoch, hostPubkey } : undefined;
      const known = scope && enrolmentIn(reader, scope);
      const { problem } = link;
      let quarantined = 0;
      for await (const { row: item } of reader.range('quarantine', [])) if (item.via === 'relay') quarantined++;
      return {
        relay: row ? pinnedView(row) : null,
        state: row ? link.state : 'unset',
        problem: row && problem ? { code: problem.code, message: problem.message, at: problem.atMs } : null,
        seen_key: row?.seenKey
          ? {
              relay_pubkey: row.seenKey.pubkey,
              fingerprint: displayFingerprint(row.seenKey.pubkey),
              at: row.seenKey.atMs,
            }
          : null,
        epoch: row?.epoch ?? null,
        clock_ahead_ms: row ? link.skewMs : null,
        limits: link.session?.limits ?? null,
        enrolment: known
          ? {
              checked_at: known.checkedAtMs,
              authorized_by: known.authorizedBy,
              account: known.account,
              crowded: known.isCrowded,
              valid_until: known.validUntilMs,
              enc_key: known.encKey && { at: known.encKey.at, checked_at: known.encKey.checkedAtMs },
              senders: known.senders && {
                count: known.senders.count,
                iat: known.senders.iat,
                checked_at: known.senders.checkedAtMs,
              },
            }
          : null,
        received_through: scope ? positionIn(reader, scope) : 0,
        head_seq: row ? this.#pull.headSeq : null,
        long_poll: row ? this.#pull.isHeldBack : null,
        outbox: await outboxCounts(reader),
        quarantined,
      };
    });
  }
}

function proofSource({ token_file: path, token_command: command }: RelaySetInput): RelayProofSource | null {
  if (path !== undefined) return { type: 'file', path };
  return command === undefined ? null : { type: 'command', command };
}

function pinnedView({ url, pubkey, pinnedAtMs, proof, isV1 }: RelayRow): PinnedRelay {
  return {
    url,
    relay_pubkey: pubkey,
    fingerprint: displayFingerprint(pubkey),
    pinned_at: pinnedAtMs,
    protocol: isV1 ? 1 : 2,
    token_from: proof?.type ?? null,
  };
}

async function outboxCounts(reader: Reader): Promise<{ pending: number; relay_accepted: number }> {
  const counts = { pending: 0, relay_accepted: 0 };
  for await (const { row } of reader.range('peer', [])) {
    for await (const { key } of reader.range('outboxDue', [row.peerId])) {
      const state = reader.get('outbox', key[2])?.state;
      if (state === 'pending') counts.pending++;
      if (state === 'relay-accepted') counts.relay_accepted++;
    }
  }
  return counts;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
