/** `poste inbox --wait`: for a script that goes on when mail is there. */
import { setMaxListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { WAITS_PER_AGENT_MAX } from '../../../../src/host/base/waiting-calls.ts';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import type { AgentsResult, InboxResult, SendResult } from '../../../../src/host/contract/mail.ts';
import { CommandRun, commandContext } from '../../../support/command-run.ts';
import { type PosteHome, posteHome } from '../../../support/poste-home.ts';
import { atTestEnd } from '../../../support/test-end.ts';

async function homeWithAgents(): Promise<PosteHome> {
  const home = await posteHome();
  await home.daemon();
  for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
  return home;
}

/** Resolves when ben waits, who has no session. */
function waiting(home: PosteHome, ...args: string[]): Promise<CommandRun> {
  return waitingAs('ben', home, ...args);
}

/** Resolves when this agent waits, which did not before. */
async function waitingAs(who: string, { environment, client }: PosteHome, ...args: string[]): Promise<CommandRun> {
  const command = new CommandRun(['inbox', '--as', who, '--wait', '100', ...args], commandContext({ environment }));
  atTestEnd(() => command.stop());
  await expect
    .poll(async () => {
      const { agents }: AgentsResult = await client.call('mail-agents', {}, { as: 'ann' });
      return agents.find(({ name }) => name === who)?.presence;
    })
    .toBe('live');
  return command;
}

function send(home: PosteHome, subject: string): Promise<SendResult> {
  const args = ['--as', 'ann', '--to', 'ben', '--subject', subject, '--body', 'b', '--kind', 'status'];
  return home.json<SendResult>('send', ...args);
}

describe('poste inbox --wait', () => {
  test('prints the mail that comes, ends with 0, and the sender hears that it came', async () => {
    const home = await homeWithAgents();
    const command = await waiting(home, '--json');
    const { message_id, recipients } = await send(home, 'one');
    expect(recipients).toMatchObject([{ status: 'live-wake', detail: expect.stringContaining('waits for mail') }]);
    const { code, stdout, stderr } = await command.ended();
    expect({ code, stderr }).toEqual({ code: EXIT.ok, stderr: '' });
    expect((JSON.parse(stdout) as InboxResult).summaries).toMatchObject([{ message_id }]);
    // What is unread is there at once.
    expect(await home.run('inbox', '--as', 'ben', '--wait', '100')).toMatchObject({
      code: EXIT.ok,
      stdout: expect.stringContaining(message_id),
    });
  });

  test('waits for the answer to one message, whose id may be short, and ends with 75 when none came', async () => {
    const home = await homeWithAgents();
    const question = ['send', '--as', 'ben', '--to', 'ann', '--subject', 's', '--body', 'b'];
    const { message_id } = await home.json<SendResult>(...question);
    await send(home, 'other');
    const ofAnswers = ['--reply-to', message_id.slice(0, 12)];
    const none = await home.run('inbox', '--as', 'ben', '--wait', '1', ...ofAnswers);
    expect(none).toEqual({ code: EXIT.temporary, signal: null, stdout: '', stderr: expect.any(String) as string });
    expect(none.stderr).toBe('poste: no mail in that time: wait again.\n');
    const command = await waiting(home, ...ofAnswers, '--json');
    const reply = await home.json<SendResult>('reply', '--as', 'ann', message_id, '--body', 'yes');
    expect(reply.recipients).toMatchObject([{ status: 'live-wake' }]);
    const { summaries } = JSON.parse((await command.ended()).stdout) as InboxResult;
    expect(summaries).toMatchObject([{ message_id: reply.message_id }]);
  });

  test('says that too many calls wait, and goes on when one has ended', { timeout: 60_000 }, async () => {
    const home = await homeWithAgents();
    const ending = new AbortController();
    setMaxListeners(0, ending.signal);
    const others = Array.from({ length: WAITS_PER_AGENT_MAX }, () =>
      home.client.call('mail-inbox', { wait_seconds: 50 }, { as: 'ben', signal: ending.signal }).catch(() => undefined),
    );
    atTestEnd(() => ending.abort());
    const command = await waiting(home);
    await command.asked('poste: too many calls wait for mail');
    ending.abort();
    await Promise.all(others);
    await send(home, 'after');
    expect(await command.ended()).toMatchObject({ code: EXIT.ok, stdout: expect.stringContaining('after') as string });
  });

  test('goes on when the daemon restarts, and ends with 130 at ctrl-c', { timeout: 60_000 }, async () => {
    const home = await posteHome();
    const first = await home.daemon();
    for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
    const command = await waiting(home);
    const stopped = await waitingAs('ann', home);
    await first.stop();
    await home.daemon();
    stopped.signal('SIGINT');
    expect(await stopped.ended()).toMatchObject({ code: EXIT.interrupted, stdout: '' });
    await send(home, 'after');
    const { code, stdout } = await command.ended();
    expect({ code, stdout }).toEqual({ code: EXIT.ok, stdout: expect.stringContaining('after') as string });
  });

  test('needs a daemon to begin with, a number, a message that is known, and no other choice', async () => {
    const home = await posteHome();
    expect((await home.run('inbox', '--as', 'owner', '--wait', '5')).code).toBe(EXIT.failure);
    await home.daemon();
    expect((await home.run('inbox', '--as', 'nobody', '--wait', '5')).code).toBe(EXIT.notFound);
    expect((await home.run('inbox', '--as', 'owner', '--wait', '5', '--reply-to', 'none')).code).toBe(EXIT.notFound);
    expect((await home.run('inbox', '--as', 'owner', '--wait', 'long')).code).toBe(EXIT.usage);
    for (const other of [['--web'], ['--follow'], ['--cursor', 'x']]) {
      const { code, stderr } = await home.run('inbox', '--as', 'owner', '--wait', '5', ...other);
      expect(code).toBe(EXIT.usage);
      expect(stderr).toContain('cannot be used with option');
    }
  });
});
