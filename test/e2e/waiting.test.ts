/** An agent waits for mail in a call of mail_inbox: `poste mcp` as a process, the official client, a daemon. */
import type { CallToolResult, Client } from '@modelcontextprotocol/client';
import { describe, expect, test } from 'vitest';
import type { InboxInput, InboxResult, SendInput, SendResult } from '../../src/host/contract/mail.ts';
import { type ConnectedMcp, connectMcp } from '../support/mcp-client.ts';
import { type PosteHome, posteHome } from '../support/poste-home.ts';

const ANSWERED = 'It waits for mail in mail_inbox: this answered its call.';

async function withAgents(here: PosteHome): Promise<ConnectedMcp> {
  for (const name of ['eve', 'bob']) await here.client.call('add-agent', { name });
  return connectMcp(here.environment, ['--agent', 'bob']);
}

type Waiting = Promise<InboxResult>;

/** Resolves when the daemon has the call, with what will be the answer. */
async function wait(client: Client, given: InboxInput = {}): Promise<{ answer: Waiting }> {
  const input = { wait_seconds: 50, ...given } as Record<string, unknown>;
  const answer = client
    .callTool({ name: 'mail_inbox', arguments: input })
    .then(({ structuredContent }: CallToolResult) => structuredContent as InboxResult);
  answer.catch(() => undefined);
  // Each is a call to the daemon behind the one that waits.
  for (let count = 0; count < 3; count++) await client.callTool({ name: 'mail_agents', arguments: {} });
  return { answer };
}

async function send(
  { client }: PosteHome,
  given: Partial<SendInput> = {},
): Promise<{ id: string; status: string | undefined; detail: string | undefined }> {
  const input = { to: ['bob'], subject: 's', body: 'b', kind: 'status' as const, ...given };
  const { recipients, message_id: id }: SendResult = await client.call('mail-send', input, { as: 'eve' });
  return { id, status: recipients[0]?.status, detail: recipients[0]?.detail };
}

function ids({ summaries = [] }: InboxResult): string[] {
  return summaries.map(({ message_id }) => message_id);
}

describe('mail_inbox that waits', () => {
  test('mail of any kind answers it, in both of two calls, and its sender is told so', async () => {
    const here = await posteHome();
    await here.daemon();
    const { client } = await withAgents(here);
    const [one, two] = [await wait(client), await wait(client)];
    const first = await send(here);
    expect(first).toMatchObject({ status: 'live-wake', detail: ANSWERED });
    expect(ids(await one.answer)).toEqual([first.id]);
    expect(ids(await two.answer)).toEqual([first.id]);
    const [sent] = (await here.client.call('mail-sent', {}, { as: 'eve' })).messages;
    expect(sent?.recipients).toMatchObject([{ state: 'notified' }]);

    await client.callTool({ name: 'mail_inbox', arguments: { action: 'mark_read', message_ids: [first.id] } });
    const again = await wait(client);
    expect(await send(here, { kind: 'request' })).toMatchObject({ status: 'live-wake', detail: ANSWERED });
    expect(await again.answer).toMatchObject({ unread: 1 });
  });

  test('the answer to one message ends the wait for it, other mail does not', async () => {
    const here = await posteHome();
    await here.daemon();
    const { client } = await withAgents(here);
    const question = { to: ['eve'], subject: 's', body: 'b', kind: 'request' as const };
    const { message_id } = await here.client.call('mail-send', question, { as: 'bob' });
    const { answer } = await wait(client, { reply_to: message_id });
    expect(await send(here)).toMatchObject({ status: 'offline' });
    const reply = await here.client.call('mail-reply', { message_id, body: 'yes' }, { as: 'eve' });
    expect(reply.recipients).toMatchObject([{ status: 'live-wake', detail: ANSWERED }]);
    expect(ids(await answer)).toEqual([reply.message_id]);
  });

  test('a client that is killed, or takes the answer but stands still, is no claim', async () => {
    const here = await posteHome();
    await here.daemon();
    const { client, process } = await withAgents(here);
    const stopped = await wait(client);
    process.signal('SIGSTOP');
    const kept = await send(here);
    expect(kept).toMatchObject({ status: 'offline' });
    process.signal('SIGCONT');
    // It was not lost: it comes to the call that was under way.
    expect(ids(await stopped.answer)).toEqual([kept.id]);
    await client.callTool({ name: 'mail_inbox', arguments: { action: 'mark_read', message_ids: [kept.id] } });

    await wait(client);
    await process.kill();
    expect(await send(here)).toMatchObject({ status: 'offline' });
    const [last] = (await here.client.call('mail-sent', {}, { as: 'eve' })).messages;
    expect(last?.recipients).toMatchObject([{ state: 'delivered' }]);
  });

  test('a daemon that stops ends it in order, and says so', async () => {
    const here = await posteHome();
    const daemon = await here.daemonProcess();
    const { client } = await withAgents(here);
    const { answer } = await wait(client);
    daemon.signal('SIGTERM');
    expect(await answer).toMatchObject({ summaries: [], wait: 'the daemon stops' });
    expect((await daemon.ended()).code).toBe(0);
  });
});
