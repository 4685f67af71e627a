/**
 * The messages of a pairing, and the open invitation. Each side sends its own data and a MAC that covers every member of it
 * (protocol/documents.ts, `LanPair`); nothing else of the exchange is trusted.
 */
import type { LanPair } from '../../protocol/documents.ts';
import type { LanPairing } from '../../protocol/lan.ts';
import {
  isPairingMac,
  PAIRING_SECRET_BYTES,
  pairingCodeText,
  pairingMac,
  type PairingContent,
} from '../../protocol/pairing-code.ts';
import type { HostContext } from '../base/context.ts';
import { encKeyDocument } from './identity.ts';

/**
 * The open invitation, if there is one: a code that pairs one host, once, within ten minutes.
 *
 * It exists only in memory: when the daemon ends, a new code is needed.
 */
export const INVITE_MS = 600_000;

interface Invitation {
  secret: Buffer;
  /** Of the monotonic clock. */
  endsAt: number;
}

/** Why an attempt did not pair. */
type InviteFault = 'no invitation is open' | 'the code is wrong';

export class PairingInvite {
  readonly #context: HostContext;
  #invitation: Invitation | undefined;

  constructor(context: HostContext) {
    this.#context = context;
  }

  get isOpen(): boolean {
    return this.#current() !== undefined;
  }

  /** Opens an invitation, and ends the one before. */
  open(): { code: string; expiresAtMs: number } {
    const secret = this.#context.randomBytes(PAIRING_SECRET_BYTES);
    this.#invitation = { secret, endsAt: this.#context.monotonicMs() + INVITE_MS };
    const code = pairingCodeText(this.#context.identity().signer.publicKey, secret);
    return { code, expiresAtMs: this.#context.nowMs() + INVITE_MS };
  }

  /**
   * The secret, when the MAC proves that the acceptor has it and sent exactly this message: that uses up the code. A wrong
   * MAC uses up nothing: the secret has 128 bits, and else a stranger could end invitations and so prevent pairings.
   */
  redeem(received: LanPairing, parties: PairingParties): { secret: Buffer } | InviteFault {
    const invitation = this.#current();
    if (!invitation) return 'no invitation is open';
    if (!isFromAcceptor(received, invitation.secret, parties)) return 'the code is wrong';
    // Before anything else: two acceptors may come with one code at the same time.
    this.close();
    return { secret: invitation.secret };
  }

  /** Ends the invitation: its listener failed, or the daemon ends. */
  close(): void {
    this.#invitation = undefined;
  }

  #current(): Invitation | undefined {
    if (this.#invitation && this.#invitation.endsAt <= this.#context.monotonicMs()) this.#invitation = undefined;
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

/** The message that this host sends as the acceptor. */
export function acceptorMessage(
  context: HostContext,
  secret: Uint8Array,
  parties: PairingParties,
  listening: ListeningAt,
): LanPairing {
  const body = ownBody(context, listening);
  return { ...body, mac: pairingMac(secret, { role: 'acceptor', ...parties, body }) };
}

/** This host's answer, as the inviter, to the request with `acceptorMac`. */
export function inviterMessage(
  context: HostContext,
  secret: Uint8Array,
  parties: PairingParties,
  listening: ListeningAt,
  acceptorMac: string,
): LanPairing {
  const body = ownBody(context, listening);
  return { ...body, mac: pairingMac(secret, { role: 'inviter', ...parties, body, acceptor_mac: acceptorMac }) };
}

/** Whether the acceptor has the secret and sent exactly `received`. */
export function isFromAcceptor(received: LanPairing, secret: Uint8Array, parties: PairingParties): boolean {
  return received.pubkey === parties.acceptor_pubkey && isCovered(received, secret, { role: 'acceptor', ...parties });
}

/** Whether the inviter has the secret, sent exactly `answer`, and answered the request with `acceptorMac`. */
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

function ownBody(context: HostContext, { port, address }: ListeningAt): Omit<LanPairing, 'mac'> {
  const identity = context.identity();
  const { hostName, signer } = identity;
  const own = { host: hostName, pubkey: signer.publicKey, enc_key: encKeyDocument(identity), port };
  return address === undefined ? own : { ...own, address };
}
