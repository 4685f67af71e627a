/** What `poste relay hosts` chooses of the hosts of a relay, in which order, and as which table. */
import { type PublicKey, displayFingerprint } from '../protocol/public-key.ts';
import { foldHostName } from '../protocol/names.ts';
import { printable } from '../protocol/printable.ts';
import type { HostDocument } from '../relay/control/documents.ts';
import { type Column, table, timeText } from './text.ts';

export interface HostFilter {
  /** `*` stands for any text and `?` for one character; letters of either case are the same. */
  name: string | undefined;
  account: string | undefined;
  /** `live`: not revoked. `revoked`: revoked or rotated. */
  which: 'live' | 'revoked' | 'all';
}

/** By name, then the oldest first. */
export function chosenHosts(hosts: readonly HostDocument[], filter: HostFilter): HostDocument[] {
  const isNamed = namePattern(filter.name ?? '*');
  return hosts
    .filter(({ host, account, revoked_at }) => {
      if (filter.which !== 'all' && (revoked_at === null) !== (filter.which === 'live')) return false;
      return isNamed(host) && (filter.account === undefined || account === filter.account);
    })
    .toSorted((a, b) => {
      const [first, second] = [foldHostName(a.host), foldHostName(b.host)];
      if (first !== second) return first < second ? -1 : 1;
      return a.enrolled_at - b.enrolled_at || (a.host_pubkey < b.host_pubkey ? -1 : 1);
    });
}

const COLUMNS: readonly Column<HostDocument>[] = [
  { title: 'NAME', cell: ({ host }) => printable(host) },
  { title: 'FINGERPRINT', cell: ({ fingerprint }) => fingerprint },
  { title: 'ACCOUNT', cell: ({ account }) => (account === null ? '-' : printable(account)) },
  { title: 'AUTHORITY', cell: ({ authorized_by }) => printable(authorized_by) },
  { title: 'ENROLLED', cell: ({ enrolled_at }) => timeText(enrolled_at) },
  { title: 'STATE', cell: stateText },
  { title: 'ITEMS', cell: ({ queue_items }) => String(queue_items), isNumber: true },
  { title: 'BYTES', cell: ({ queue_bytes }) => String(queue_bytes), isNumber: true },
  { title: 'ACKED', cell: ({ acked_through }) => String(acked_through), isNumber: true },
];

export function hostTable(hosts: readonly HostDocument[]): string {
  return table(COLUMNS, hosts);
}

export function stateText({ state, valid_until, revoked_at, rotated_to }: HostDocument): string {
  if (state === 'rotated') return `rotated to ${fingerprintOf(rotated_to)}`;
  if (state === 'revoked') return `revoked ${timeText(revoked_at ?? Number.NaN)}`;
  return state === 'expired' ? `expired token ${timeText(valid_until ?? Number.NaN)}` : 'live';
}

function fingerprintOf(key: PublicKey | null): string {
  return key === null ? 'another key' : displayFingerprint(key);
}

function namePattern(pattern: string): (name: string) => boolean {
  const wanted = foldHostName(pattern);
  return (name) => isMatch(wanted, foldHostName(name));
}

/** In time that grows with pattern times name: after a star, only the last star is tried again. */
function isMatch(pattern: string, name: string): boolean {
  let at = 0;
  let star = -1;
  let retry = 0;
  for (let from = 0; from < name.length; ) {
    if (pattern[at] === '*') {
      star = at++;
      retry = from;
    } else if (pattern[at] === '?' || pattern[at] === name[from]) {
      at++;
      from++;
    } else if (star >= 0) {
      at = star + 1;
      from = ++retry;
    } else return false;
  }
  while (pattern[at] === '*') at++;
  return at === pattern.length;
}
