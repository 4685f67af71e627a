/**
 * Evidence of what a relay signed, as a host exports it: notes of the relay, and what joins them. It proves itself, so
 * nobody signs it.
 */
import { type Static, Type } from 'typebox';
import { KNEW_CHARACTERS } from './seen.ts';
import { PublicKeyText } from './shapes.ts';

const EVIDENCE_NOTES_MAX = 16;
const EVIDENCE_PROOFS_MAX = 64;

export const RelayEvidenceShape = Type.Object({
  v: Type.Literal(1),
  type: Type.Literal('relay-evidence'),
  kind: Type.String({ pattern: '^[a-z][a-z-]{0,39}$', description: 'what the host that found it calls it' }),
  relay_pubkey: PublicKeyText,
  notes: Type.Array(Type.String(), { minItems: 1, maxItems: EVIDENCE_NOTES_MAX, description: 'as the relay signed' }),
  knew: Type.Optional(
    Type.Array(Type.String({ minLength: KNEW_CHARACTERS, maxLength: KNEW_CHARACTERS }), {
      maxItems: EVIDENCE_NOTES_MAX,
      description: 'in base64, in any order: each counts for the note whose line `after` is its SHA-256',
    }),
  ),
  proof: Type.Optional(
    Type.Array(Type.Unknown(), {
      maxItems: EVIDENCE_PROOFS_MAX,
      description: 'answers of `log/link` and `log/consistency`, as the relay gave them',
    }),
  ),
});
export type RelayEvidence = Static<typeof RelayEvidenceShape>;
