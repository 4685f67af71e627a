/** All of a mailbox, page by page. */
import type { InboxInput, InboxResult, MessageSummary } from '../../src/host/contract/mail.ts';

/** Every message, newest first. `inbox` asks for one page. */
export async function wholeMailbox(inbox: (input: InboxInput) => Promise<InboxResult>): Promise<MessageSummary[]> {
  const all: MessageSummary[] = [];
  let cursor: string | undefined;
  do {
    const page: InboxResult = await inbox({ state: 'all', limit: 100, ...(cursor !== undefined && { cursor }) });
    all.push(...(page.summaries ?? []));
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  return all;
}
