/** What is wrong with a world at its end: a lie that was not seen, a false word, mail that is lost, too many pushes. */
import type { EvidenceKind, EvidenceRow } from '../../../src/host/core/relay-trust.ts';
import { evidenceDocument } from '../../../src/host/outbox/relay-evidence.ts';
import { checkEvidence } from '../../../src/relay/replay/evidence-check.ts';
import { type EvidenceDocument, oracleVerdict } from '../evidence-oracle.ts';
import type { ModelHost } from './model-host.ts';
import { LIES, type Lie, type World } from './model-worlds.ts';

export const NOT_SEEN = 'the lie was not seen';
export const MAIL_LOST = 'mail is lost';
export const TOO_OFTEN = 'all was pushed again too often';
export const NEEDLESS_EPOCH = 'an honest relay began an epoch because of a note';
export const FALSE_WORD = 'an honest relay was said to be';

/** What a lie may be called. A row that is not in the log, or a proof that is refused, follows from any of them. */
const NAMES: Readonly<Record<Lie, readonly EvidenceKind[]>> = {
  fork: ['fork', 'withheld', 'unproven'],
  'fork, refused': ['fork', 'withheld', 'unproven', 'not-in-log'],
  shrink: ['fork', 'withheld', 'set-back-unsaid', 'unproven', 'not-in-log'],
  freeze: ['not-in-log', 'withheld'],
  'cut link': ['unproven', 'not-in-log'],
  'epoch fork': ['two-epochs'],
  'left out': ['not-in-log'],
  'fork healed': ['fork', 'withheld', 'set-back-unsaid', 'unproven', 'not-in-log'],
  rewrite: ['fork', 'unproven', 'not-in-log'],
  'see-saw': ['set-back-unsaid', 'withheld', 'unproven', 'not-in-log', 'fork'],
  'old epoch again': ['set-back-unsaid', 'two-epochs', 'unproven', 'not-in-log', 'fork'],
  'copy put back': ['fork', 'set-back-unsaid', 'withheld', 'two-epochs', 'unproven', 'not-in-log'],
};

/** Times that all is pushed again in a history: two hours, and for a push that waited up to a day more. */
const PUSHED_AGAIN_MAX = 8;

const knows = ({ evidence }: ModelHost): boolean => evidence.length > 0;

export function isMissed(kind: Lie, { hosts, victims, isToBeSeen }: World): boolean {
  const lied = hosts.filter(({ name }) => victims.includes(name));
  switch (kind) {
    case 'fork':
    case 'fork, refused':
    case 'epoch fork':
      return isToBeSeen && !hosts.every(knows);
    case 'shrink':
    case 'freeze':
    case 'left out':
    case 'see-saw':
      return isToBeSeen && !lied.every(knows);
    case 'rewrite':
    case 'old epoch again':
    case 'cut link':
      return isToBeSeen && !hosts.some(knows);
    // The mail counts: nobody need know.
    case 'fork healed':
      return lied.some((host) => isUndelivered(host, hosts));
    case 'copy put back':
      return false;
  }
}

function isUndelivered({ rows }: ModelHost, hosts: readonly ModelHost[]): boolean {
  const isLost = (id: Parameters<ModelHost['received']['has']>[0]) => hosts.every(({ received }) => !received.has(id));
  return [...rows.values()].some(({ item, isDone }) => item.receiptOf === undefined && !isDone && isLost(item.id));
}

/** Says where a reader who has only the relay's key finds no contradiction in evidence that the host calls signed. */
function unprovenBy(row: EvidenceRow): string[] {
  if (!row.isSigned) return [];
  const document = evidenceDocument(row);
  const verdicts = [
    checkEvidence(document, row.relayPubkey).verdict,
    oracleVerdict(document as EvidenceDocument, row.relayPubkey),
  ];
  return verdicts.every((verdict) => verdict === 'contradict') ? [] : [`evidence of ${row.kind} is ${verdicts.join()}`];
}

/** Rows of one kind, with notes of the same hosts and as many proofs, are read alike, and a fork has dozens of them. */
function oneOfEachShape(evidence: readonly EvidenceRow[]): Iterable<EvidenceRow> {
  return new Map(evidence.map((row) => [shapeOf(row), row])).values();
}

function shapeOf({ kind, isSigned, notes, proof }: EvidenceRow): string {
  return JSON.stringify([kind, isSigned, notes.map(({ knew, peerId }) => [knew === null, peerId]), proof.length]);
}

/** What is wrong with a world, in words. */
export function faultsOf(world: World): string[] {
  const { kind, relay, hosts } = world;
  const lie = LIES.find((one) => one === kind);
  const words = new Set(hosts.flatMap((host) => host.words));
  const faults: string[] = [];
  if (!lie && kind !== 'careless') {
    for (const word of words) faults.push(`${FALSE_WORD}: ${word}`);
    if (relay.epochsOfNotes > 0) faults.push(NEEDLESS_EPOCH);
  }
  if ((!lie || lie === 'copy put back') && hosts.some((host) => isUndelivered(host, hosts))) faults.push(MAIL_LOST);
  if (lie && isMissed(lie, world)) faults.push(NOT_SEEN);
  if (lie) for (const word of words) if (!NAMES[lie].includes(word)) faults.push(`the lie was called ${word}`);
  for (const { evidence } of hosts) for (const row of oneOfEachShape(evidence)) faults.push(...unprovenBy(row));
  const pushedMax = kind === 'copy put back' ? 2 : PUSHED_AGAIN_MAX;
  if (hosts.some(({ pushedAgain }) => pushedAgain > pushedMax)) faults.push(TOO_OFTEN);
  return faults;
}
