/** Which host an operator means. */
import type { EnrolmentRow } from '../core/rows.ts';
import type { Engine } from '../engine/engine.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import type { Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import { parseHostReference } from './host-reference.ts';
import { controlProblem } from './problems.ts';

/** Fingerprints that one answer lists. */
const LISTED_NAMESAKES_MAX = 20;

export interface FoundHost {
  type: 'FoundHost';
  /** Under the key that the host has now. */
  row: EnrolmentRow;
  /** Whether a key was named that it has given up. */
  isFormerKey: boolean;
}

/** The host, or the reply that says why there is none. Synchronous: what is done to the host is done to this one. */
export function findHost(text: string, engine: Engine): FoundHost | Reply {
  const reference = parseHostReference(text);
  switch (reference?.type) {
    case undefined:
      return problemReply('BAD_REQUEST', 'a host is named by its fingerprint, its public key or its name');
    case 'Fingerprint':
      return foundByKey(engine.keyOfFingerprint(reference.fingerprint), engine);
    case 'Key':
      return foundByKey(reference.hostPubkey, engine);
    case 'Name': {
      const carriers = engine.carriers(reference.name);
      const [row] = carriers;
      if (!row)
        return controlProblem(
          'UNKNOWN_HOST',
          'no host carries this name that is not revoked: poste relay hosts --all lists every one',
        );
      if (carriers.length === 1) return { type: 'FoundHost', row, isFormerKey: false };
      const some = carriers.slice(0, LISTED_NAMESAKES_MAX);
      const listed = some.map(({ hostPubkey }) => displayFingerprint(hostPubkey)).toSorted();
      const detail = `${carriers.length} hosts carry this name, so say which by its fingerprint: ${listed.join(', ')}`;
      return controlProblem('AMBIGUOUS_HOST', detail, { fingerprints: listed });
    }
  }
}

function foundByKey(key: PublicKey | undefined, engine: Engine): FoundHost | Reply {
  const present = key && engine.presentKey(key);
  const row = present && engine.enrolment(present);
  if (!row)
    return controlProblem(
      'UNKNOWN_HOST',
      'no host was ever admitted under this key: poste relay hosts --all lists every one',
    );
  return { type: 'FoundHost', row, isFormerKey: row.hostPubkey !== key };
}
