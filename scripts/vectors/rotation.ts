/** Host rotations: one host goes on under a new key, and both keys say so. */
import { hostRotation } from '../../src/protocol/documents.ts';
import { AT, CONVENTIONS, type Party, alice, aliceSecond, aliceThird, keysOf, signed } from './parties.ts';

function rotationCase(name: string, from: Party, to: Party, iat: number): object {
  const document = hostRotation({ old_pubkey: from.signer.publicKey, new_pubkey: to.signer.publicKey, iat });
  const { canonical, signature: old_sig } = signed(document, from.signer);
  const { signature: new_sig } = signed(document, to.signer);
  return {
    name,
    old_key: keysOf(from),
    new_key: keysOf(to),
    document,
    canonical,
    old_sig,
    new_sig,
    request: { rotation: { rec: document, old_sig, new_sig } },
    asked: `/v2/relay/rotation?key=${encodeURIComponent(from.signer.publicKey)}`,
  };
}

export function rotationVectors(): object {
  return {
    description: [
      'Rotations of a host key. The old and the new key sign the same bytes, the RFC 8785 form of "document"; "request" is',
      'the body of POST /v2/relay/rotate, which needs no hop. Post a chain oldest first. "asked" is the request target of a',
      'signed GET by which other hosts read the record: the answer is the same JSON object as "request".',
      CONVENTIONS,
    ],
    cases: [
      rotationCase('to a second key', alice, aliceSecond, AT),
      rotationCase('and on to a third', aliceSecond, aliceThird, AT + 86_400_000),
    ],
  };
}
