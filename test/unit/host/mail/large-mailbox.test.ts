/** A hundred thousand messages in one mailbox, in the thorough run; `npm run bench -- mailbox` measures the same. */
import { expect, test } from 'vitest';
import { type Address, OWNER_ID } from '../../../../src/host/core/rows.ts';
import { searchMail } from '../../../../src/host/mail/search.ts';
import { indexWords } from '../../../../src/host/mail/word-index.ts';
import { advanceEntry, newMessage, storeMessage } from '../../../../src/host/mailbox/mailbox.ts';
import { accepted } from '../../../support/mail-context.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { testContext } from '../../../support/test-context.ts';
import { share } from '../../../support/thorough.ts';

/** `npm test` tries what a short time allows: more than one answer reads without an index. */
const MESSAGES = share(40_000) * 2.5;
const BATCH = 500;
/** An answer is to take 100 ms: a machine that does much else takes some times as long. */
const ANSWER_MS_MAX = 1000;

test(`${MESSAGES} messages are searched in one answer`, { timeout: 600_000 }, async () => {
  const context = await testContext();
  const random = new SeededRandom(1);
  for (let done = 0; done < MESSAGES; done += BATCH) {
    await context.store.transact((tx) => {
      for (let at = 0; at < BATCH; at++) {
        const body = Array.from({ length: 20 }, () => `w${Math.floor(20_000 ** random.unit())}x`).join(' ');
        const number = done + at;
        const given = { subject: 's', kind: 'message', origin: 'agent', replyTo: null, fromAgent: null } as const;
        const from = (number % 1000 === 0 ? 'rare@there' : 'often@there') as Address;
        const to = ['owner@here' as Address];
        const parts = { ...given, from, to, refs: [], needsReply: number % 365 === 0 };
        const text = number === 7 ? `${body} needle` : body;
        const message = newMessage(tx, context, parts, text, null);
        const [stored] = storeMessage(tx, context, message, text, [{ agentId: OWNER_ID, forwardedFrom: null }]);
        if (number % 4 > 0) advanceEntry(tx, OWNER_ID, stored?.position ?? 0, 'read', context.nowMs());
      }
    });
  }
  for await (const _ of indexWords(context));
  for (const [text, count] of [
    ['needle', 1],
    ['w1x', 50],
    ['w1x w9x', 50],
    ['from:rare is:unread', Math.min(50, Math.ceil(MESSAGES / 1000))],
    ['is:needs-reply', Math.min(50, Math.ceil(MESSAGES / 365))],
  ] as const) {
    const before = performance.now();
    const { summaries, next_cursor } = accepted(await searchMail(context, OWNER_ID, { text }));
    const tookMs = performance.now() - before;
    expect([text, summaries.length, next_cursor === null]).toEqual([text, count, count < 50]);
    expect(tookMs).toBeLessThan(ANSWER_MS_MAX);
  }
});
