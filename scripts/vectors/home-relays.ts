/** Documents of home relays: those that count, and for each rule one that breaks it. */
import { strict as assert } from 'node:assert';
import {
  HOME_RELAYS_BYTES_MAX,
  HOME_URL_CHARACTERS_MAX,
  type HomeRelaysFault,
  type SignedHomeRelays,
  readHomeRelays,
  signHomeRelays,
} from '../../src/protocol/home-relays.ts';
import { canonicalBytes } from '../../src/protocol/documents.ts';
import {
  AT,
  type Party,
  alice,
  aliceSecond,
  aliceThird,
  bob,
  carol,
  hostOf,
  relay,
  secondRelay,
  signed,
  witness,
} from './parties.ts';

const at = ({ signer }: Party, url: string) => ({ relay_pubkey: signer.publicKey, url });
const FIRST = at(relay, 'https://relay.example');
const SECOND = at(secondRelay, 'https://other.example:8443/mail');

/** The document of a host that takes mail at two relays. */
export function twoRelaysOf({ signer }: Party): SignedHomeRelays {
  return signHomeRelays(signer, { seq: AT, relays: [FIRST, SECOND] });
}

const bytesOf = (signedDocument: { doc: object; sig: string }): number => canonicalBytes(signedDocument).length;

/** A document as the host of the case has to be taken for, which is the one that signs unless another one is named. */
function caseOf(name: string, { doc, sig }: SignedHomeRelays, by: Party, host = by): object {
  assert.deepEqual(readHomeRelays({ doc, sig }, host.signer.publicKey), { doc, sig });
  return {
    name,
    host: hostOf(host),
    ...signed(doc, by.signer),
    bytes: bytesOf({ doc, sig }),
    fault: null,
  };
}

/** One that is signed and breaks this one rule. */
function faultCase(name: string, fault: HomeRelaysFault, changed: object, by: Party = alice, host = by): object {
  const doc = { ...twoRelaysOf(by).doc, ...changed };
  const parts = signed(doc, by.signer);
  const sig = parts.signature;
  assert.equal(readHomeRelays({ doc, sig }, host.signer.publicKey), fault);
  return { name, host: hostOf(host), ...parts, bytes: bytesOf({ doc, sig }), fault };
}

/** The point (0, 1), under which one signature is good for everything. */
const SMALL_ORDER_KEY = Buffer.alloc(32).fill(1, 0, 1).toString('base64');

function urlCase(what: string, url: string): object {
  return faultCase(`a url ${what}`, 'a url is not written as it must be', { relays: [FIRST, at(secondRelay, url)] });
}

export function homeRelaysVectors() {
  const two = twoRelaysOf(alice);
  const five = [relay, secondRelay, bob, carol, witness].map((each, nth) => at(each, `https://r${nth}.example`));
  const full = { relays: five.slice(0, 4), note: '' };
  const room = HOME_RELAYS_BYTES_MAX - bytesOf(signHomeRelays(alice.signer, { seq: AT, ...full }));
  const longest = `https://relay.example/${'a'.repeat(HOME_URL_CHARACTERS_MAX - 22)}`;
  return {
    description: [
      'Documents of home relays: the relays at which "host" takes mail, in its order. The host signs "document", and',
      'shows paired hosts {doc, sig}, whose RFC 8785 form has "bytes" bytes. "fault" says why a document does not',
      'count for somebody who has pinned "host"; where it is null, it counts. A document under the key that a host has',
      'now takes the place of any under its former key; under one key that of a smaller seq.',
    ],
    cases: [
      caseOf('two relays', two, alice),
      caseOf(
        'the next one: the second relay went before the first',
        signHomeRelays(alice.signer, {
          seq: AT + 1,
          relays: [SECOND, FIRST],
        }),
        alice,
      ),
      caseOf('the LAN alone', signHomeRelays(alice.signer, { seq: AT + 2, relays: [] }), alice),
      caseOf(
        'four relays and a member that nobody knows, in as many bytes as there may be',
        signHomeRelays(alice.signer, { seq: 2 ** 53 - 1, ...full, note: 'x'.repeat(room - 3) }),
        alice,
      ),
      caseOf(
        'on this machine by http, and by the longest address',
        signHomeRelays(alice.signer, {
          seq: 1,
          relays: [at(relay, 'http://127.0.0.1:8788'), at(secondRelay, longest)],
        }),
        alice,
      ),
      caseOf('the second key of the host', twoRelaysOf(aliceSecond), aliceSecond),
      faultCase(
        'the second key, of a host that has a third',
        'host_pubkey is another key',
        {},
        aliceSecond,
        aliceThird,
      ),
      faultCase('another version', 'it is no document of type home-relays and version 1 with its signature', { v: 2 }),
      faultCase('another type', 'it is no document of type home-relays and version 1 with its signature', {
        type: 'relay-senders',
      }),
      ...[0, 2 ** 53, 1.5, `${AT}`].map((seq) =>
        faultCase(`the seq ${JSON.stringify(seq)}`, 'seq is no whole number from 1 to 2^53 - 1', { seq }),
      ),
      faultCase('one relay too many', 'relays is no list of at most 4', { relays: five }),
      faultCase('no list of relays', 'relays is no list of at most 4', { relays: null }),
      faultCase('a relay twice', 'a relay_pubkey stands there twice', {
        relays: [FIRST, { ...SECOND, relay_pubkey: FIRST.relay_pubkey }],
      }),
      faultCase('a relay with a key of small order', 'a relay_pubkey is no key, or none that is taken', {
        relays: [{ ...FIRST, relay_pubkey: SMALL_ORDER_KEY }],
      }),
      faultCase('a relay with a key of 31 bytes', 'a relay_pubkey is no key, or none that is taken', {
        relays: [{ ...FIRST, relay_pubkey: Buffer.alloc(31, 7).toString('base64') }],
      }),
      urlCase('with a slash at its end', 'https://other.example/'),
      urlCase('in capitals', 'https://Other.example'),
      urlCase('with the port that https has anyway', 'https://other.example:443'),
      urlCase('outside ASCII', 'https://\u00f6ther.example'),
      urlCase('by http', 'http://other.example'),
      urlCase('of another scheme', 'ftp://other.example'),
      urlCase('with a user', 'https://me@other.example'),
      urlCase('with a password', 'https://:secret@other.example'),
      urlCase('with a query', 'https://other.example/?a=b'),
      urlCase('with an empty query', 'https://other.example/mail?'),
      urlCase('with a fragment', 'https://other.example/#a'),
      urlCase('with 257 characters', `${longest}a`),
      urlCase('with 7 characters', 'https:/'),
      urlCase('that is none', 'other.example'),
      faultCase('one byte too many', 'it has more than 2,048 bytes', { ...full, note: 'x'.repeat(room + 1) }),
      {
        ...caseOf('the signature of another document', two, alice),
        signature: signHomeRelays(alice.signer, { seq: AT + 1, relays: [] }).sig,
        fault: 'host_pubkey did not sign it' satisfies HomeRelaysFault,
      },
    ],
  };
}
