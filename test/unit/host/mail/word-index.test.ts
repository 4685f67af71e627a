import { describe, expect, test } from 'vitest';
import { systemTimers } from '../../../../src/lib/clock.ts';
import type { SearchResult } from '../../../../src/host/contract/mail.ts';
import { type MailQuery, isInState, isMeantBy, parseMailQuery } from '../../../../src/host/core/mail-query.ts';
import { type Address, MESSAGE_KINDS, OWNER_ID } from '../../../../src/host/core/rows.ts';
import { MailLook, foundPage, searchMail } from '../../../../src/host/mail/search.ts';
import { indexWords, keepWords } from '../../../../src/host/mail/word-index.ts';
import { isOwed } from '../../../../src/host/mailbox/debts.ts';
import { advanceEntry, dropEntry, newMessage, storeMessage } from '../../../../src/host/mailbox/mailbox.ts';
import { BLOCK_POSITIONS, BLOCK_TERMS_MAX } from '../../../../src/host/mailbox/word-blocks.ts';
import { accepted } from '../../../support/mail-context.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { IS_THOROUGH } from '../../../support/thorough.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const WORDS = ['build', 'builder', 'flaky', 'test', 'Ärger', '東京都', 'src/mail.ts', 'the', 'the'];
const FROM = ['alice@here', 'bob@there', 'bob@elsewhere'];

/** Puts messages into the owner's mailbox, an hour apart. */
async function fill(context: TestContext, count: number, random: SeededRandom, word?: string): Promise<void> {
  await context.store.transact((tx) => {
    for (let at = 0; at < count; at++) {
      context.clock.nowMs += 3_600_000;
      const body = word ?? Array.from({ length: random.below(8) }, () => random.pick(WORDS)).join(' ');
      const given = {
        from: random.pick(FROM) as Address,
        fromAgent: null,
        to: ['owner@here' as Address],
        subject: random.pick(WORDS),
        kind: random.pick(MESSAGE_KINDS),
        needsReply: random.chance(0.1),
        origin: 'agent',
        refs: [],
        replyTo: null,
      } as const;
      const message = newMessage(tx, context, { ...given, to: [...given.to], refs: [] }, body, null);
      storeMessage(tx, context, message, body, [{ agentId: OWNER_ID, forwardedFrom: null }]);
    }
  });
}

async function change(context: TestContext, from: number, until: number, random: SeededRandom): Promise<void> {
  await context.store.transact((tx) => {
    for (let position = from; position < until; position++) {
      const entry = tx.get('entry', OWNER_ID, position);
      if (!entry) continue;
      if (random.chance(0.3)) advanceEntry(tx, OWNER_ID, position, random.pick(['read', 'acked']), context.nowMs());
      else if (random.chance(0.1)) dropEntry(tx, OWNER_ID, position, entry);
    }
  });
}

async function index(context: TestContext, steps = Infinity): Promise<void> {
  let left = steps;
  for await (const _ of indexWords(context)) if (--left <= 0) break;
}

const blocksOf = (context: TestContext): Promise<number[]> =>
  context.store.read(async (reader) => (await reader.keys('wordBlock', [OWNER_ID])).map(([, block]) => block));

async function termsIn(context: TestContext): Promise<string[]> {
  return (await rowsOf(context.store, 'wordChunk', [])).flatMap(({ terms }) => terms);
}

async function found(context: TestContext, text: string, limit = 100): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const page: SearchResult = accepted(
      await searchMail(context, OWNER_ID, { text, limit, ...(cursor !== null && { cursor }) }),
    );
    expect(page.summaries.length).toBe(page.next_cursor === null ? page.summaries.length : limit);
    ids.push(...page.summaries.map(({ message_id }) => message_id));
    cursor = page.next_cursor;
  } while (cursor !== null);
  return ids;
}

/** By reading everything. */
function meant(context: TestContext, text: string): Promise<string[]> {
  const query = parseMailQuery(text);
  if (typeof query === 'string') throw new Error(query);
  return context.store.read(async (reader) => {
    const ids: string[] = [];
    for await (const { key, row } of reader.range('entry', [OWNER_ID], { reverse: true })) {
      const message = reader.get('message', row.ref)!;
      if (!isInState(row, query.state) || row.storedAtMs < query.sinceMs || row.storedAtMs >= query.untilMs) continue;
      if (query.needsReply === true && !isOwed(reader, OWNER_ID, key[1])) continue;
      if (isMeantBy(query, message, () => reader.get('body', row.ref)!)) ids.push(row.ref);
    }
    return ids;
  });
}

const QUERIES = [
  'build',
  'buil the',
  '"builder"',
  '"the test"',
  '京都',
  'ärger flaky',
  'mail.ts',
  'subject:flaky',
  'from:bob',
  'from:bob@there is:unread',
  'kind:task the is:unacked',
  'is:needs-reply',
  'is:needs-reply flaky',
  'is:unread',
  'after:2025-11-25 before:2025-12-09',
  'before:2025-12-01 test',
  'to:owner after:2025-12-12',
];

describe('a search', () => {
  test.each(IS_THOROUGH ? [1, 2, 3, 4] : [1])(
    'finds what reading everything finds, however much of the index there is (seed %i)',
    async (seed) => {
      const context = await testContext();
      const random = new SeededRandom(seed);
      await fill(context, 3 * BLOCK_POSITIONS + random.below(200), random);
      await index(context, random.below(60));
      await change(context, 1, random.below(900), random);
      await fill(context, random.below(300), random);
      const expected: string[][] = [];
      for (const text of QUERIES) expected.push(await meant(context, text));
      for (let round = 0; round < 2; round++) {
        for (const [at, text] of QUERIES.entries()) {
          const limits = IS_THOROUGH ? [100, 30] : [round === 0 ? 30 : 100];
          for (const limit of limits) expect([text, await found(context, text, limit)]).toEqual([text, expected[at]]);
        }
        await index(context);
      }
    },
  );
});

test.each([
  ['of what is read', BLOCK_POSITIONS - 2, BLOCK_POSITIONS - 2],
  ['of blocks of the index', 12 * BLOCK_POSITIONS - 1, 12],
])('a search gives the loop back after each time slice: %s', async (_what, messages, slices) => {
  const context = await testContext();
  await fill(context, messages, new SeededRandom(1), 'word');
  await index(context);
  // Whenever the search looks at the clock, a slice is over.
  const slow = { ...context, monotonicMs: () => (context.clock.nowMs += 5) };
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    if (isOver) return;
    turns++;
    setImmediate(turn);
  };
  turn();
  expect(accepted(await searchMail(slow, OWNER_ID, { text: 'word nothing' })).summaries).toEqual([]);
  isOver = true;
  expect(turns).toBeGreaterThanOrEqual(slices);
});

test('a search shows the mailbox as it was when it began, whatever changes while it looks', async () => {
  const context = await testContext();
  const random = new SeededRandom(1);
  await fill(context, BLOCK_POSITIONS + 50, random, 'word');
  await index(context);
  const text = 'word is:unread';
  const before = await meant(context, text);
  const shown = await context.store.read(async (reader) => {
    const look = new MailLook(context, reader, OWNER_ID, parseMailQuery(text) as MailQuery);
    const { found: all } = await foundPage(look, { before: undefined, limit: 1000 }, async ({ position }) => {
      if (position !== BLOCK_POSITIONS + 20) return false;
      // Some were shown, and the rest of the newest ones and a block of the index are still to come.
      await fill(context, 3, random, 'word');
      await context.store.transact((tx) => {
        for (const at of [7, 9, BLOCK_POSITIONS + 10]) dropEntry(tx, OWNER_ID, at, tx.get('entry', OWNER_ID, at)!);
        for (const at of [8, BLOCK_POSITIONS + 9]) advanceEntry(tx, OWNER_ID, at, 'read', context.nowMs());
      });
      return false;
    });
    return all.map(({ message }) => message.ref);
  });
  expect(shown).toEqual(before);
  expect(await found(context, text)).toEqual(await meant(context, text));
  expect((await meant(context, text)).length).toBe(before.length + 3 - 5);
});

test.each(['nothing', 'nothing is:unread'])('one answer to %j reads a part of the index', async (text) => {
  const context = await testContext();
  await fill(context, 4 * BLOCK_POSITIONS - 1, new SeededRandom(1));
  await index(context);
  const next = (before: number): Promise<number | null> =>
    context.store.read(async (reader) => {
      // A block has its row, and here one chunk; the look may read four.
      const look = new MailLook(context, reader, OWNER_ID, parseMailQuery(text) as MailQuery, 2);
      return (await foundPage(look, { before, limit: 1 })).next;
    });
  expect(await next(4 * BLOCK_POSITIONS)).toBe(2 * BLOCK_POSITIONS);
  expect(await next(2 * BLOCK_POSITIONS)).toBeNull();
});

describe('the index', () => {
  test('has each full block once, also when its making ended at any step, and the newest first', async () => {
    const context = await testContext();
    await fill(context, 3 * BLOCK_POSITIONS, new SeededRandom(1));
    // 32 messages a step, and the step that writes; block 2 and what the newest has.
    await index(context, BLOCK_POSITIONS / 32 + 3);
    expect(await blocksOf(context)).toEqual([2]);
    await index(context, 5);
    expect(await blocksOf(context)).toEqual([2]);
    await index(context);
    expect(await blocksOf(context)).toEqual([0, 1, 2]);
    await index(context, 1);
    expect(await blocksOf(context)).toEqual([0, 1, 2]);
  });

  test('loses the words of a message in the transaction that deletes it', async () => {
    const context = await testContext();
    await fill(context, 100, new SeededRandom(1), 'secret');
    await fill(context, BLOCK_POSITIONS, new SeededRandom(1), 'open');
    await index(context);
    expect(await termsIn(context)).toContain('secret');
    await context.store.transact((tx) => {
      for (let at = 1; at <= 100; at++) dropEntry(tx, OWNER_ID, at, tx.get('entry', OWNER_ID, at)!);
    });
    expect(await termsIn(context)).toEqual([]);
    await index(context);
    expect(await termsIn(context)).toContain('open');
    expect(await termsIn(context)).not.toContain('secret');
    await context.store.transact((tx) => {
      for (let at = 101; at < 357; at++) dropEntry(tx, OWNER_ID, at, tx.get('entry', OWNER_ID, at)!);
    });
    await index(context);
    expect(await blocksOf(context)).toEqual([]);
  });

  test('of a block that loses a message while it is made is made the next time', async () => {
    const context = await testContext();
    await fill(context, BLOCK_POSITIONS, new SeededRandom(1), 'secret');
    let isDropped = false;
    for await (const _ of indexWords(context)) {
      if (isDropped) continue;
      isDropped = true;
      await context.store.transact((tx) => dropEntry(tx, OWNER_ID, 1, tx.get('entry', OWNER_ID, 1)!));
    }
    expect(await blocksOf(context)).toEqual([]);
    await index(context);
    expect(await blocksOf(context)).toEqual([0]);
  });

  test('proposes a message with more words than it takes for every search', async () => {
    const context = await testContext();
    const many = Array.from({ length: 6000 }, (_, at) => `n${at}`).join(' ');
    await fill(context, 1, new SeededRandom(1), many);
    await fill(context, BLOCK_POSITIONS, new SeededRandom(1), 'few');
    await index(context);
    expect(await termsIn(context)).not.toContain('n5999');
    expect(await found(context, 'n5999')).toHaveLength(1);
  });

  test('that was made by other rules is not used, and made again', async () => {
    const context = await testContext();
    await fill(context, BLOCK_POSITIONS, new SeededRandom(1), 'needle');
    await index(context);
    const terms = await termsIn(context);
    await context.store.transact((tx) => {
      const row = tx.get('wordBlock', OWNER_ID, 0)!;
      tx.put('wordBlock', [OWNER_ID, 0], { ...row, rules: 'of before', firsts: ['o', 'p'] });
      for (const at of [0, 1]) tx.put('wordChunk', [OWNER_ID, 0, at], { terms: ['o'], places: Buffer.from([0, 1]) });
    });
    expect(await found(context, 'needle')).toHaveLength(BLOCK_POSITIONS);
    await index(context);
    expect(await termsIn(context)).toEqual(terms);
  });

  test('takes a bounded number of terms, and reads so much at once: what is left out is found', async () => {
    const context = await testContext();
    const words = Array.from({ length: 80_000 }, (_, at) => `n${at}`);
    const bodies = Array.from({ length: 20 }, (_, at) => words.slice(at * 4000, (at + 1) * 4000).join(' '));
    for (const body of bodies) await fill(context, 1, new SeededRandom(1), body);
    for (let at = 0; at < 8; at++) await fill(context, 1, new SeededRandom(1), 'x'.repeat(200_000));
    await fill(context, BLOCK_POSITIONS, new SeededRandom(1), 'few');
    let steps = 0;
    for await (const _ of indexWords(context)) steps++;
    expect(steps).toBeGreaterThan(8 + BLOCK_POSITIONS / 32);
    const terms = await termsIn(context);
    expect(terms.length).toBeLessThanOrEqual(BLOCK_TERMS_MAX);
    expect(terms).toContain('n1');
    expect(terms).not.toContain('n79999');
    for (const word of ['n1', 'n79999']) expect(await found(context, `"${word}"`)).toHaveLength(1);
  });

  test('ends at once with the daemon, also while its making rests', async () => {
    const context = await testContext();
    await fill(context, BLOCK_POSITIONS, new SeededRandom(1));
    // No timer of these ends by itself.
    const timers = new ManualTimers();
    const words = keepWords(context, timers);
    await timers.begun(0);
    await words.stop();
    expect(await blocksOf(context)).toEqual([]);
  });

  test('is made while the daemon runs, as soon as a block is full', async () => {
    const context = await testContext();
    await fill(context, BLOCK_POSITIONS, new SeededRandom(1));
    const words = keepWords(context, systemTimers);
    await words.idle;
    expect(await blocksOf(context)).toEqual([0]);
    await fill(context, BLOCK_POSITIONS, new SeededRandom(1));
    await words.idle;
    await words.stop();
    expect(await blocksOf(context)).toEqual([0, 1]);
  });
});
