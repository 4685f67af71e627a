/** How a host key is admitted. */
import { encodeBase64 } from '../../src/protocol/base64.ts';
import { enrolClaim } from '../../src/protocol/documents.ts';
import { CONVENTIONS, type Party, alice, bob, carol, hostOf, keysOf, relay, signed } from './parties.ts';

function enrolmentCase(name: string, host: Party, ownerFp: string, challengeByte: number): object {
  const document = enrolClaim({
    challenge: encodeBase64(Buffer.alloc(32, challengeByte)),
    relay_pubkey: relay.signer.publicKey,
    host: host.host,
    pubkey: host.signer.publicKey,
    owner_fp: ownerFp,
  });
  const parts = signed(document, host.signer);
  return {
    name,
    host: hostOf(host),
    challenge_request: { pubkey: host.signer.publicKey },
    ...parts,
    enrol_request: { host: document.host, pubkey: document.pubkey, owner_fp: document.owner_fp, sig: parts.signature },
  };
}

export function enrolmentVectors(): object {
  return {
    description: [
      'Enrolment. POST /v1/relay/challenge with "challenge_request" answers the challenge and the public key of the relay;',
      'the host signs "document", which binds both to its claims, and posts "enrol_request" to /v1/relay/enrol.',
      'The challenge itself is not sent back: the relay tries the ones it has open for that key.',
      CONVENTIONS,
    ],
    relay: keysOf(relay),
    cases: [
      enrolmentCase('without an owner_fp', alice, '', 0x10),
      enrolmentCase('with an owner_fp', bob, 'SHA256:c2FtcGxl+/=', 0x20),
      enrolmentCase(
        'a host name in capitals, signed as it is written',
        { ...carol, host: 'CAROL_7' },
        'carol@example',
        0x30,
      ),
    ],
  };
}
