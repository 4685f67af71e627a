/** mail_inbox that waits, as the official client calls it, over both revisions of the protocol. */
import type { Client } from '@modelcontextprotocol/client';
import { describe, expect, test } from 'vitest';
import { SendInput, type SendResult } from '../../../../src/host/contract/mail.ts';
import { parseInput } from '../../../../src/host/contract/parse-input.ts';
import { sendMail } from '../../../../src/host/mail/send.ts';
import { callWaiting, PROGRESS_MS, type WaitingCallParts } from '../../../../src/host/mcp/waiting-call.ts';
import { deferred } from '../../../support/deferred.ts';
import { accepted, idOf } from '../../../support/mail-context.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { REVISIONS } from '../../../support/mcp-client.ts';
import { type ConnectedHere, connectHere, type McpDaemon, mcpDaemon } from '../../../support/mcp-in-process.ts';

const SECONDS = 50;

async function send({ context, wakeAgent }: McpDaemon): Promise<SendResult['recipients'][number] | undefined> {
  const input = accepted(parseInput(SendInput, { to: ['bob'], subject: 's', body: 'b', kind: 'status' }));
  return accepted(await sendMail(context, await idOf(context, 'alice'), input, { wakeAgent })).recipients[0];
}

/** Resolves when bob waits no more. */
async function untilOver({ context }: McpDaemon): Promise<void> {
  const bob = await idOf(context, 'bob');
  await expect.poll(() => context.waits.isWaiting(bob)).toBe(false);
}

test.each([true, false])('the daemon hears whether the answer was written to the client: %s', async (isWritten) => {
  const asked: { name: string; input: unknown; silenceMs?: number | undefined }[] = [];
  const heard = deferred();
  const ask = (name: string, input: unknown, { silenceMs }: { silenceMs?: number } = {}): Promise<object> => {
    asked.push({ name, input, silenceMs });
    if (name === 'wait-heard') heard.resolve();
    return Promise.resolve({ summaries: [{}] });
  };
  const link = { call: ask, callRunning: ask } as never as WaitingCallParts['link'];
  const parts = { link, timers: new ManualTimers(), whenWritten: () => Promise.resolve(isWritten) };
  const request = { id: 1, signal: new AbortController().signal } as Parameters<typeof callWaiting>[1];
  await callWaiting(parts, request, { wait_seconds: SECONDS });
  await heard.promise;
  const [first, second] = asked;
  expect(second).toMatchObject({ name: 'wait-heard', input: { failed: !isWritten } });
  // The daemon is not taken for silent while it waits.
  expect(first?.silenceMs).toBeGreaterThan(SECONDS * 1000);
});

describe.each(REVISIONS)('a call of mail_inbox that waits, over MCP %s', (revision) => {
  async function waiting(
    options: Parameters<Client['callTool']>[1] = {},
  ): Promise<ConnectedHere & { daemon: McpDaemon; answer: ReturnType<Client['callTool']> }> {
    const daemon = await mcpDaemon(['alice', 'bob']);
    const connected = await connectHere(daemon, 'bob', revision, { timers: daemon.timers });
    const input = { name: 'mail_inbox', arguments: { wait_seconds: SECONDS } };
    const answer = connected.client.callTool(input, options);
    await Promise.race([daemon.timers.begun(SECONDS * 1000), answer]);
    return { ...connected, daemon, answer };
  }

  test('answers with the mail that comes, and its sender is told that it did', async () => {
    const { daemon, answer } = await waiting();
    const recipient = await send(daemon);
    expect(recipient).toMatchObject({ status: 'live-wake', detail: expect.stringContaining('waits for mail') });
    expect((await answer).structuredContent).toMatchObject({ unread: 1, summaries: [{ subject: 's' }] });
  });

  test('answers when its time is up', async () => {
    const { daemon, answer } = await waiting();
    daemon.pass(SECONDS * 1000);
    expect((await answer).structuredContent).toMatchObject({ summaries: [], wait: 'time is up' });
    expect(await send(daemon)).toMatchObject({ status: 'offline' });
  });

  test('tells how long it has waited where the client asks for progress, until it is over', async () => {
    const steps: object[] = [];
    let told = deferred();
    const onprogress = (step: object): void => {
      steps.push(step);
      told.resolve();
    };
    const { daemon, answer } = await waiting({ onprogress });
    daemon.timers.pass(PROGRESS_MS);
    await told.promise;
    told = deferred();
    daemon.timers.pass(PROGRESS_MS);
    await told.promise;
    expect(steps).toMatchObject([
      { progress: 5, total: SECONDS },
      { progress: 10, total: SECONDS },
    ]);
    await send(daemon);
    await answer;
    expect(daemon.timers.underWay(PROGRESS_MS)).toBe(0);
  });

  test.each(['cancelled', 'left by its client'])('ends when it is %s, and no sender is told of it', async (end) => {
    const cancelling = new AbortController();
    const { daemon, answer, client } = await waiting({ signal: cancelling.signal });
    const failed = answer.then(
      () => false,
      () => true,
    );
    if (end === 'cancelled') cancelling.abort();
    else await client.close();
    expect(await failed).toBe(true);
    await untilOver(daemon);
    expect(await send(daemon)).toMatchObject({ status: 'offline' });
  });
});
