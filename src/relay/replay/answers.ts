/**
 * The answers of a rehearsal (relay/rehearsal.ts), and how those of two versions of this software differ. Pure.
 *
 * Of every member of an answer, at any depth, its hash is kept: mail leaves no rehearsal. A member that only the newer
 * version has is no difference, as readers pass over what they do not know.
 */
import Type, { type Static } from 'typebox';
import { isObject } from '../../protocol/json.ts';
import { canonicalJson } from '../../protocol/documents.ts';
import { sha256Hex } from '../../protocol/encodings.ts';
import { parserOf } from '../../protocol/schemas.ts';

/** Other versions read it, and members may be added: of a member that is not known nothing is said. */
const RehearsalShape = Type.Object({
  /** True when the backup was verified and every answer is what the log says. */
  rehearsed: Type.Boolean(),
  version: Type.String(),
  relay_pubkey: Type.String(),
  epoch: Type.String(),
  lsn: Type.Integer(),
  /** The size of the tree of the epoch, as it was verified. */
  tree_size: Type.Integer(),
  root_hash: Type.String(),
  answers: Type.Array(
    Type.Object({
      asked: Type.String(),
      status: Type.Integer(),
      /** SHA-256 of what stands at each place, as `you.head_seq` and `items[].seq`; `body`: of what is no document. */
      members: Type.Record(Type.String(), Type.String()),
    }),
  ),
});

export type Rehearsal = Static<typeof RehearsalShape>;
export type Answer = Rehearsal['answers'][number];

/** The document of a rehearsal; `undefined` for any other. */
export const parseRehearsal = parserOf(RehearsalShape);

/**
 * Each rehearsal has a key of its own, and its store one more record where a newer version brought it to its schema.
 * The proofs in these members are checked where they are answered.
 */
const OF_ONE_REHEARSAL: ReadonlySet<string> = new Set(['relay_pubkey', 'checkpoint', 'proof', 'version', 'now']);

/** `body` is a parsed document, or the bytes of an answer that is none. */
export function answerOf(asked: string, status: number, body: unknown): Answer {
  const document = isDocument(body) ? Object.fromEntries(Object.entries(body).filter(isOfBackup)) : { body };
  const members = placesIn([document]).map(([place, values]) => [place, sha256Hex(canonicalJson(values))]);
  return { asked, status, members: Object.fromEntries(members) as Answer['members'] };
}

function isOfBackup([name]: [string, unknown]): boolean {
  return !OF_ONE_REHEARSAL.has(name);
}

/**
 * Returns the values at each place below these ones, which all stand at `place`: one list of a member of all elements
 * of a list, so that there are no more places than members have names. A value that lacks a member is `undefined`
 * there.
 */
function placesIn(values: readonly unknown[], place = ''): [place: string, values: unknown][] {
  const present = values.filter((value) => value !== undefined);
  if (present.length === 0) return [];
  if (present.every(isDocument)) {
    const names = new Set(present.flatMap((value) => Object.keys(value)));
    const ofEach = (name: string): unknown[] => values.map((value) => (isDocument(value) ? value[name] : undefined));
    return [...names].flatMap((name) => placesIn(ofEach(name), place === '' ? name : `${place}.${name}`));
  }
  if (present.every((value) => Array.isArray(value))) {
    const lengths = values.map((value) => (Array.isArray(value) ? value.length : null));
    return [[place, lengths], ...placesIn(present.flat(), `${place}[]`)];
  }
  return [
    [place, values.map((value) => (value === undefined ? [] : [Buffer.isBuffer(value) ? sha256Hex(value) : value]))],
  ];
}

function isDocument(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !Buffer.isBuffer(value);
}

export interface Comparison {
  /** Each a sentence without its period. */
  differences: string[];
  /** Members that only the newer version answers. */
  added: string[];
}

/** Says how the newer version differs from the older one. Both are of one backup. */
export function compareRehearsals(newer: Rehearsal, older: Rehearsal): Comparison {
  const differences: string[] = [];
  const added = new Set<string>();
  for (const name of ['tree_size', 'root_hash'] as const)
    if (newer[name] !== older[name]) differences.push(`the versions verified another ${name} of the log`);
  const answered = new Map(newer.answers.map((answer) => [answer.asked, answer]));
  for (const { asked, status, members } of older.answers) {
    const now = answered.get(asked);
    answered.delete(asked);
    if (!now) differences.push(`${asked}: only the older version came to ask it`);
    else if (now.status !== status)
      differences.push(`${asked}: answered with ${now.status}, and before with ${status}`);
    else {
      const { gone, other, more } = membersCompared(now.members, members);
      for (const name of gone) differences.push(`${asked}: ${name} is not answered any more`);
      for (const name of other) differences.push(`${asked}: ${name} is another`);
      for (const name of more) added.add(name);
    }
  }
  for (const asked of answered.keys()) differences.push(`${asked}: only the newer version came to ask it`);
  return { differences, added: [...added] };
}

type Members = Answer['members'];

function membersCompared(now: Members, before: Members): Record<'gone' | 'other' | 'more', string[]> {
  const names = Object.keys(before);
  return {
    gone: names.filter((name) => now[name] === undefined),
    other: names.filter((name) => now[name] !== undefined && now[name] !== before[name]),
    more: Object.keys(now).filter((name) => before[name] === undefined),
  };
}
