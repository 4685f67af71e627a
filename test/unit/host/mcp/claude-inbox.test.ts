/** The inbox socket of Claude Code by script: it takes two lines and never answers. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type ClaudeInbox, claudeInboxOf, InboxPoster, REPEAT_MS } from '../../../../src/host/mcp/agent-session.ts';
import { sendMail } from '../../../../src/host/mail/send.ts';
import { PROOF_MS } from '../../../../src/host/wake/wake-methods.ts';
import { processFacts } from '../../../../src/host/wake/processes.ts';
import { accepted, idOf } from '../../../support/mail-context.ts';
import { connectHere, mcpDaemon, type McpDaemon } from '../../../support/mcp-in-process.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { onEvent } from '../../../support/on-event.ts';

const TEXT = 'You have 1 unread message in Poste. Read it with mail_inbox.';
const TOKEN = '0123456789abcdef0123456789abcdef';
const MESSAGE = { type: 'user', message: { role: 'user', content: TEXT } };
const POSTED = `${JSON.stringify({ type: 'auth', token: TOKEN })}\n${JSON.stringify(MESSAGE)}\n`;
const yes = (): Promise<boolean> => Promise.resolve(true);

/** The whole text of each connection. */
async function claudeSocket(): Promise<{ inbox: ClaudeInbox; posts: string[] }> {
  const socket = join(await temporaryFolder(), 'claude.sock');
  const posts: string[] = [];
  const server = createServer((connection) => {
    let text = '';
    connection.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    connection.on('end', () => {
      if (text !== '') posts.push(text);
    });
  });
  server.listen(socket);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { inbox: { socket, token: TOKEN }, posts };
}

describe('the inbox of Claude Code', () => {
  test('is named by the environment of its children, and not used in a session that nobody attends', () => {
    const environment = { CLAUDE_CODE_MESSAGING_SOCKET: '/s', CLAUDE_CODE_MESSAGING_TOKEN: 't' };
    expect(claudeInboxOf({}, true)).toBeUndefined();
    expect(claudeInboxOf({ ...environment, CLAUDE_CODE_MESSAGING_TOKEN: '' }, false)).toBeUndefined();
    expect(claudeInboxOf({ ...environment, CLAUDE_CODE_ENTRYPOINT: 'cli' }, false)).toEqual({
      socket: '/s',
      token: 't',
    });
    const unattended = { ...environment, CLAUDE_CODE_ENTRYPOINT: 'sdk-cli' };
    expect(claudeInboxOf(unattended, false)).toBeUndefined();
    expect(claudeInboxOf(unattended, true)).toEqual({ socket: '/s', token: 't' });
  });

  test('gets two lines and the end, with nothing but the token and the text', async () => {
    const { inbox, posts } = await claudeSocket();
    expect(await new InboxPoster(inbox).post(TEXT, yes)).toBe('posted');
    expect(posts).toEqual([POSTED]);
  });

  test('gets no text twice within the time in which Claude Code drops it', async () => {
    const { inbox, posts } = await claudeSocket();
    let nowMs = 0;
    const poster = new InboxPoster(inbox, () => nowMs);
    expect(await poster.post(TEXT, yes)).toBe('posted');
    nowMs += REPEAT_MS - 1;
    expect(await poster.post(TEXT, yes)).toBe('failed');
    expect(await poster.post('You have 2 unread messages in Poste. Read them with mail_inbox.', yes)).toBe('posted');
    nowMs += REPEAT_MS;
    expect(await poster.post(TEXT, yes)).toBe('posted');
    expect(posts).toHaveLength(3);
  });

  test('gets nothing when the daemon wants the doorbell no more', async () => {
    const { inbox, posts } = await claudeSocket();
    const poster = new InboxPoster(inbox);
    expect(await poster.post(TEXT, () => Promise.resolve(false))).toBe('not wanted');
    expect(await poster.post(TEXT, yes)).toBe('posted');
    expect(posts).toEqual([POSTED]);
  });

  test('that is gone fails at once, and asks nobody', async () => {
    const inbox = { socket: join(await temporaryFolder(), 'gone.sock'), token: TOKEN };
    const asked = vi.fn<() => Promise<boolean>>();
    expect(await new InboxPoster(inbox).post(TEXT, asked)).toBe('failed');
    expect(asked).not.toHaveBeenCalled();
  });
});

type Woken = Awaited<ReturnType<McpDaemon['wakeAgent']>>;

async function request({ context, wakeAgent }: McpDaemon): Promise<void> {
  const input = { to: ['bob'], subject: 'build', body: 'please', kind: 'request' as const };
  accepted(await sendMail(context, await idOf(context, 'alice'), input, { wakeAgent }));
}

/** Sends mail to bob. Resolves when `poste mcp` posted `count` times in all, and the proof is waited for. */
async function rung(daemon: McpDaemon, posts: string[], count: number): Promise<{ said: Promise<Woken> }> {
  const said = request(daemon).then(async () => daemon.wakeAgent(await idOf(daemon.context, 'bob')));
  await vi.waitFor(
    () => {
      expect(posts).toHaveLength(count);
      expect(daemon.timers.underWay(PROOF_MS)).toBe(1);
    },
    { timeout: PATIENCE_MS },
  );
  return { said };
}

/** `poste mcp` of bob in this process, whose client is this process as well. */
async function served(): Promise<{ daemon: McpDaemon; posts: string[]; woken: () => Promise<unknown> }> {
  const daemon = await mcpDaemon(['alice', 'bob']);
  const own = await processFacts(process.pid, new AbortController().signal);
  if (typeof own === 'object') daemon.processes.set(process.pid, own);
  const { inbox, posts } = await claudeSocket();
  const waits = new Promise<void>((resolve) => {
    onEvent(daemon.context, ({ type }) => type === 'session-waits' && resolve());
  });
  const { client } = await connectHere(daemon, 'bob', '2025-11-25', { inbox, parentPid: () => process.pid });
  await waits;
  return { daemon, posts, woken: () => client.callTool({ name: 'mail_inbox', arguments: {} }) };
}

describe('poste mcp in a Claude Code', () => {
  test('posts the doorbell into its inbox; without hooks a mail tool is the proof', async () => {
    const { daemon, posts, woken } = await served();
    const { said } = await rung(daemon, posts, 1);
    expect(posts).toEqual([POSTED]);
    await woken();
    await said;
    const { sessions } = await daemon.sessions.list(null);
    expect(sessions).toMatchObject([{ pid: process.pid, wake: ['claude-socket'], woken_by: 'claude-socket' }]);
  });

  test('with hooks the prompt of the session in the same program is the proof, also after /clear', async () => {
    const { daemon, posts, woken } = await served();
    const bob = await idOf(daemon.context, 'bob');
    const hooked = { session_id: 'cleared', pid: process.pid, wake: [], reports_prompts: true, tell: true };
    accepted(await daemon.sessions.register(bob, hooked));
    const { said } = await rung(daemon, posts, 1);
    // An agent at work may look by itself.
    await woken();
    expect(daemon.timers.underWay(PROOF_MS)).toBe(1);
    accepted(await daemon.sessions.register(bob, { ...hooked, doing: 'work', lines: [TEXT] }));
    await said;
    const { sessions } = await daemon.sessions.list(null);
    const wokenBy = new Map(sessions.map(({ session_id, woken_by }) => [session_id, woken_by]));
    expect(wokenBy.get('cleared')).toBeNull();
    expect([...wokenBy.values()]).toContain('claude-socket');
  });
});
