/** Signed answers of `hello`: that a host listens at the address that was dialled. */
import { lanHelloWord } from '../../src/protocol/documents.ts';
import { LAN_ROUTES } from '../../src/protocol/lan.ts';
import { AT, CONVENTIONS, bob, hostOf, signed } from './parties.ts';

function helloCase(name: string, nonce: Buffer, address: string): object {
  const text = nonce.toString('base64url');
  const { publicKey } = bob.signer;
  const parts = signed(lanHelloWord({ nonce: text, pubkey: publicKey, address, now: AT }), bob.signer);
  return {
    name,
    target: `${LAN_ROUTES.hello}?nonce=${text}&address=${encodeURIComponent(address)}`,
    ...parts,
    answer: { host: bob.host, pubkey: publicKey, version: '0.1.0', now: AT, sig: parts.signature },
  };
}

export function lanHelloVectors(): object {
  return {
    description: [
      'Signed answers of GET /v1/lan/hello. A host that wants to know whether a paired host listens at an address dials it,',
      'asks with a nonce of 16 to 32 random bytes in base64url and with the address as it dialled it, and builds "document"',
      'of the two, of the key that it pinned and of the time in the answer. The other host signs only an address that is its',
      'own: one that passes the question on to the right host gets an answer without a signature.',
      CONVENTIONS,
    ],
    host: hostOf(bob),
    cases: [
      helloCase('an IPv4 address', Buffer.alloc(16, 0x61), '192.168.1.7:8789'),
      helloCase(
        'an IPv6 address, percent-encoded in the query and signed as it was dialled',
        Buffer.alloc(32, 0x62),
        '[2001:DB8::7]:8789',
      ),
      helloCase('a name that the host advertises', Buffer.alloc(20, 0x63), 'bob.example:9'),
    ],
  };
}
