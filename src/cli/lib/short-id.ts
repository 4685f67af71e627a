/**
 * Ids as people give them: whole, or the first characters, as tables show them. What begins several ids is refused,
 * with those that it may mean.
 */
import { CommandFailed } from './exit.ts';
import { shortIds } from './table.ts';

/** An id that may be meant, and what tells a person which one it is. */
export interface Candidate {
  id: string;
  about: string;
}

/** The id that the text is or begins; undefined for none. Throws `CommandFailed` when it begins several. */
export function idMeant(text: string, candidates: readonly Candidate[]): string | undefined {
  const different = new Map(candidates.filter(({ id }) => id.startsWith(text)).map((one) => [one.id, one]));
  if (different.size < 2 || different.has(text)) return different.get(text)?.id ?? [...different.keys()][0];
  const meant = [...different.values()];
  const shown = shortIds(meant.map(({ id }) => id)).map((id, at) => `${id} (${meant[at]?.about})`);
  const message = `several ids begin with ${text}: ${shown.join(', ')}; give more of the one that you mean`;
  throw new CommandFailed('conflict', 'AMBIGUOUS_ID', message, { candidates: [...different.keys()] });
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
  throw new CommandFailed(
    'notFound',
    'UNKNOWN_HOST',
    `no host is known whose fingerprint begins with ${text}: list the hosts (poste peer list, poste relay hosts) ` +
      'to see which are',
  );
}
