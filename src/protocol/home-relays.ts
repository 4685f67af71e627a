/**
 * The relays at which a host takes mail, in its order, signed by the host: `{doc, sig}`. Paired hosts show it to each
 * other where no relay can read it.
 *
 * It says where the host listens, and nothing more: no program calls a `url` of it unless its owner adds that relay.
 * Relays are known by their keys. Members that we do not know stay, and the signature covers them.
 */
import { isHttpsOrLoopback } from './https-or-loopback.ts';
import { isAcceptablePoint } from './acceptable-point.ts';
import { isObject } from './json.ts';
import {
  canonicalBytesIfAny,
  canonicalJson,
  type HomeRelays,
  homeRelays,
  isDocumentSigned,
  signDocument,
} from './documents.ts';
import { SIGNATURE_CHARACTERS, type Signer } from './ed25519.ts';
import { type PublicKey, parsePublicKey } from './public-key.ts';

export interface SignedHomeRelays {
  doc: HomeRelays;
  /** The signature of `host_pubkey`. */
  sig: string;
}

export const HOME_RELAYS_MAX = 4;
/** The canonical form of `{doc, sig}`. */
export const HOME_RELAYS_BYTES_MAX = 2_048;
const HOME_URL_CHARACTERS_MIN = 8;
export const HOME_URL_CHARACTERS_MAX = 256;

/** Says why a value is no such document: one clause about it. */
export type HomeRelaysFault =
  | 'it is no document of type home-relays and version 1 with its signature'
  | 'host_pubkey is another key'
  | 'seq is no whole number from 1 to 2^53 - 1'
  | 'relays is no list of at most 4'
  | 'a relay_pubkey is no key, or none that is taken'
  | 'a relay_pubkey stands there twice'
  | 'a url is not written as it must be'
  | 'it has more than 2,048 bytes'
  | 'host_pubkey did not sign it';

/** Throws `RangeError` for what `readHomeRelays` would refuse. `more` are members besides. */
export function signHomeRelays(
  signer: Signer,
  { seq, relays, ...more }: Pick<HomeRelays, 'seq' | 'relays'> & Readonly<Record<string, unknown>>,
): SignedHomeRelays {
  const doc = { ...homeRelays({ host_pubkey: signer.publicKey, seq, relays }), ...more };
  const signed = { doc, sig: signDocument(signer, doc) };
  const read = readHomeRelays(signed, signer.publicKey);
  if (typeof read === 'string') throw new RangeError(`a document of home relays: ${read}`);
  return signed;
}

/** Returns the document of the host with this key, or why it is none. Members beside `doc` and `sig` are left out. */
export function readHomeRelays(value: unknown, host: PublicKey): SignedHomeRelays | HomeRelaysFault {
  const { doc, sig } = isObject(value) ? value : {};
  const isForm = isObject(doc) && doc['v'] === 1 && doc['type'] === 'home-relays';
  if (!isForm || typeof sig !== 'string' || sig.length !== SIGNATURE_CHARACTERS)
    return 'it is no document of type home-relays and version 1 with its signature';
  if (doc['host_pubkey'] !== host) return 'host_pubkey is another key';
  if (!Number.isSafeInteger(doc['seq']) || (doc['seq'] as number) < 1)
    return 'seq is no whole number from 1 to 2^53 - 1';
  const bytes = canonicalBytesIfAny({ doc, sig });
  if (bytes && bytes.length > HOME_RELAYS_BYTES_MAX) return 'it has more than 2,048 bytes';
  const keys = relayKeysOf(doc['relays']);
  if (typeof keys === 'string') return keys;
  // A document without a canonical form has no signature either.
  if (!isDocumentSigned(host, doc, sig)) return 'host_pubkey did not sign it';
  return keys.every(isAcceptablePoint)
    ? { doc: doc as unknown as HomeRelays, sig }
    : 'a relay_pubkey is no key, or none that is taken';
}

/** The canonical text of a document with its signature: where it is the same, the document is. */
export function homeRelaysText({ doc, sig }: SignedHomeRelays): string {
  return canonicalJson({ doc, sig });
}

function relayKeysOf(relays: unknown): PublicKey[] | HomeRelaysFault {
  if (!Array.isArray(relays) || relays.length > HOME_RELAYS_MAX) return 'relays is no list of at most 4';
  const keys = new Set<PublicKey>();
  for (const relay of relays as unknown[]) {
    const { relay_pubkey: text, url } = isObject(relay) ? relay : {};
    const key = parsePublicKey(text);
    if (key === undefined) return 'a relay_pubkey is no key, or none that is taken';
    if (keys.has(key)) return 'a relay_pubkey stands there twice';
    if (!isHomeUrl(url)) return 'a url is not written as it must be';
    keys.add(key);
  }
  return [...keys];
}

/**
 * Says whether this may be the address of a relay in a document: as `URL.href` writes it (WHATWG URL), without a slash
 * at its end; https, or http on loopback; without a user, a password, a query and a fragment.
 */
export function isHomeUrl(text: unknown): text is string {
  if (typeof text !== 'string' || text.length < HOME_URL_CHARACTERS_MIN || text.length > HOME_URL_CHARACTERS_MAX)
    return false;
  // An empty query or fragment is in no other member of the URL.
  if (/[?#]|\/$/.test(text) || !URL.canParse(text)) return false;
  const url = new URL(text);
  const { href, username, password } = url;
  return username === '' && password === '' && (href === text || href === `${text}/`) && isHttpsOrLoopback(url);
}
