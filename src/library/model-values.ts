/** Defines what the naive model keeps, and what it counts and compares it by. */
import { type PublicKey, hostFingerprint } from '../protocol/public-key.ts';
import type { DenyHosts, PushItem } from '../relay/core/command.ts';
import type { RelaySettings } from '../relay/core/decision.ts';
import type { AuthorityName, UsageRow } from '../relay/core/rows.ts';

/** An enrolment has what an authority proved, with its name and age. */
export interface ModelEnrolment {
  key: PublicKey;
  name: string;
  account: string | null;
  org: string | null;
  clientId: string | null;
  authorizedBy: AuthorityName;
  validUntilMs: number | null;
  enrolledAtMs: number;
  isRevoked: boolean;
  seen: boolean;
  invited: boolean;
}

/** The keys that rotations joined, and the one that the host has now. */
export interface ModelHost {
  keys: Set<PublicKey>;
  present: PublicKey;
}

export interface ModelItem {
  sender: PublicKey;
  /** The key it was pushed to, and the seq that its sender was told. */
  pushedTo: PublicKey;
  toldSeq: number;
  /** The queue that it was in last, and its seq there. */
  target: PublicKey;
  seq: number;
  itemId: string;
  wire: string;
  acceptedAtMs: number;
  expiresAtMs: number;
  dedupUntilMs: number;
  isNotice: boolean;
  isForgotten: boolean;
}

export type Selectors = Pick<DenyHosts, 'hostFp' | 'clientId' | 'account' | 'org'>;

/** The model says this of a push: for each target the seqs that may be answered. */
export interface ModelPush {
  verdict: string;
  seqs: number[][];
}

export function rejection(code: string): ModelPush {
  return { verdict: `rejected:${code}`, seqs: [] };
}

/** Says whether every selector that is there is true of the host. */
export function isMeant(entry: Selectors, keys: ReadonlySet<PublicKey>, claims: Omit<Selectors, 'hostFp'>): boolean {
  if (entry.hostFp !== null && ![...keys].some((key) => hostFingerprint(key) === entry.hostFp)) return false;
  const names = ['clientId', 'account', 'org'] as const;
  return names.every((name) => entry[name] === null || entry[name] === claims[name]);
}

export function isSameEntry(a: Selectors, b: Selectors): boolean {
  const names = ['hostFp', 'clientId', 'account', 'org'] as const;
  return names.every((name) => a[name] === b[name]);
}

/** No quota is charged for notices. */
export function usageOf(all: readonly ModelItem[]): UsageRow {
  const items = all.filter(({ isNotice }) => !isNotice);
  return { items: items.length, bytes: items.reduce((sum, { wire }) => sum + wire.length, 0) };
}

export function haveSame(a: ReadonlySet<PublicKey>, b: ReadonlySet<PublicKey>): boolean {
  return a.size === b.size && [...a].every((key) => b.has(key));
}

export function plus(usage: UsageRow, items: number, bytes: number): UsageRow {
  return { items: usage.items + items, bytes: usage.bytes + bytes };
}

interface ModelMail {
  items: readonly ModelItem[];
  waiting: readonly ModelItem[];
  enrolments: ReadonlyMap<PublicKey, ModelEnrolment>;
}

/** Strangers share a half of what mail may take, and each may have of it as much as it leaves to others. */
export function takesTooMuch(
  sender: PublicKey,
  keys: ReadonlySet<PublicKey>,
  added: PushItem['item']['targets'],
  { items, waiting, enrolments }: ModelMail,
  { admission, mailBudgetBytes: budget = Infinity }: RelaySettings,
): boolean {
  const isVouchedFor = (key: PublicKey): boolean => {
    const enrolment = enrolments.get(key);
    return enrolment !== undefined && (enrolment.account !== null || enrolment.invited);
  };
  const takenBy = (isOne: (key: PublicKey) => boolean): number => {
    const remembered = items.filter((item) => isOne(item.sender) && !item.isForgotten && !item.isNotice);
    return usageOf(waiting.filter((item) => isOne(item.sender))).bytes + 512 * remembered.length;
  };
  const left = Math.min(budget / 2 - takenBy((key) => !isVouchedFor(key)), budget - takenBy(() => true));
  const bytes = added.reduce((sum, { wire }) => sum + wire.length + 512, 0);
  return admission !== 'invite' && !isVouchedFor(sender) && takenBy((key) => keys.has(key)) + bytes > left - bytes;
}
