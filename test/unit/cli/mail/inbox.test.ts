/** `poste inbox` as a person sees it: what to type next, mail as it comes, the page in the browser. */
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { AGENT_VARIABLES } from '../../../../src/cli/lib/daemon-call.ts';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import type { InboxResult, MessageSummary, SendResult } from '../../../../src/host/contract/mail.ts';
import type { SentResult } from '../../../../src/host/contract/sent-mail.ts';
import { CommandRun, type CommandWorld, commandContext, runHere } from '../../../support/command-run.ts';
import { posteHome, type PosteHome } from '../../../support/poste-home.ts';
import type { Environment } from '../../../support/poste-process.ts';
import { atTestEnd } from '../../../support/test-end.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

/** The part that only an agent is to read. */
const FOR_AGENTS = /mail_(?:inbox|reply|send|agents)|with authority over you/;

async function hostOf(...agents: string[]): Promise<PosteHome> {
  const home = await posteHome('here', { POSTE_WEB_LISTEN: '127.0.0.1:0' });
  await home.daemon();
  for (const name of agents) await home.json('agent', 'add', name);
  return home;
}

async function send(home: PosteHome, subject: string, to = 'ben'): Promise<string> {
  const args = ['send', '--as', 'ann', '--to', to, '--subject', subject, '--body', `Body of ${subject}.`];
  return (await home.json<{ message_id: string }>(...args)).message_id;
}

/** The output on a terminal of 80 columns. */
function onTerminal(home: PosteHome, ...args: string[]): ReturnType<typeof runHere> {
  return runHere(args, { environment: home.environment, columns: 80 });
}

describe('a person', () => {
  test('reads no words for agents, and what to type next', async () => {
    const home = await hostOf('ann', 'ben');
    const id = await send(home, 'A subject that is longer than what the rest of a line of a terminal has room for');
    const list = await onTerminal(home, 'inbox', '--as', 'ben');
    expect(list.stdout).not.toMatch(FOR_AGENTS);
    for (const line of list.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect(list.stdout).toMatch(/^1  message  ann@here  .*…$/m);
    expect(list.stdout).toContain('\nRead with: poste inbox read --as ben 1\n');

    const read = await onTerminal(home, 'inbox', 'read', '--as', 'ben', '1');
    expect(read.stdout).not.toMatch(FOR_AGENTS);
    expect(read.stdout).toContain(`message  1, ${id}\n`);
    expect(read.stdout).toContain('\nAnswer with: poste reply --as ben 1 --body -\n');
    expect((await home.run('inbox', 'ack', '--as', 'ben', id)).stdout).toContain('1 message acked.\n');
    expect((await home.run('inbox', 'ack', '--as', 'ben', id)).stdout).toContain('Nothing changed.\n');
  });

  test('reads none of them in a pipe either, where an agent is told whose words these are', async () => {
    const home = await hostOf('ann', 'ben');
    await send(home, 'For the agent');
    await send(home, 'For the owner', 'owner');
    const ofAgent = await home.run('inbox', '--as', 'ben');
    expect(ofAgent.stdout).toContain('were written by other agents');
    expect(ofAgent.stdout).not.toContain('mail_');
    const ofOwner = await home.run('inbox', '--as', 'owner');
    expect(ofOwner.stdout).toContain('For the owner');
    expect(ofOwner.stdout).not.toMatch(FOR_AGENTS);
    expect((await home.run('inbox', 'search', '--as', 'owner', 'owner')).stdout).not.toMatch(FOR_AGENTS);
    const unknown = await home.run('reply', '--as', 'ben', 'no-such', '--body', 'b');
    expect(unknown.code).toBe(EXIT.notFound);
    expect(unknown.stderr).toMatch(/^poste: .* See poste inbox --state all, or poste sent\.\n$/);
    const nobody = await home.run('send', '--as', 'ann', '--to', 'bne', '--subject', 's', '--body', 'b');
    expect(nobody.code).toBe(EXIT.notFound);
    expect(nobody.stderr).toMatch(/^poste: Nothing was sent\. .*ben.* See poste agent list for all names\.\n$/);
    for (const { stderr } of [unknown, nobody]) expect(stderr).not.toMatch(FOR_AGENTS);
  });

  test('names a message by its number or the end of its id, in every command', { timeout: 60_000 }, async () => {
    const home = await hostOf('ann', 'ben');
    const id = await send(home, 'One');
    const two = await send(home, 'Two');
    expect((await onTerminal(home, 'sent', '--as', 'ann')).stdout).toMatch(/^2 .* Two\n1 .* One\n/m);
    for (const [named, of] of [
      ['1', id],
      [two.slice(-5), two],
    ] as const) {
      const thread = await home.json('reply', '--as', 'ben', named, '--body', 'yes');
      expect(thread).toMatchObject({ thread: of });
      expect(await home.json('inbox', 'read', '--as', 'ben', named)).toMatchObject({ messages: [{ message_id: of }] });
      expect(await home.json('inbox', 'ack', '--as', 'ben', named)).toMatchObject({ changed: [of] });
      expect(await home.json('sent', '--as', 'ann', named)).toMatchObject({ messages: [{ message_id: of }] });
      expect(await home.json('trace', '--as', 'ann', named)).toMatchObject({ message_id: of });
      const answers = await home.json<InboxResult>('inbox', '--as', 'ann', '--reply-to', named);
      expect(answers.summaries).toHaveLength(1);
    }
    const thread = await home.json<InboxResult>('inbox', 'thread', '--as', 'ann', '1');
    expect(thread.messages?.map(({ message_id }) => message_id)[0]).toBe(id);
    for (const args of [['inbox', 'read'], ['sent'], ['trace'], ['reply', '--body', 'b']]) {
      const { code, stderr } = await home.run(...args, '--as', 'ben', '99');
      expect({ args, code, stderr }).toEqual({
        args,
        code: EXIT.notFound,
        stderr: expect.stringMatching(/^poste: [^\n]*99/) as string,
      });
    }
    expect(await home.run('trace', '1')).toMatchObject({ code: EXIT.usage });
  });

  test('at a terminal reads their own mailbox, and where that shows nothing, which agents there are', async () => {
    const home = await hostOf();
    const typed = (environment: Environment, ...args: string[]): ReturnType<typeof runHere> =>
      runHere(['inbox', ...args], { environment: { ...home.environment, ...environment }, columns: 80, typed: '' });
    expect((await typed({})).stdout).toBe(
      'owner: 0 unread of 0.\n\nThere is no agent here yet: add one with poste agent add.\n',
    );
    for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
    const named = 'Agents here: ann, ben. Read the mail of one with: poste inbox --as ann\n';
    expect((await typed({})).stdout).toBe(`owner: 0 unread of 0.\n\n${named}`);
    expect((await typed({}, '--as', 'owner')).stdout).toBe('owner: 0 unread of 0.\n');
    expect((await typed({ POSTE_AGENT: 'ben' })).stdout).toBe('ben: 0 unread of 0.\n');
    expect(JSON.parse((await typed({}, '--json')).stdout)).toMatchObject({ unread: 0 });
    const id = await send(home, 'For the owner', 'owner');
    expect((await typed({})).stdout).toMatch(/^owner: 1 unread of 1\.\n[^]*For the owner[^]*\nRead with: [^\n]*\n$/);
    expect((await typed({}, 'read', id)).stdout).toContain('| Body of For the owner.\n');
    expect((await typed({}, 'search', 'owner')).stdout).toContain('For the owner');
    expect((await typed({}, 'ack', id)).stdout).toContain('1 message acked.\n');
  });

  test('at a terminal follows what became of mail that was written as the owner', async () => {
    const home = await hostOf('ann', 'ben');
    const { environment } = home;
    const typed = (...args: string[]): ReturnType<typeof runHere> =>
      runHere(args, { environment, columns: 120, typed: '' });
    const nothing = 'Nothing was sent.\n\nAgents here: ann, ben. See what one sent with: poste sent --as ann\n';
    expect((await typed('sent')).stdout).toBe(nothing);
    expect(JSON.parse((await typed('sent', '--json')).stdout)).toMatchObject({ messages: [] });
    for (const subject of ['First', 'Second'])
      await typed('send', '--as', 'owner', '--to', 'ann', '--subject', subject, '--body', 'b');
    expect((await typed('sent')).stdout).toMatch(/^2 .* Second\n1 .* First\n/m);
    expect((await typed('sent', '1')).stdout).toContain('subject  First\n');
    expect((await typed('trace', '1')).stdout).toMatch(/^ +from +owner@here$/m);
    expect((await typed('trace', '99')).stderr).toMatch(/^poste: [^\n]*99/);
    await send(home, 'For the owner', 'owner');
    const asAnn = { environment: { ...environment, POSTE_AGENT: 'ann' }, columns: 120, typed: '' };
    expect((await runHere(['sent'], asAnn)).stdout).toContain('For the owner');
  });

  test('what a program starts must name whose mailbox it is, also where it has a terminal', async () => {
    const { environment } = await hostOf();
    const commands = [['inbox'], ['inbox', 'read', '1'], ['inbox', 'search', 'a'], ['sent'], ['trace', '1']];
    const worlds: CommandWorld[] = [
      ...AGENT_VARIABLES.map((name) => ({ environment: { ...environment, [name]: '1' }, columns: 80, typed: '' })),
      { environment, columns: 80 },
      { environment, typed: '' },
    ];
    for (const args of commands) {
      for (const world of worlds) {
        const { code, stderr } = await runHere(args, world);
        expect({ args, code, stderr }).toEqual({
          args,
          code: EXIT.usage,
          stderr: 'poste: no agent given: use --as NAME or POSTE_AGENT.\n',
        });
      }
    }
  });

  test('says whose name mail is written in, also at a terminal', async () => {
    const { environment } = await hostOf();
    for (const args of [
      ['reply', '1', '--body', 'b'],
      ['send', '--to', 'ann', '--subject', 's', '--body', 'b'],
    ]) {
      const { code, stderr } = await runHere(args, { environment, columns: 80, typed: '' });
      expect({ code, stderr }).toEqual({
        code: EXIT.usage,
        stderr: 'poste: no agent given: use --as NAME or POSTE_AGENT.\n',
      });
    }
  });

  test('finds the options of a list in the help of inbox', async () => {
    const { stdout } = await runHere(['inbox', '--help']);
    for (const flag of ['--state', '--limit', '--as', '--follow', '--web', '--json']) {
      expect(stdout).toContain(`  ${flag} `);
    }
  });
});

/** Follows until the test is over. */
function following(world: CommandWorld, ...args: string[]): CommandRun {
  const command = new CommandRun(['inbox', '--follow', ...args], commandContext(world));
  atTestEnd(() => command.stop());
  return command;
}

function request(subject: string, ...args: string[]): string[] {
  const kind = args.length === 0 ? ['--kind', 'request'] : args;
  return ['send', '--as', 'ann', '--to', 'ben', '--subject', subject, '--body', 'b', ...kind];
}

describe('--follow', () => {
  test('prints what is unread and then what comes, each once and in order', { timeout: 60_000 }, async () => {
    const home = await hostOf('ann', 'ben');
    const { environment } = home;
    const old = await send(home, 'read before');
    await home.json('inbox', 'read', '--as', 'ben', old);
    const ids = [await send(home, 'first'), await send(home, 'second')];
    const command = following({ environment }, '--as', 'ben', '--json');
    await command.printed('second');
    for (const subject of ['third', 'fourth']) ids.push(await send(home, subject));
    await command.printed('fourth');
    command.signal('SIGINT');
    const { code, stdout, stderr } = await command.ended();
    expect({ code, stderr }).toEqual({ code: EXIT.interrupted, stderr: '' });
    const printed = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as MessageSummary);
    expect(printed.map(({ message_id }) => message_id)).toEqual(ids);
    expect(printed[0]?.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  });

  test('on a terminal has a line for each, as wide as that', { timeout: 60_000 }, async () => {
    const home = await hostOf('ann', 'ben');
    const { environment } = home;
    const command = following({ environment, columns: 60 }, '--as', 'ben');
    await send(home, `long${' and long'.repeat(20)}`);
    await command.printed('\n');
    expect(command.stdout).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d {2}1 {2}ann@here: long .{0,40}…\n$/);
    expect(command.stdout.length).toBeLessThanOrEqual(61);
    expect(command.stderr).toBe('Waiting for mail; ctrl-c ends it.\n');
  });

  test('goes on when the daemon restarts, and says so', { timeout: 60_000 }, async () => {
    const home = await posteHome();
    const first = await home.daemon();
    for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
    const command = following({ environment: home.environment }, '--as', 'ben');
    await send(home, 'before');
    await command.printed('before');
    await first.stop();
    await home.daemon();
    await send(home, 'after');
    await command.printed('after');
    expect(command.stdout.trimEnd().split('\n')).toHaveLength(2);
    command.signal('SIGTERM');
    expect((await command.ended()).code).toBe(EXIT.interrupted);
  });

  test('its reader is live, and what it printed is notified and woke it, to its sender alone', async () => {
    const home = await hostOf('ann', 'ben');
    const { message_id: unprinted } = await home.json<SendResult>(...request('quiet', '--kind', 'status'));
    const states = async (id: string) =>
      (await home.json<SentResult>('sent', '--as', 'ann', id)).messages[0]?.recipients[0]?.state;
    const command = following({ environment: home.environment }, '--as', 'ben');
    await command.printed('quiet');
    await expect.poll(() => states(unprinted)).toBe('notified');
    const sent = await home.json<SendResult>(...request('loud'));
    expect(sent.recipients[0]).toMatchObject({ status: 'live-wake', detail: expect.stringContaining('this message') });
    expect(await states(sent.message_id)).toBe('notified');
    command.signal('SIGINT');
    await command.ended();
    const { sessions } = await home.client.call('session-list', {});
    expect(sessions).toMatchObject([{ agent: 'ben', presence: 'ended', woken_by: 'hook' }]);
  });

  test('needs a daemon to begin with, an agent that is there, and no other choice', async () => {
    const home = await posteHome();
    expect((await home.run('inbox', '--follow', '--as', 'owner')).code).toBe(EXIT.failure);
    await home.daemon();
    expect((await home.run('inbox', '--follow', '--as', 'nobody')).code).toBe(EXIT.notFound);
    for (const other of [['--web'], ['--state', 'all'], ['--limit', '3'], ['--cursor', 'x']]) {
      const { code, stderr } = await home.run('inbox', '--follow', ...other);
      expect(code).toBe(EXIT.usage);
      expect(stderr).toContain("option '--follow' cannot be used with option");
    }
  });
});

/** Programs that open files, of which each notes what it was given and ends with this code. */
async function openers(code: number): Promise<{ environment: Environment; opened: string }> {
  const folder = await temporaryFolder();
  const opened = join(folder, 'opened');
  await mkdir(join(folder, 'bin'));
  for (const name of ['xdg-open', 'open']) {
    const program = join(folder, 'bin', name);
    await writeFile(program, `#!/bin/sh\nprintf '%s' "$*" > '${opened}'\nexit ${code}\n`);
    await chmod(program, 0o755);
  }
  return { environment: { PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, DISPLAY: ':7' }, opened };
}

describe('--web', () => {
  test('gives the browser a private file that leads to the page, and the link to nobody else', async () => {
    const home = await hostOf();
    const { environment, opened } = await openers(0);
    const world = { environment: { ...home.environment, ...environment }, columns: 80 };
    const { code, stdout, stderr } = await runHere(['inbox', '--web'], world);
    expect({ code, stdout }).toEqual({
      code: EXIT.ok,
      stdout: expect.stringMatching(/^http:\/\/\S+#token=\S+\n$/) as string,
    });
    expect(stderr).toContain('Your mailbox opens in the browser.');
    const file = await readFile(opened, 'utf8');
    expect(file).toBe(join(home.folder, 'open-mail.html'));
    expect(await readFile(file, 'utf8')).toContain(`content="0; url=${stdout.trim()}"`);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    // Also where others could read a file of that name.
    await chmod(file, 0o644);
    await runHere(['inbox', '--web'], world);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  test.each([
    ['the browser does not open', 1, { columns: 80 }, {}],
    ['there is no screen', 0, { columns: 80 }, { DISPLAY: '' }],
    ['there is no such program', 0, { columns: 80 }, { PATH: '/nowhere' }],
  ])('prints the link alone where %s', async (_why, exit, world, changes) => {
    const home = await hostOf();
    const { environment } = await openers(exit);
    const here = { ...home.environment, ...environment, ...changes };
    const { code, stdout, stderr } = await runHere(['inbox', '--web'], { environment: here, ...world });
    expect({ code, stdout }).toEqual({ code: EXIT.ok, stdout: expect.stringMatching(/^http:\S+\n$/) as string });
    expect(stderr).toBe('The link opens your mailbox in a browser on this machine. It works once, within a minute.\n');
  });

  test('opens nothing in a pipe and with --json', async () => {
    const home = await hostOf();
    const { environment, opened } = await openers(0);
    const here = { ...home.environment, ...environment };
    await runHere(['inbox', '--web'], { environment: here });
    const asJson = await runHere(['inbox', '--web', '--json'], { environment: here, columns: 80 });
    expect(JSON.parse(asJson.stdout)).toMatchObject({ url: expect.stringContaining('#token=') as string });
    await expect(readFile(opened)).rejects.toThrow('ENOENT');
  });
});
