/**
 * Ids as people give them: whole, or the first characters, as tables show them, or the last ones. What may mean several
 * ids is refused with all of them.
 */
import { idsLike, severalIdsText } from '../../host/core/short-ids.ts';
import { CommandFailed } from './exit.ts';
import { shortIds } from './table.ts';

/** An id that may be meant, and what tells a person which one it is. */
export interface Candidate {
  id: string;
  about: string;
}

/** The id that the text is, begins or ends; undefined for none. Throws `CommandFailed` when it may mean several. */
export function idMeant(text: string, candidates: readonly Candidate[]): string | undefined {
  const ids = idsLike(
    text,
    candidates.map(({ id }) => id),
  );
  const [id] = ids;
  if (id === undefined || ids.length === 1) return id;
  const about = new Map(candidates.map((one) => [one.id, one.about]));
  const shown = shortIds(ids).map((short, at) => `${short} (${about.get(ids[at] ?? '')})`);
  throw new CommandFailed('conflict', 'AMBIGUOUS_ID', severalIdsText(text, ids, shown), { candidates: ids });
}

/** A whole one has 43 characters behind the colon. */
const FINGERPRINT_START = /^SHA256:[A-Za-z0-9+/]{4,42}$/;

/** True when the text may be the first characters of a fingerprint. It is no name of a host: those have no colon. */
export function isFingerprintStart(text: string): boolean {
  return FINGERPRINT_START.test(text);
}

interface NamedHost {
  host: string;
  fingerprint: string;
}

/**
 * The whole fingerprint, where the text is the first characters of one; a text of another kind as it is. Throws
 * `CommandFailed` when none of these hosts is meant, or several are.
 */
export function fingerprintMeant(text: string, hosts: readonly NamedHost[]): string {
  if (!isFingerprintStart(text)) return text;
  const candidates = hosts.map(({ host, fingerprint }) => ({ id: fingerprint, about: host }));
  const meant = idMeant(text, candidates);
  if (meant !== undefined) return meant;
  const remedy = 'list the hosts (poste peer list, poste relay hosts) to see which are';
  const message = `no host is known whose fingerprint begins with ${text}: ${remedy}`;
  throw new CommandFailed('notFound', 'UNKNOWN_HOST', message);
}
