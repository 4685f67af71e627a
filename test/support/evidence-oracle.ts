/**
 * A second reader of exported evidence, written from RFC 9162, C2SP signed-note and C2SP tlog-checkpoint alone: it has
 * none of the code under test. It knows what the project adds to them: the origin of a log, the line `after`,
 * `knew`, and the first leaf of an epoch.
 */
import { type KeyObject, createHash, createPublicKey, verify } from 'node:crypto';

export type OracleVerdict = 'contradict' | 'agree' | 'cannot-tell' | 'no-evidence';

interface Head {
  epoch: string;
  size: bigint;
  root: string;
}

interface Note extends Head {
  bytes: string;
  after: string | undefined;
}

export interface EvidenceDocument {
  notes: string[];
  knew?: string[];
  proof?: (LinkAnswer | ConsistencyAnswer)[];
}

/** `key`: the 32 bytes of the relay's key in base64. */
export function oracleVerdict(document: EvidenceDocument, key: string): OracleVerdict {
  const notes = document.notes.map((note) => readNote(note, key));
  if (!notes.every((note) => note !== undefined)) return 'no-evidence';
  const { proof: answers = [] } = document;
  const links = answers.flatMap((answer) => ('record_b64' in answer ? (readLink(answer, key) ?? []) : []));
  const heads: Head[] = [...notes, ...links.flatMap((link) => link.heads)];
  const joins = [
    ...links.flatMap(({ heads: [first, ...others] }) => others.map((other): [Head, Head] => [first!, other])),
    ...answers.flatMap((answer) => ('from' in answer ? joinsOf(answer, heads) : [])),
  ];
  const knowns = (document.knew ?? []).map((text) => Buffer.from(text, 'base64'));
  const knows = (note: Note, other: Note): boolean =>
    knowns.some((knew) => {
      const entries = [16, 48, 80, 112].map((at) => knew.subarray(at, at + 32).toString('hex'));
      return sha256(knew).toString('base64') === note.after && entries.includes(sha256(other.bytes).toString('hex'));
    });
  const isAfter = (note: Note, other: Note, through: readonly Note[] = []): boolean =>
    knows(note, other) ||
    notes.some((next) => !through.includes(next) && knows(note, next) && isAfter(next, other, [...through, next]));
  const isBefore = (epoch: string, other: string, seen: readonly string[] = []): boolean =>
    links.some(
      ({ of, previous }) =>
        of === other && !seen.includes(of) && (previous === epoch || isBefore(epoch, previous ?? '', [...seen, of])),
    );
  const isFork = heads.some((a) => heads.some((b) => isSameSize(a, b) && a.root !== b.root));
  const isDisorder = notes.some((n) =>
    notes.some((c) => {
      if (!isAfter(n, c)) return false;
      if (n.epoch === c.epoch) return n.size < c.size;
      return isBefore(n.epoch, c.epoch) || notes.some((m) => m.epoch === n.epoch && isAfter(c, m));
    }),
  );
  if (isFork || isDisorder) return 'contradict';
  return new Set(document.notes).size > 1 && isOne(notes, joins) ? 'agree' : 'cannot-tell';
}

function isSameSize(a: Head, b: Head): boolean {
  return a.epoch === b.epoch && a.size === b.size;
}

function isOne(notes: readonly Head[], joins: readonly (readonly [Head, Head])[]): boolean {
  const name = ({ epoch, size, root }: Head): string => `${epoch} ${size} ${root}`;
  let groups: Set<string>[] = [];
  for (const join of [...notes.map((note) => [note]), ...joins]) {
    const names = join.map(name);
    const touched = groups.filter((group) => names.some((one) => group.has(one)));
    const joined = new Set(names);
    for (const group of touched) for (const one of group) joined.add(one);
    groups = [...groups.filter((group) => !touched.includes(group)), joined];
  }
  return groups.some((group) => notes.every((note) => group.has(name(note))));
}

/** C2SP signed-note: a text, an empty line, and signature lines; tlog-checkpoint: origin, size, root, extensions. */
function readNote(note: string, key: string): Note | undefined {
  const end = note.lastIndexOf('\n\n');
  const text = note.slice(0, end + 1);
  const [origin = '', size = '', root = '', ...extensions] = text.slice(0, -1).split('\n');
  const [prefix, fingerprint, epoch = ''] = origin.split('/');
  const keyBytes = Buffer.from(key, 'base64');
  if (end === -1 || prefix !== 'poste' || fingerprint !== sha256(keyBytes).toString('hex')) return undefined;
  const keyId = sha256(origin, '\n', Buffer.of(1), keyBytes).subarray(0, 4);
  const own = note
    .slice(end + 2, -1)
    .split('\n')
    .filter((line) => {
      const [dash, name, base64 = ''] = line.split(' ');
      const signature = Buffer.from(base64, 'base64');
      return (
        dash === '\u2014' &&
        name === origin &&
        signature.subarray(0, 4).equals(keyId) &&
        isSignedBy(keyBytes, text, signature.subarray(4))
      );
    });
  if (own.length === 0) return undefined;
  const after = extensions[0]?.startsWith('after ') ? extensions[0].slice(6) : undefined;
  return { epoch, size: BigInt(size), root, after, bytes: `${text}\n${own[0]}\n` };
}

/** By their bytes in hex: a key object takes as long to make as a signature to verify. */
const keyObjects = new Map<string, KeyObject>();

/** Ed25519 by the 32 bytes of the key. */
export function isSignedBy(key: Buffer, text: string, signature: Buffer): boolean {
  const name = key.toString('hex');
  const spki = Buffer.from(`302a300506032b6570032100${name}`, 'hex');
  const object = keyObjects.get(name) ?? createPublicKey({ key: spki, format: 'der', type: 'spki' });
  keyObjects.set(name, object);
  return verify(null, Buffer.from(text), object, signature);
}

export interface LinkAnswer {
  checkpoint: string;
  index: number;
  record_b64: string;
  proof: string[];
}

interface Link {
  of: string;
  previous: string | undefined;
  heads: Head[];
}

function readLink({ checkpoint, index, record_b64: record, proof }: LinkAnswer, key: string): Link | undefined {
  const under = readNote(checkpoint, key);
  const leaf = Buffer.from(record, 'base64');
  const hash = sha256(Buffer.of(0), leaf);
  const path = proof.map((one) => Buffer.from(one, 'base64'));
  if (!under || index !== 0 || !isIncluded(0n, hash, under, path)) return undefined;
  const { epoch: of, previous } = JSON.parse(leaf.toString()) as {
    epoch: string;
    previous: { epoch: string; size: number; root_hash: string } | null;
  };
  const heads: Head[] = [under, { epoch: of, size: 1n, root: hash.toString('base64') }];
  if (!previous) return { of, previous: undefined, heads };
  const root = Buffer.from(previous.root_hash, 'hex').toString('base64');
  return { of, previous: previous.epoch, heads: [...heads, { ...previous, size: BigInt(previous.size), root }] };
}

/** RFC 9162, section 2.1.3.2. */
function isIncluded(leafIndex: bigint, leafHash: Buffer, { size, root }: Head, path: readonly Buffer[]): boolean {
  if (leafIndex >= size) return false;
  let fn = leafIndex;
  let sn = size - 1n;
  let r = leafHash;
  for (const p of path) {
    if (sn === 0n) return false;
    if ((fn & 1n) === 1n || fn === sn) {
      r = sha256(Buffer.of(1), p, r);
      while ((fn & 1n) === 0n && fn !== 0n) [fn, sn] = [fn >> 1n, sn >> 1n];
    } else r = sha256(Buffer.of(1), r, p);
    [fn, sn] = [fn >> 1n, sn >> 1n];
  }
  return sn === 0n && r.toString('base64') === root;
}

export interface ConsistencyAnswer {
  epoch: string;
  from: number;
  to: number;
  proof: string[];
}

function joinsOf({ epoch, from, to, proof }: ConsistencyAnswer, heads: readonly Head[]): [Head, Head][] {
  const [olds, news] = [from, to].map((size) =>
    heads.filter((one) => one.epoch === epoch && one.size === BigInt(size)),
  );
  const path = proof.map((one) => Buffer.from(one, 'base64'));
  return olds!.flatMap((a) => news!.flatMap((b): [Head, Head][] => (isConsistent(a, b, path) ? [[a, b]] : [])));
}

/** RFC 9162, section 2.1.4.2. */
function isConsistent(first: Head, second: Head, proof: readonly Buffer[]): boolean {
  if (first.size === second.size) return proof.length === 0 && first.root === second.root;
  if (first.size === 0n || proof.length === 0) return false;
  const isPowerOfTwo = (first.size & (first.size - 1n)) === 0n;
  const path = isPowerOfTwo ? [Buffer.from(first.root, 'base64'), ...proof] : [...proof];
  let fn = first.size - 1n;
  let sn = second.size - 1n;
  while ((fn & 1n) === 1n) [fn, sn] = [fn >> 1n, sn >> 1n];
  let fr = path[0]!;
  let sr = path[0]!;
  for (const c of path.slice(1)) {
    if (sn === 0n) return false;
    if ((fn & 1n) === 1n || fn === sn) {
      fr = sha256(Buffer.of(1), c, fr);
      sr = sha256(Buffer.of(1), c, sr);
      while ((fn & 1n) === 0n && fn !== 0n) [fn, sn] = [fn >> 1n, sn >> 1n];
    } else sr = sha256(Buffer.of(1), sr, c);
    [fn, sn] = [fn >> 1n, sn >> 1n];
  }
  return sn === 0n && fr.toString('base64') === first.root && sr.toString('base64') === second.root;
}

function sha256(...parts: (Uint8Array | string)[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}
