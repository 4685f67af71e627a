import { expect, test } from 'vitest';
import type { Address, MessageRef, PeerId } from '../../../../src/host/core/rows.ts';
import type { SentResult } from '../../../../src/host/contract/sent-mail.ts';
import { newMessage } from '../../../../src/host/mailbox/mailbox.ts';
import { listSent, SHOWN_RECIPIENTS_MAX } from '../../../../src/host/mail/sent.ts';
import { accepted, idOf, contextOf } from '../../../support/mail-context.ts';

test('a page of messages that went to very many ends early, and every message is on some page', async () => {
  const context = await contextOf(['eve']);
  const eve = await idOf(context, 'eve');
  const recipients = Array.from({ length: SHOWN_RECIPIENTS_MAX / 2 }, (_, at) => ({
    address: `a${at}@there` as Address,
    agentId: null,
    peerId: 'p' as PeerId,
    state: 'pending' as const,
    atMs: 1,
    seq: 0,
    steps: [{ state: 'pending' as const, atMs: 1 }],
  }));
  const refs: MessageRef[] = [];
  for (let count = 0; count < 5; count++) {
    context.clock.nowMs++;
    await context.store.transact((tx) => {
      const from = 'eve@here' as Address;
      const said = {
        subject: 's',
        kind: 'status',
        needsReply: false,
        origin: 'agent',
        refs: [],
        replyTo: null,
      } as const;
      const message = newMessage(tx, context, { from, fromAgent: eve, to: [], ...said, refs: [] }, '', null);
      const { ref, createdAtMs } = message;
      tx.put('message', [ref], message);
      tx.put('sent', [ref], { ref, agentId: eve, createdAtMs, recipients, threadPosition: null });
      tx.put('sentBy', [eve, createdAtMs, ref], true);
      refs.unshift(ref);
    });
  }
  const pages: string[][] = [];
  let cursor: string | null = null;
  do {
    const page: SentResult = accepted(await listSent(context, eve, cursor === null ? {} : { cursor }));
    pages.push(page.messages.map(({ message_id }) => message_id));
    cursor = page.next_cursor;
  } while (cursor !== null);
  expect(pages).toEqual([refs.slice(0, 2), refs.slice(2, 4), refs.slice(4)]);
});
