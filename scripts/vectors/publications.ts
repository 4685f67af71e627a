/** What a host publishes about itself: the key its mail is sealed to, and whose mail it takes. */
import { encKeyAdvertisement, senderList } from '../../src/protocol/documents.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { AT, CONVENTIONS, type Party, alice, bob, carol, hostOf, signed } from './parties.ts';
import { type SealKey, bobSealKey, bobSecondSealKey } from './seal-keys.ts';

/** An advertisement of `host`, signed, with the body that publishes it and the answer that shows it. */
export function encKeyParts(host: Party, key: SealKey, at: number) {
  const { publicKey: host_pubkey } = host.signer;
  const parts = signed(encKeyAdvertisement({ host_pubkey, enc_pub: key.encPub, at }), host.signer);
  const shown = { enc_pub: key.encPub, at, sig: parts.signature };
  return { ...parts, request: shown, shown: { enc_key: { host_pubkey, ...shown } } };
}

function encKeyCase(name: string, key: SealKey, at: number): object {
  return { name, secret: key.secret, ...encKeyParts(bob, key, at) };
}

export function encKeyVectors(): object {
  return {
    description: [
      'Encryption-key advertisements. The host signs "document" and posts "request" to /v1/relay/enc-key; it is not in the',
      'body whose key it is, for that is the key of the hop. "shown" is the answer of GET /v2/relay/enc-key?key=, from',
      'which a sender builds the document again and verifies it under the key that it pinned. enc_pub is an X25519 key',
      '(RFC 7748) and "secret" its private key.',
      CONVENTIONS,
    ],
    host: hostOf(bob),
    cases: [
      encKeyCase('the first key of a host', bobSealKey, AT),
      encKeyCase('a newer key in its place', bobSecondSealKey, AT + 86_400_000),
    ],
  };
}

/** A list of `host`, signed, with the body that publishes it. `others` are members that only the signature knows. */
export function senderListParts(host: Party, senders: readonly Party[], iat: number, others: object = {}) {
  const keys = senders.map(({ signer }): PublicKey => signer.publicKey);
  const document = { ...senderList({ host_pubkey: host.signer.publicKey, senders: keys, iat }), ...others };
  const parts = signed(document, host.signer);
  return { ...parts, request: { list: parts.document, sig: parts.signature } };
}

export function senderListVectors(): object {
  return {
    description: [
      'Sender lists: whose mail a target takes. The target signs "document" and posts "request" to /v2/relay/senders.',
      'A newer iat replaces an older list. The empty list refuses every sender, which is not the same as no list at all.',
      CONVENTIONS,
    ],
    host: hostOf(bob),
    cases: [
      { name: 'one sender', ...senderListParts(bob, [alice], AT) },
      { name: 'two senders, in the order they are written in', ...senderListParts(bob, [carol, alice], AT + 1) },
      { name: 'nobody', ...senderListParts(bob, [], AT + 2) },
      {
        name: 'a member that the protocol does not know is kept and signed',
        ...senderListParts(bob, [alice], AT + 3, { note: 'gr\u00fc\u00dfe' }),
      },
    ],
  };
}
