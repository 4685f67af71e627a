/**
 * Texts that people read never say "1 items": a number before a plural is written by `countText` or `spanText`.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const SOURCES = join(import.meta.dirname, '../../src');

/** The things that this program counts in its texts. Times and sizes, which are large, are not among them. */
const PLURALS =
  'agents|backups|batches|checkpoints|connections|conversations|copies|deny entries|enrolments|entries|envelopes|' +
  'epochs|events|files|hosts|invites|items|keys|leaves|messages|mailboxes|notices|others|peers|queues|receipts|' +
  'recipients|records|relays|rows|senders|sessions|standbys|tables|times|tokens';
/**
 * Finds a placeholder, an adjective or none, and a plural: `${count} waiting items`. Attributes in JSX do not count.
 */
const NUMBER_AND_PLURAL = new RegExp(
  String.raw`\$\{((?:[^{}${'`'}]|\{[^{}]*\})*)\} ((?:(?!from |of |for |holds )[a-z]+ )?(?:${PLURALS}))\b(?!=)`,
  'g',
);

/** Limits, which are never 1, and what writes the count with its noun. */
const NEVER_ONE = /[mM]ax$|^[A-Z_]+$|countText\(/;

/** Never 1, as the lines around them say. */
const ALLOWED = [
  'cli/relay/doctor/process-checks.ts: ${files} files',
  'cli/relay/log-verify.ts: ${perSecond(events, elapsedMs)} events',
  'host/core/doorbell.ts: ${unread} unread messages',
  'host/mail/post.ts: ${targets.length} agents',
  'relay/operator/hosts.ts: ${carriers.length} hosts',
];

/** `countText(items, 'item')} are`: the verb is wrong for one. */
const COUNT_AND_VERB = /countText\([^()]*(?:\([^()]*\)[^()]*)*\)\} (?:are|were|have|wait|need|come|go)\b/g;

function foundIn(text: string): string[] {
  const whole = text.replaceAll(/[`'"] \+\s+[`'"]/g, '');
  const joined = whole.replaceAll(/\s*\n\s*/g, ' ');
  const plurals = [...joined.matchAll(NUMBER_AND_PLURAL)].filter(([, value = '']) => !NEVER_ONE.test(value));
  return [...plurals, ...joined.matchAll(COUNT_AND_VERB)].map(([found]) => found);
}

test('no text has a number before a word that is wrong for 1', () => {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' });
  const read = files.filter((name) => name.endsWith('.ts'));
  expect(read.length).toBeGreaterThan(300);
  const found = read.flatMap((name) =>
    foundIn(readFileSync(join(SOURCES, name), 'utf8')).map((text) => `${name}: ${text}`),
  );
  expect([...new Set(found)].toSorted()).toEqual(ALLOWED);
});

test.each([
  ['`${count} items`', '${count} items'],
  ['`Delete ${rows.length} waiting items of it?`', '${rows.length} waiting items'],
  ["`${sum({ of: 'it' })} hosts`", "${sum({ of: 'it' })} hosts"],
  ["`${countText(count, 'item')} are lost`", "countText(count, 'item')} are"],
])('the test finds %s', (text, found) => {
  expect(foundIn(text)).toEqual([found]);
});

test.each([
  "`${countText(count, 'item')} of it`",
  '`at most ${LISTED_MAX} senders`',
  '`${items} from relays`',
  '`${what} of hosts`',
])('%s is fine', (text) => {
  expect(foundIn(text)).toEqual([]);
});
