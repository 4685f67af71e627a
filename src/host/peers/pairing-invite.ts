/**
 * The open invitation, if there is one: a code that pairs one host, once, within ten minutes. The code alone pairs
 * nobody: the owner has named the key of the other host before, or confirms the host that came. Until then it is no
 * peer.
 *
 * It exists only in memory: when the daemon ends, a new code is needed.
 *
 * Each side of a pairing sends its own data and a MAC that covers every member of it (protocol/documents.ts,
 * `LanPair`); a host trusts nothing else of the exchange.
 */
import { EventEmitter, once } from 'node:events';
import { limitedSignal } from '../../lib/http-request.ts';
import type { LanPair } from '../../protocol/documents.ts';
import type { LanPairing } from '../../protocol/lan.ts';
import {
  isPairingMac,
  PAIRING_SECRET_BYTES,
  pairingCodeText,
  type PairingContent,
  pairingMac,
} from '../../protocol/pairing-code.ts';
import { displayFingerprint, hostFingerprint, parseFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import type { HostContext } from '../base/context.ts';
import { INVITE_MS } from '../contract/limits.ts';
import type {
  ConfirmInput,
  DeclineInput,
  InviteInput,
  PairWaitInput,
  PairWaitResult,
  PeerView,
} from '../contract/peers.ts';
import type { SaidHome } from '../core/home-documents.ts';
import { isRefusal, type Refusal, refusal } from '../core/refusal.ts';
import type { PeerRow } from '../core/rows.ts';
import { homeFor } from '../outbox/homes.ts';
import { encKeyDocument } from './identity.ts';
import { type PairedHost, peerOfKey, peerView, pinPeer, refusePairing } from './peers.ts';

/** A request of a host that waits for the confirmation is held this long: less than that host waits. */
const HOLD_MS = 15_000;

interface Invitation {
  code: string;
  /** The key of this host that the code stands for. */
  inviter: PublicKey;
  secret: Buffer;
  /** The end by the monotonic clock. */
  endsAt: number;
  /** The fingerprint that the owner named: nothing is left to confirm. */
  expected: string | undefined;
  /** The host that came with the code first. */
  acceptor: PairedHost | undefined;
  isPaired: boolean;
}

/** Says why an attempt did not pair. */
const NO_INVITATION = 'no invitation is open';
const WRONG_CODE = 'the code is wrong';
const NOT_EXPECTED = 'the invitation is for a host with another fingerprint';
const NOT_FIRST = 'another host came with this code before';
/** Says why it has not paired yet: the acceptor asks again. */
export const NOT_CONFIRMED = 'the owner of the host that invites has not confirmed this one yet';

export class PairingInvite {
  readonly #context: HostContext;
  readonly #ended: () => void;
  readonly #changes = new EventEmitter().setMaxListeners(0);
  #invitation: Invitation | undefined;

  /** `ended` is called when a host is pinned, and when the owner ends the invitation. */
  constructor(context: HostContext, ended: () => void) {
    this.#context = context;
    this.#ended = ended;
  }

  get isOpen(): boolean {
    return this.#current()?.isPaired === false;
  }

  /** Opens an invitation, and ends the one before. */
  open({ fingerprint }: InviteInput): { code: string; expiresAtMs: number } {
    const secret = this.#context.randomBytes(PAIRING_SECRET_BYTES);
    const inviter = this.#context.identity().signer.publicKey;
    const code = pairingCodeText(inviter, secret);
    const endsAt = this.#context.monotonicMs() + INVITE_MS;
    const expected = fingerprint === undefined ? undefined : parseFingerprint(fingerprint);
    this.#invitation = { code, inviter, secret, endsAt, expected, acceptor: undefined, isPaired: false };
    this.#changes.emit('change');
    return { code, expiresAtMs: this.#context.nowMs() + INVITE_MS };
  }

  /**
   * The invitation, when the MAC proves that the acceptor has its secret and sent exactly this message. A wrong MAC
   * uses up nothing: the secret has 128 bits, and else a stranger could end invitations and so prevent pairings.
   */
  proven(received: LanPairing, parties: PairingParties): Invitation | string {
    const invitation = this.#current();
    if (!invitation) return NO_INVITATION;
    if (!isFromAcceptor(received, invitation.secret, parties)) return WRONG_CODE;
    const { expected } = invitation;
    return expected === undefined || expected === hostFingerprint(parties.acceptor_pubkey) ? invitation : NOT_EXPECTED;
  }

  /**
   * Resolves when the host is pinned, or with the reason why it is not. Every host but the first is refused. A pinned
   * host that asks again is pinned and answered again, as it may have missed the first answer, unless the owner
   * unpaired it meanwhile.
   */
  async admit(invitation: Invitation, host: PairedHost): Promise<string | undefined> {
    const [unfit, known] = await this.#context.store.read(async (reader) => {
      const peer = peerOfKey(reader, host.publicKey);
      return [await refusePairing(reader, this.#context, host, peer), peer] as const;
    });
    if (unfit) return unfit.message;
    const { acceptor } = invitation;
    if (this.#current() !== invitation) return NO_INVITATION;
    // The owner confirms a key and a name.
    if (acceptor && (acceptor.publicKey !== host.publicKey || acceptor.hostName !== host.hostName)) return NOT_FIRST;
    if (invitation.isPaired && known?.unpairedAtMs !== null) return NO_INVITATION;
    invitation.acceptor = host;
    this.#changes.emit('change');
    if (invitation.isPaired || invitation.expected !== undefined) {
      const pinned = await this.#pin(invitation, host);
      return isRefusal(pinned) ? pinned.message : undefined;
    }
    await this.#until(HOLD_MS, () => invitation.isPaired || this.#current() !== invitation);
    if (invitation.isPaired) return undefined;
    return this.#current() === invitation ? NOT_CONFIRMED : NO_INVITATION;
  }

  /** The host that came with the code and waits, as soon as there is one. Its owner goes: so does the invitation. */
  async acceptor({ code, wait_ms }: PairWaitInput, signal: AbortSignal): Promise<PairWaitResult | Refusal> {
    const invitation = this.#openBy(code);
    if (isRefusal(invitation)) return invitation;
    await this.#until(wait_ms, () => invitation.acceptor !== undefined || this.#current() !== invitation, signal);
    if (signal.aborted) this.decline({ code });
    const open = this.#openBy(code);
    if (isRefusal(open)) return open;
    const { acceptor } = open;
    if (!acceptor) return { acceptor: null };
    const { hostName: host, publicKey, address } = acceptor;
    return { acceptor: { host, fingerprint: displayFingerprint(publicKey), address } };
  }

  /** The owner knows the host by this fingerprint: it is pinned. */
  async confirm({ code, fingerprint }: ConfirmInput): Promise<PeerView | Refusal> {
    const invitation = this.#openBy(code);
    if (isRefusal(invitation)) return invitation;
    const { acceptor } = invitation;
    if (!acceptor || hostFingerprint(acceptor.publicKey) !== parseFingerprint(fingerprint)) {
      return refusal('PAIRING_REFUSED', `No host with the fingerprint ${fingerprint} came with this code.`);
    }
    const pinned = await this.#pin(invitation, acceptor);
    if (!isRefusal(pinned)) return peerView(this.#context, pinned);
    this.decline({ code });
    return pinned;
  }

  /** Another host came than the owner expects: somebody else has the code, so it pairs nobody any more. */
  decline({ code }: DeclineInput): object {
    if (this.#current()?.code === code) this.close();
    this.#ended();
    return {};
  }

  /** Ends the invitation: its listener failed, or the daemon ends. */
  close(): void {
    this.#invitation = undefined;
    this.#changes.emit('change');
  }

  async #pin(invitation: Invitation, host: PairedHost): Promise<PeerRow | Refusal> {
    const pinned = await this.#context.store.transact((tx) => pinPeer(tx, this.#context, host));
    if (isRefusal(pinned)) return pinned;
    invitation.isPaired = true;
    this.#context.log('info', 'a host was paired', { host: pinned.hostName });
    this.#changes.emit('change');
    this.#ended();
    return pinned;
  }

  #openBy(code: string): Invitation | Refusal {
    const invitation = this.#current();
    if (invitation?.code === code && !invitation.isPaired) return invitation;
    return refusal(
      'PAIRING_REFUSED',
      'The code is void: it was used, has expired, another one took its place, or this host has a new key. ' +
        'Invite again (poste peer invite).',
    );
  }

  /** Resolves when it is so, at one of the changes of the invitation, when the time is up, or `signal` is aborted. */
  async #until(ms: number, isSo: () => boolean, stopping?: AbortSignal): Promise<void> {
    const { signal, over } = limitedSignal(ms, stopping);
    try {
      while (!isSo() && !signal.aborted) await once(this.#changes, 'change', { signal }).catch(() => undefined);
    } finally {
      over();
    }
  }

  #current(): Invitation | undefined {
    const { publicKey } = this.#context.identity().signer;
    const isOver = ({ endsAt, inviter }: Invitation): boolean =>
      endsAt <= this.#context.monotonicMs() || inviter !== publicKey;
    if (this.#invitation && isOver(this.#invitation)) this.#invitation = undefined;
    return this.#invitation;
  }
}

/** The keys of both sides. */
type PairingParties = Pick<LanPair, 'inviter_pubkey' | 'acceptor_pubkey'>;

/** The listener that a host announces; `address` when its requests come from another one. */
export interface ListeningAt {
  port: number;
  address: string | undefined;
}

/** A host says this in a pairing besides its name and keys. */
interface PairingWords extends ListeningAt {
  home: SaidHome | undefined;
}

/** Says it to the host with this key, which may have been paired with this one before. */
export function pairingWords(context: HostContext, listening: ListeningAt, other: PublicKey): Promise<PairingWords> {
  return context.store.read((reader) => ({
    ...listening,
    home: homeFor(reader, context, peerOfKey(reader, other)?.peerId),
  }));
}

/** The message that this host sends as the acceptor. */
export function acceptorMessage(
  context: HostContext,
  secret: Uint8Array,
  parties: PairingParties,
  words: PairingWords,
): LanPairing {
  const body = ownBody(context, words);
  return { ...body, mac: pairingMac(secret, { role: 'acceptor', ...parties, body }) };
}

/** This host's answer, as the inviter, to the request with `acceptorMac`. */
export function inviterMessage(
  context: HostContext,
  secret: Uint8Array,
  parties: PairingParties,
  words: PairingWords,
  acceptorMac: string,
): LanPairing {
  const body = ownBody(context, words);
  return { ...body, mac: pairingMac(secret, { role: 'inviter', ...parties, body, acceptor_mac: acceptorMac }) };
}

/** Says whether the acceptor has the secret and sent exactly `received`. */
export function isFromAcceptor(received: LanPairing, secret: Uint8Array, parties: PairingParties): boolean {
  return received.pubkey === parties.acceptor_pubkey && isCovered(received, secret, { role: 'acceptor', ...parties });
}

/** Says whether the inviter has the secret, sent exactly `answer`, and answered the request with `acceptorMac`. */
export function isFromInviter(
  answer: LanPairing,
  secret: Uint8Array,
  parties: PairingParties,
  acceptorMac: string,
): boolean {
  const words = { role: 'inviter', ...parties, acceptor_mac: acceptorMac } as const;
  return answer.pubkey === parties.inviter_pubkey && isCovered(answer, secret, words);
}

type WithoutBody<T> = T extends unknown ? Omit<T, 'body'> : never;

function isCovered(received: LanPairing, secret: Uint8Array, words: WithoutBody<PairingContent>): boolean {
  const { mac, ...body } = received;
  return isPairingMac(mac, secret, { ...words, body });
}

function ownBody(context: HostContext, { port, address, home }: PairingWords): Omit<LanPairing, 'mac'> {
  const identity = context.identity();
  const { hostName, signer } = identity;
  const own = { host: hostName, pubkey: signer.publicKey, enc_key: encKeyDocument(identity), port };
  return { ...own, ...(address !== undefined && { address }), ...(home && { home }) };
}
