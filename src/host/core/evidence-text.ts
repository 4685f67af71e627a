/** Evidence against a relay: what it means for this host, and in words for the owner. Pure. */
import { assertNever } from '../../lib/assert-never.ts';
import { countText } from './spans.ts';
import type { EvidenceKind, EvidenceRow } from './relay-trust.ts';
import type { PeerId } from './rows.ts';

const TWO_HISTORIES: ReadonlySet<EvidenceKind> = new Set(['fork', 'set-back-unsaid', 'withheld', 'two-epochs']);

/** Says whether it shows, by what the relay signed, that it has two histories; the owner has not dismissed it. */
export function showsTwoHistories(row: EvidenceRow): boolean {
  return row.dismissedAtMs === null && TWO_HISTORIES.has(row.kind) && row.isSigned;
}

/** Says whether it rests on what a paired host says: this relay does not sign the order of its notes. */
function isTestimony({ kind, isSigned, notes }: EvidenceRow): boolean {
  return TWO_HISTORIES.has(kind) && !isSigned && notes.some(({ peerId }) => peerId !== null);
}

/** Says whether the owner gets a message of it: once an epoch and kind, and for no testimony. */
export function isToAlert(row: EvidenceRow, known: readonly EvidenceRow[]): boolean {
  const isAlike = ({ epoch, kind }: EvidenceRow): boolean => epoch === row.epoch && kind === row.kind;
  return !isTestimony(row) && !known.some((other) => isAlike(other) && !isTestimony(other));
}

/** The name of a paired host. */
export type HostOf = (peerId: PeerId) => string;

/** The paired hosts that notes of it came from. */
export function hostsOf({ notes }: EvidenceRow, hostOf: HostOf): string[] {
  return [...new Set(notes.flatMap(({ peerId }) => (peerId === null ? [] : hostOf(peerId))))];
}

/** A whole sentence, and another one where it rests on what a paired host says. */
export function evidenceText(row: EvidenceRow, hostOf: HostOf): string {
  const sentence = `The relay ${evidenceClause(row, hostOf)}.`;
  if (!isTestimony(row)) return sentence;
  const said = `the word of ${hostNames(row, hostOf)}: the relay does not sign in which order it shows its log`;
  return `${sentence} This rests on ${said}.`;
}

function hostNames(row: EvidenceRow, hostOf: HostOf): string {
  return hostsOf(row, hostOf).join(' and ') || 'another host';
}

/** What the relay did. */
export function evidenceClause(row: EvidenceRow, hostOf: HostOf): string {
  const { kind, epoch, item } = row;
  switch (kind) {
    case 'fork':
      return `signed two histories of its epoch ${epoch}`;
    case 'set-back-unsaid':
      return `went back to an earlier state of its log, in epoch ${epoch}, and did not begin a new epoch`;
    case 'withheld':
      return `showed ${hostNames(row, hostOf)} more of its epoch ${epoch} than it showed this host later`;
    case 'two-epochs':
      return `shows this host another epoch than it shows ${hostNames(row, hostOf)}, and calls each the newer one`;
    case 'unproven':
      return `does not prove that its log goes on from what it signed before, in epoch ${epoch}`;
    case 'not-in-log':
      return `signed that it accepted the item ${item?.itemId ?? ''}, and says that its log has no such item`;
    default:
      return assertNever(kind);
  }
}

const SUBJECT: Readonly<Record<'unproven' | 'not-in-log', string>> = {
  unproven: 'A relay that does not prove its log',
  'not-in-log': 'A relay that left accepted mail out of its log',
};

/** What may have happened. From outside nobody can tell which. */
const CAUSES: Readonly<Record<'unproven' | 'not-in-log', string>> = {
  unproven: 'Either its operator hides something, or something on the way keeps its proofs from this host.',
  'not-in-log': 'Either its operator left it out, or lost it. This host sends such mail again.',
};

/** For an operator's mistake looks like a lie. */
export const TWO_CAUSES =
  'either its operator lies, or somebody put a copy of its store back without poste relay rotate-epoch';

interface Alerted {
  /** The address of the relay, or its fingerprint. */
  relay: string;
  /** As `poste relay evidence` numbers it. */
  number: number;
  hostOf: HostOf;
}

/** The message to the owner. */
export function evidenceAlert(row: EvidenceRow, { relay, number, hostOf }: Alerted): { subject: string; body: string } {
  const { kind } = row;
  const isWord = kind === 'unproven' || kind === 'not-in-log';
  const way = isWord ? '' : ' Mail goes on, over the LAN where that reaches the other host.';
  const more =
    `Ask its operator, who can check what poste relay evidence export ${number} <file> writes. ` +
    `poste relay evidence dismiss ${number} ends this warning.`;
  return {
    subject: `${isWord ? SUBJECT[kind] : 'A relay with two histories'}: ${relay}`,
    body: `${evidenceText(row, hostOf)} ${isWord ? CAUSES[kind] : `E${TWO_CAUSES.slice(1)}.`}${way} ${more}`,
  };
}

interface SetBack {
  epoch: string;
  signed: number;
  goesOnFrom: number;
}

/** The message to the owner about a relay that says itself that its store was set back: that is no offence. */
export function setBackReport(
  { epoch, signed, goesOnFrom }: SetBack,
  relay: string,
): { subject: string; body: string } {
  const before = `${countText(signed, 'record')} of epoch ${epoch}`;
  return {
    subject: `The relay was set back: ${relay}`,
    body:
      `It had signed ${before} and goes on from ${goesOnFrom} in a new epoch, as it says itself. ` +
      'This host sends again what nobody has confirmed.',
  };
}
