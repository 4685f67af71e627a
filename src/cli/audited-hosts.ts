/** Which keys an operator means by a host, in a store that is looked into, and how its hosts are called. */
import { foldHostName } from '../protocol/names.ts';
import { printable } from '../protocol/printable.ts';
import { type PublicKey, displayFingerprint, hostFingerprint } from '../protocol/public-key.ts';
import type { HostCalled } from '../relay/audit/event-words.ts';
import { parseHostReference } from '../relay/control/host-reference.ts';
import type { EnrolmentRow } from '../relay/core/rows.ts';
import type { OfflineStore } from '../relay/store/offline.ts';
import { CommandFailed } from './exit.ts';

const FINGERPRINT_CHARACTERS = 8;

/** The enrolments that the store has; none where they cannot be read, as verify will tell. */
export async function enrolmentsOf({ store }: OfflineStore): Promise<EnrolmentRow[]> {
  try {
    return await store.enrolments();
  } catch {
    return [];
  }
}

/** `laptop/YGR2P3Va`: the name and the first characters of the fingerprint, of which a stranger chose the name. */
export function hostsCalled(enrolments: readonly EnrolmentRow[]): HostCalled {
  const names = new Map(enrolments.map(({ hostPubkey, hostName }) => [hostPubkey, hostName]));
  return (key) => {
    const fingerprint = displayFingerprint(key);
    const name = names.get(key);
    if (name === undefined) return fingerprint;
    return `${printable(name)}/${fingerprint.slice('SHA256:'.length).slice(0, FINGERPRINT_CHARACTERS)}`;
  };
}

/** Every key of every host that is meant: a host is the keys that rotations joined. Throws `CommandFailed`. */
export function keysMeant(text: string, enrolments: readonly EnrolmentRow[]): Set<PublicKey> {
  const keys = keysFound(text, enrolments);
  if (keys.size > 0) return keys;
  throw new CommandFailed(
    'notFound',
    'UNKNOWN_HOST',
    `no host is known as ${printable(text)}: give a fingerprint, a public key or a name that an enrolment in the store has`,
  );
}

/** As `keysMeant`, and none where there is no such host. */
export function keysFound(text: string, enrolments: readonly EnrolmentRow[]): Set<PublicKey> {
  const reference = parseHostReference(text);
  const isMeant = (key: PublicKey, name: EnrolmentRow['hostName']): boolean => {
    switch (reference?.type) {
      case 'Fingerprint':
        return hostFingerprint(key) === reference.fingerprint;
      case 'Key':
        return key === reference.hostPubkey;
      case 'Name':
        return foldHostName(name) === foldHostName(reference.name);
      default:
        return false;
    }
  };
  const meant = enrolments.filter(({ hostPubkey, hostName }) => isMeant(hostPubkey, hostName));
  const keys = new Set(meant.map(({ hostPubkey }) => hostPubkey));
  if (reference?.type === 'Key') keys.add(reference.hostPubkey);
  for (let before = -1; before < keys.size; ) {
    before = keys.size;
    for (const { hostPubkey, rotatedTo } of enrolments) {
      if (rotatedTo === null || !(keys.has(hostPubkey) || keys.has(rotatedTo))) continue;
      keys.add(hostPubkey).add(rotatedTo);
    }
  }
  return keys;
}
