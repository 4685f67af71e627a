/**
 * The messages of a pairing. Each side sends its own data and a MAC that covers every member of it
 * (protocol/documents.ts, `LanPair`); nothing else of the exchange is trusted.
 */
import type { LanPair } from '../../protocol/documents.ts';
import type { LanPairing } from '../../protocol/lan.ts';
import { isPairingMac, pairingMac, type PairingContent } from '../../protocol/pairing-code.ts';
import type { HostContext } from '../base/context.ts';
import { encKeyDocument } from './identity.ts';

/** The keys of both sides. */
export type PairingParties = Pick<LanPair, 'inviter_pubkey' | 'acceptor_pubkey'>;

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
