/**
 * Checks offline whether notes that a relay signed contradict each other: a document of evidence, as a host exports it.
 *
 * Pure. It believes nothing that the relay did not sign. `kind` is what the host called it. An entry of `knew` counts
 * for the note whose line `after` is its hash, and an answer of `log/link` or `log/consistency` counts when it verifies
 * under a head that is signed.
 *
 * A relay that keeps to one history never signs
 *   - two roots for one epoch and size, in notes or in the links of later epochs;
 *   - as its newest note one with fewer leaves of an epoch than an earlier note has;
 *   - as its newest note one of an epoch that it had left, as its earlier notes or the link of a later epoch show.
 */
import { decodeBase64, type Sha256Hex } from '../../protocol/encodings.ts';
import { type Checkpoint, plainNote } from '../../protocol/checkpoint.ts';
import { type RelayEvidence, RelayEvidenceShape } from '../../protocol/evidence.ts';
import type { LogLink } from '../../protocol/log-link.ts';
import { leafHash, verifyConsistency } from '../../protocol/merkle.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { afterOf, knewHolds, noteHash } from '../../protocol/seen.ts';
import { isObject } from '../../protocol/json.ts';
import { consistencyOf, leavesText, linkIn, NotVerified, openNote, provenLeaf, relayKeyOf } from './proof-check.ts';

/** `cannot-tell`: the notes do not contradict each other, and nothing shows that they are of one history either. */
export type Verdict = 'contradict' | 'agree' | 'cannot-tell';

export interface CheckedEvidence {
  relayPubkey: PublicKey;
  /** The name that its finder gave it. */
  kind: string;
  verdict: Verdict;
  /** `after`: the numbers of the notes, from 1, that it was signed after. */
  notes: { epoch: string; size: number; root_hash: string; after: number[] }[];
  /** Whole sentences that say what the notes and the proofs show. */
  findings: string[];
}

/** A root that the relay signed for the first `size` leaves of an epoch, and where. */
interface Head {
  epoch: string;
  size: number;
  root: string;
  /** Its name in sentences: `note 1`. */
  source: string;
}

interface SignedNote extends Checkpoint {
  /**
   * The hash of the note without the signatures of others, which hosts keep; a note of another form is in no `knew`.
   */
  hash: Sha256Hex | undefined;
  knew: Buffer | undefined;
}

interface ProvenLink {
  link: LogLink;
  heads: Head[];
}

const parseEvidence = parserOf(RelayEvidenceShape);

/** `relayKey`: the key that is trusted, or its fingerprint `SHA256:…`. Throws `NotVerified`. */
export function checkEvidence(document: unknown, relayKey: string): CheckedEvidence {
  const evidence = parseEvidence(document);
  if (!evidence) throw new NotVerified('the document has not the members of relay-evidence, version 1');
  const relayPubkey = relayKeyOf(evidence.relay_pubkey, relayKey, 'the evidence');
  const notes = signedNotes(evidence, relayPubkey);
  const order = signedOrder(notes);
  const { links, joins, unused } = provenBy(evidence.proof ?? [], relayPubkey, notes);
  const heads = [...headsOf(notes), ...links.flatMap((one) => one.heads)];
  const pairs = orderedPairs(notes, order);
  const contradictions = [
    ...twoRoots(heads),
    ...pairs.flatMap(shrunk),
    ...pairs.flatMap((pair) => leftAndNewest(pair, pairs)),
    ...pairs.flatMap((pair) => endedAndNewest(pair, links)),
  ];
  const isOne = new Set(evidence.notes).size > 1 && areJoined(headsOf(notes), [...joins, ...linkJoins(links)]);
  const verdict = contradictions.length > 0 ? 'contradict' : isOne ? 'agree' : 'cannot-tell';
  return {
    relayPubkey,
    kind: evidence.kind,
    verdict,
    notes: notes.map(({ epoch, size, rootHash }, at) => ({
      epoch,
      size,
      root_hash: rootHash.toString('hex'),
      after: notes.flatMap((_, other) => (order[at]?.[other] ? [other + 1] : [])),
    })),
    findings: [...contradictions, ...unused],
  };
}

function signedNotes({ notes, knew = [] }: RelayEvidence, relayPubkey: PublicKey): SignedNote[] {
  const known = knew.flatMap((text) => decodeBase64(text) ?? []);
  return notes.map((note, at) => {
    const checkpoint = openNote(note, relayPubkey, `in note ${at + 1}`);
    const { after } = checkpoint;
    const plain = plainNote(note, relayPubkey);
    return {
      ...checkpoint,
      hash: plain && noteHash(plain.note),
      knew: after && known.find((bytes) => afterOf(bytes).equals(after)),
    };
  });
}

function headsOf(notes: readonly SignedNote[]): Head[] {
  return notes.map((note, at) => headOf(note, `note ${at + 1}`));
}

function headOf({ epoch, size, rootHash }: Checkpoint, source: string): Head {
  return { epoch, size, root: rootHash.toString('hex'), source };
}

/** Says of each note, for each other one, whether it was signed after that, directly or by notes between them. */
function signedOrder(notes: readonly SignedNote[]): boolean[][] {
  const order = notes.map(({ knew }) => notes.map(({ hash }) => Boolean(knew && hash && knewHolds(knew, hash))));
  for (const between of notes.keys()) {
    for (const row of order) if (row[between]) order[between]?.forEach((isAfter, at) => (row[at] ||= isAfter));
  }
  return order;
}

function isLeaf(proof: unknown): boolean {
  return isObject(proof) && Object.hasOwn(proof, 'record_b64');
}

interface ProvenByAnswers {
  links: ProvenLink[];
  /** Pairs of heads that are of one history. */
  joins: [Head, Head][];
  /** Says of each answer that shows nothing why that is. */
  unused: string[];
}

/** Links first: a proof of consistency may lead to the end of an epoch, which only a link names. */
function provenBy(proofs: readonly unknown[], relayPubkey: PublicKey, notes: readonly SignedNote[]): ProvenByAnswers {
  const proven: ProvenByAnswers = { links: [], joins: [], unused: [] };
  const numbered = proofs.map((proof, at) => ({ proof, source: `proof ${at + 1}` }));
  const tried = (source: string, use: () => void): void => {
    try {
      use();
    } catch (error) {
      if (!(error instanceof NotVerified)) throw error;
      proven.unused.push(`The ${source} shows nothing: ${error.message}.`);
    }
  };
  for (const { proof, source } of numbered.filter((one) => isLeaf(one.proof)))
    tried(source, () => proven.links.push(provenLink(proof, relayPubkey, source)));
  const heads = [...headsOf(notes), ...proven.links.flatMap((one) => one.heads)];
  for (const { proof, source } of numbered.filter((one) => !isLeaf(one.proof)))
    tried(source, () => proven.joins.push(consistentHeads(proof, heads)));
  return proven;
}

/** The heads that the answer shows: the one that it is proven under, its own leaf as a tree, and how the last ended. */
function provenLink(proof: unknown, relayPubkey: PublicKey, source: string): ProvenLink {
  const { leaf, index, checkpoint } = provenLeaf(proof, relayPubkey);
  if (index !== 0) throw new NotVerified('it is of no first leaf of an epoch');
  const link = linkIn(leaf, relayPubkey, checkpoint.epoch);
  const heads = [
    headOf(checkpoint, `the checkpoint of ${source}`),
    headOf({ epoch: link.epoch, size: 1, rootHash: leafHash(leaf) }, `the link of ${source}`),
  ];
  if (!link.previous) return { link, heads };
  const { epoch, size, root_hash: root } = link.previous;
  return { link, heads: [...heads, { epoch, size, root, source: `the link of ${source}` }] };
}

function consistentHeads(proof: unknown, heads: readonly Head[]): [Head, Head] {
  const { epoch, ...sizes } = consistencyOf(proof);
  const bytesOf = ({ root }: Head): Buffer => Buffer.from(root, 'hex');
  for (const older of heads.filter((head) => head.epoch === epoch && head.size === sizes.from)) {
    for (const newer of heads.filter((head) => head.epoch === epoch && head.size === sizes.to))
      if (verifyConsistency({ ...sizes, fromRoot: bytesOf(older), toRoot: bytesOf(newer) })) return [older, newer];
  }
  throw new NotVerified('it leads from none of the heads here to another');
}

function linkJoins(links: readonly ProvenLink[]): [Head, Head][] {
  return links.flatMap(({ heads: [first, ...others] }) =>
    others.flatMap((other): [Head, Head][] => (first ? [[first, other]] : [])),
  );
}

function isSameHead(one: Head, other: Head): boolean {
  return one.epoch === other.epoch && one.size === other.size && one.root === other.root;
}

/** Says whether the pairs lead from each of these heads to every other. */
function areJoined(heads: readonly Head[], joins: readonly [Head, Head][]): boolean {
  const reached = heads.slice(0, 1);
  const isReached = (head: Head): boolean => reached.some((one) => isSameHead(one, head));
  for (const at of reached) {
    const next = joins.flatMap(([a, b]) => (isSameHead(a, at) ? [b] : isSameHead(b, at) ? [a] : []));
    for (const head of next) if (!isReached(head)) reached.push(head);
  }
  return heads.every(isReached);
}

function twoRoots(heads: readonly Head[]): string[] {
  return heads.flatMap((head, at) => {
    const { epoch, size, source } = head;
    const first = heads.slice(0, at).find((other) => other.epoch === epoch && other.size === size);
    if (!first || first.root === head.root) return [];
    const what = `the first ${leavesText(size)} of epoch ${epoch}`;
    return [`The relay signed two roots for ${what}: ${first.root} in ${first.source}, ${head.root} in ${source}.`];
  });
}

/** A note and one that it was signed after, with their places. */
interface OrderedPair {
  later: SignedNote;
  earlier: SignedNote;
  at: number;
  other: number;
}

function orderedPairs(notes: readonly SignedNote[], order: readonly (readonly boolean[])[]): OrderedPair[] {
  return notes.flatMap((later, at) =>
    notes.flatMap((earlier, other) => (order[at]?.[other] ? [{ later, earlier, at, other }] : [])),
  );
}

function shrunk({ later, earlier, at, other }: OrderedPair): string[] {
  if (later.epoch !== earlier.epoch || later.size >= earlier.size) return [];
  const grown = `the ${leavesText(earlier.size)} of note ${other + 1}`;
  const said = `The relay signed ${leavesText(later.size)} of epoch ${later.epoch} (note ${at + 1})`;
  return [`${said} as its newest after ${grown}: a log does not shrink.`];
}

function leftAndNewest({ later, earlier, at, other }: OrderedPair, pairs: readonly OrderedPair[]): string[] {
  if (later.epoch === earlier.epoch) return [];
  const before = pairs.find((pair) => pair.at === other && pair.earlier.epoch === later.epoch);
  if (!before) return [];
  const left = `of epoch ${earlier.epoch} as its newest after note ${before.other + 1} of epoch ${later.epoch}`;
  return [`The relay signed note ${other + 1} ${left}, and after that note ${at + 1} of the epoch that it had left.`];
}

function endedAndNewest({ later, earlier, at, other }: OrderedPair, links: readonly ProvenLink[]): string[] {
  if (!epochsBefore(earlier.epoch, links).includes(later.epoch)) return [];
  const ended = `epoch ${later.epoch}, which had ended before epoch ${earlier.epoch} began`;
  return [`The relay signed note ${at + 1} of ${ended}, as its newest after note ${other + 1}.`];
}

/** The epochs that ended before this one began, as far as the links tell. */
function epochsBefore(epoch: string, links: readonly ProvenLink[]): string[] {
  const known = [epoch];
  for (const at of known) {
    const before = links.flatMap(({ link }) => (link.epoch === at && link.previous ? [link.previous.epoch] : []));
    known.push(...before.filter((one) => !known.includes(one)));
  }
  return known.slice(1);
}
