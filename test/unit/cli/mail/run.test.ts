/** `poste run`: what the command is given, and what its end says of the mail. */
import { chmod, mkdir, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { ANSWER_BYTES_MAX, argumentFault, placeMail } from '../../../../src/cli/mail/run-command.ts';
import { answerText } from '../../../../src/cli/mail/run-mail.ts';
import type { SendResult } from '../../../../src/host/contract/mail.ts';
import type { SentResult } from '../../../../src/host/contract/sent-mail.ts';
import { processFacts } from '../../../../src/host/wake/processes.ts';
import { signalGroup, startGroup } from '../../../../src/lib/process-group.ts';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { CommandRun, commandContext } from '../../../support/command-run.ts';
import { type PosteHome, posteHome } from '../../../support/poste-home.ts';
import { isGone } from '../../../support/process-tree.ts';
import { atTestEnd } from '../../../support/test-end.ts';

const SLOW = { timeout: 60_000 };

/** A host with ann and ben, and a daemon. */
async function hostWithBen(): Promise<PosteHome> {
  const home = await posteHome();
  await home.daemon();
  for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
  return home;
}

/** A shell script, and the path of it. Its mail is in its standard input. */
async function script(home: PosteHome, text: string): Promise<string> {
  const path = join(home.folder, `script-${(await readdir(home.folder)).length}.sh`);
  await writeFile(path, `#!/bin/sh\n${text}\n`);
  await chmod(path, 0o700);
  return path;
}

function running(home: PosteHome, ...args: string[]): CommandRun {
  const command = new CommandRun(['run', '--as', 'ben', ...args], commandContext({ environment: home.environment }));
  atTestEnd(() => command.stop());
  return command;
}

async function send(home: PosteHome, subject: string, ...args: string[]): Promise<SendResult> {
  const kind = args.length === 0 ? ['--kind', 'request'] : args;
  const words = ['--as', 'ann', '--to', 'ben', '--subject', subject, '--body', `body of ${subject}`, ...kind];
  return home.json('send', ...words);
}

async function stateOf(home: PosteHome, { message_id }: SendResult): Promise<string | undefined> {
  const { messages } = await home.json<SentResult>('sent', '--as', 'ann', message_id);
  return messages[0]?.recipients[0]?.state;
}

describe('poste run', () => {
  test('starts the command with each mail, the oldest first, and acks what it ends with 0', SLOW, async () => {
    const home = await hostWithBen();
    const sent = [await send(home, 'one'), await send(home, 'two')];
    const program = await script(home, 'echo "<$POSTE_SUBJECT|$POSTE_FROM|$POSTE_TRY|$POSTE_AGENT>"; cat');
    const command = running(home, '--max', '2', '--', program);
    const { code, stdout, stderr } = await command.ended();
    expect(code).toBe(EXIT.ok);
    expect(stdout.match(/<.*>/g)).toEqual(['<one|ann@here|1|ben>', '<two|ann@here|1|ben>']);
    expect(stdout).toContain(`Message-Id: ${sent[0]?.message_id}\n`);
    expect(stdout).toMatch(/\n\nbody of one\n/);
    expect(stderr.split('\n').filter((line) => line.endsWith('of ann@here: done.'))).toHaveLength(2);
    for (const one of sent) expect(await stateOf(home, one)).toBe('acked');
  });

  test('a sender hears live-wake once the command was started with its mail, and later mail waits', SLOW, async () => {
    const home = await hostWithBen();
    const go = join(home.folder, 'go');
    const program = await script(home, `echo started; while [ ! -e ${go} ]; do sleep 0.05; done`);
    const command = running(home, '--', program);
    await live(home);
    const [first] = (await send(home, 'first')).recipients;
    expect(first).toMatchObject({ status: 'live-wake', detail: expect.stringContaining('has this message') });
    await command.printed('started\n');
    const second = await send(home, 'second');
    expect(second.recipients[0]).toMatchObject({
      status: 'live-next-prompt',
      detail: expect.stringMatching(/at work|in its turn/),
    });
    expect(await stateOf(home, second)).toBe('delivered');
    await writeFile(go, '');
    await command.asked(`${second.message_id} of ann@here: done`);
    command.signal('SIGTERM');
    expect((await command.ended()).code).toBe(EXIT.ok);
    const { agents } = await home.json<{ agents: { name: string; presence: string }[] }>('agent', 'list');
    expect(agents.find(({ name }) => name === 'ben')).toMatchObject({ presence: 'offline' });
  });

  test('tries again, then gives up: the mail is read and not acked, and its sender is told', SLOW, async () => {
    const home = await hostWithBen();
    const [bad, good] = [await send(home, 'bad'), await send(home, 'good')];
    const program = await script(home, 'echo "$POSTE_SUBJECT $POSTE_TRY"; [ "$POSTE_SUBJECT" = good ] || exit 3');
    const command = running(home, '--max', '2', '--tries', '2', '--pause', '0.01', '--', program);
    const { code, stdout, stderr } = await command.ended();
    expect(code).toBe(EXIT.failure);
    expect(stdout).toBe('bad 1\nbad 2\ngood 1\n');
    expect(stderr).toContain('ended with exit code 3 (try 1 of 2); again in 0.01 s');
    expect(stderr).toContain('given up: the command ended with exit code 3, after 2 tries; it is read, and not acked');
    expect(await stateOf(home, bad)).toBe('read');
    expect(await stateOf(home, good)).toBe('acked');
    const inbox = await home.run('inbox', 'thread', '--as', 'ann', bad.message_id);
    expect(inbox.stdout).toContain('Its command ended with exit code 3, after 2 tries.');
  });

  test(
    '--once ends when nothing is unread, counts tries from run to run, and says that one is left',
    SLOW,
    async () => {
      const home = await hostWithBen();
      const program = await script(home, 'echo "try $POSTE_TRY"; exit 1');
      const once = () => running(home, '--once', '--tries', '2', '--', program).ended();
      expect(await once()).toMatchObject({ code: EXIT.ok, stdout: '' });
      const sent = await send(home, 'bad');
      expect(await once()).toMatchObject({ code: EXIT.temporary, stdout: 'try 1\n' });
      expect(await stateOf(home, sent)).toBe('notified');
      expect(await once()).toMatchObject({ code: EXIT.failure, stdout: 'try 2\n' });
      expect(await once()).toMatchObject({ code: EXIT.ok, stdout: '' });
    },
  );

  test('--reply sends what the command prints, and never answers an answer', SLOW, async () => {
    const home = await hostWithBen();
    const program = await script(home, 'echo "answer to $POSTE_SUBJECT"');
    const asked = await send(home, 'question');
    await send(home, 'a status', '--kind', 'status');
    expect(await running(home, '--once', '--reply', '--', program).ended()).toMatchObject({
      code: EXIT.ok,
      stdout: '',
    });
    const thread = await home.run('inbox', 'thread', '--as', 'ann', asked.message_id);
    expect(thread.stdout).toContain('| answer to question');
    expect((await home.json<{ total: number }>('inbox', '--as', 'ann', '--state', 'all')).total).toBe(1);
  });

  test('a mail that its command read, and did not deal with, is tried again', SLOW, async () => {
    const home = await hostWithBen();
    const sent = await send(home, 'bad');
    const program = await script(home, 'echo "try $POSTE_TRY"; [ "$POSTE_TRY" -gt 1 ]');
    const once = () => running(home, '--once', '--', program).ended();
    expect(await once()).toMatchObject({ code: EXIT.temporary });
    await home.json('inbox', 'read', '--as', 'ben', sent.message_id);
    expect(await once()).toMatchObject({ code: EXIT.ok, stdout: 'try 2\n' });
    expect(await stateOf(home, sent)).toBe('acked');
    expect(await once()).toMatchObject({ code: EXIT.ok, stdout: '' });
  });

  test('--timeout ends a command that takes longer, with all that it started', SLOW, async () => {
    const home = await hostWithBen();
    await send(home, 'slow');
    const child = join(home.folder, 'child');
    const program = await script(home, `sleep 600 & echo $! > ${child}; wait`);
    const { code, stderr } = await running(home, '--once', '--tries', '1', '--timeout', '1', '--', program).ended();
    expect(code).toBe(EXIT.failure);
    expect(stderr).toContain('the command was ended after 1 s');
    await expect.poll(async () => isGone(Number(await readFile(child, 'utf8')))).toBe(true);
  });

  test.each([
    ['SIGINT', 1],
    ['SIGHUP', 2],
  ] as const)('%s ends the command and what it started, and the mail stays', SLOW, async (name, times) => {
    const home = await hostWithBen();
    const child = join(home.folder, 'child');
    const program = await script(home, `sleep 600 & echo $! > ${child}; echo started; wait`);
    const command = running(home, '--tries', '1', '--', program);
    await send(home, 'slow');
    await command.printed('started');
    for (let said = 0; said < times; said++) command.signal(name);
    expect((await command.ended()).code).toBe(EXIT.ok);
    await expect.poll(async () => isGone(Number(await readFile(child, 'utf8')))).toBe(true);
    const again = await script(home, 'echo "try $POSTE_TRY"');
    expect(await running(home, '--once', '--tries', '1', '--', again).ended()).toMatchObject({ stdout: 'try 1\n' });
  });

  test('goes on when the daemon restarts while the command works, and runs it no second time', SLOW, async () => {
    const home = await posteHome();
    const first = await home.daemon();
    for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
    const go = join(home.folder, 'go');
    const program = await script(home, `echo "$POSTE_SUBJECT $POSTE_TRY"; while [ ! -e ${go} ]; do sleep 0.05; done`);
    const command = running(home, '--max', '2', '--', program);
    const sent = await send(home, 'one');
    await command.printed('one');
    await first.stop();
    await writeFile(go, '');
    await command.asked('the daemon does not answer');
    await home.daemon();
    await command.asked(`${sent.message_id} of ann@here: done`);
    await send(home, 'two');
    expect(await command.ended()).toMatchObject({ code: EXIT.ok, stdout: 'one 1\ntwo 1\n' });
  });

  test('gives the mail in place of {message} as one argument, or says why it cannot', SLOW, async () => {
    const home = await hostWithBen();
    await send(home, '$(touch no) {message}');
    const program = await script(home, 'echo "$#"; printf "%s\\n" "$2"');
    const { stdout } = await running(home, '--max', '1', '--', program, '-m', '{message}', 'end').ended();
    expect(stdout).toMatch(/^3\nFrom: ann@here\n/);
    expect(stdout).toContain('body of $(touch no) {message}');
    const large = await home.runWith(
      'x'.repeat(140_000),
      'send',
      '--as',
      'ann',
      '--to',
      'ben',
      '--subject',
      'large',
      '--body',
      '-',
    );
    expect(large.code).toBe(EXIT.ok);
    const { code, stderr } = await running(home, '--max', '1', '--', program, '{message}').ended();
    expect(code).toBe(EXIT.failure);
    expect(stderr).toContain('leave out {message}, and the command has the mail in its standard input');
  });

  test('a record of what is not in the mailbox holds nothing up', SLOW, async () => {
    const home = await hostWithBen();
    await send(home, 'one');
    for (const message_id of ['acp', '01990000-0000-7000-8000-000000000000']) {
      await writeFile(join(home.folder, 'run-ben.json'), JSON.stringify({ message_id, tries: 1, process: null }));
      const again = await script(home, 'echo "try $POSTE_TRY"; exit 1');
      const { stdout, stderr } = await running(home, '--once', '--', again).ended();
      expect({ stdout, stderr }).toEqual({
        stdout: 'try 1\n',
        stderr: expect.stringContaining('try 1 of 3') as string,
      });
    }
  });

  test('a command that a killed run left is ended with all of its group', SLOW, async () => {
    const home = await hostWithBen();
    await send(home, 'one');
    const [file, mark] = [join(home.folder, 'stubborn'), join(home.folder, 'run-ben.json')];
    const stubborn = `sh -c 'trap "" TERM; echo $$ > ${file}; while :; do sleep 0.1; done'`;
    const leader = await startGroup([await script(home, `${stubborn} & wait`)], { stdio: 'ignore' });
    atTestEnd(() => signalGroup(leader.pid, 'SIGKILL'));
    await expect.poll(() => readFile(file, 'utf8').catch(() => '')).toMatch(/\n/);
    const facts = await processFacts(leader.pid ?? 0, new AbortController().signal);
    if (typeof facts !== 'object') throw new Error('the script does not run');
    await writeFile(mark, JSON.stringify({ message_id: 'm', tries: 1, process: facts.mark }));
    const { stderr } = await running(home, '--once', '--', 'true').ended();
    expect(stderr).toContain(`ended process ${leader.pid}, the command of a run that was killed`);
    await expect.poll(async () => isGone(Number(await readFile(file, 'utf8')))).toBe(true);
  });

  test('a command that the system does not start is a try that failed', SLOW, async () => {
    const home = await hostWithBen();
    await home.runWith('x'.repeat(120_000), 'send', '--as', 'ann', '--to', 'ben', '--subject', 's', '--body', '-');
    const words = Array.from({ length: 60 }, () => '{message}');
    const { code, stderr } = await running(home, '--once', '--', 'echo', ...words).ended();
    expect(stderr).toContain('the command could not be started (spawn E2BIG) (try 1 of 3)');
    expect(code).toBe(EXIT.temporary);
  });

  test.each(['run-ben.json', 'run-ben.json.mail'])(
    'starts nothing, and counts no try, without %s',
    SLOW,
    async (name) => {
      const home = await hostWithBen();
      const sent = await send(home, 'one');
      const program = await script(home, 'echo "try $POSTE_TRY"');
      await mkdir(join(home.folder, name, 'full'), { recursive: true });
      for (let run = 0; run < 3; run++) {
        const { code, stdout, stderr } = await running(home, '--', program).ended();
        expect({ code, stdout }).toEqual({ code: EXIT.failure, stdout: '' });
        expect(stderr).toContain('without it no command is started: let this user write there');
      }
      expect(await stateOf(home, sent)).toBe('delivered');
      await rm(join(home.folder, name), { recursive: true });
      expect(await running(home, '--once', '--', program).ended()).toMatchObject({ stdout: 'try 1\n' });
    },
  );

  test('a mail that was cut off in its last try is given up without another one', SLOW, async () => {
    const home = await hostWithBen();
    const sent = await send(home, 'one');
    const tried = { message_id: sent.message_id, tries: 3, process: null };
    await writeFile(join(home.folder, 'run-ben.json'), JSON.stringify(tried));
    const { code, stdout, stderr } = await running(home, '--once', '--', 'echo', 'runs').ended();
    expect({ code, stdout }).toEqual({ code: EXIT.failure, stdout: '' });
    expect(stderr).toContain('given up: the command did not end, after 3 tries');
    expect(await stateOf(home, sent)).toBe('read');
  });

  test('an answer that an earlier try sent is the answer, and the mail is acked', SLOW, async () => {
    const home = await hostWithBen();
    const sent = await send(home, 'one');
    const { message_id } = sent;
    const first = { message_id, body: 'first', idempotency_key: `poste-run-answer-${sha256Hex(message_id)}` };
    await home.client.call('mail-reply', first, { as: 'ben' });
    const { code, stderr } = await running(home, '--once', '--reply', '--', 'echo', 'second').ended();
    expect(code).toBe(EXIT.ok);
    expect(stderr).toContain('answered in an earlier try');
    expect(await stateOf(home, sent)).toBe('acked');
    expect((await home.json<{ total: number }>('inbox', '--as', 'ann', '--state', 'all')).total).toBe(1);
  });

  test('a full disk is waited for, and with --once the mail is left', SLOW, async () => {
    const home = await hostWithBen();
    await send(home, 'one');
    const program = await script(home, 'echo "try $POSTE_TRY"');
    const fill = () => symlink('/dev/full', join(home.folder, 'run-ben.json.mail'));
    await fill();
    const once = await running(home, '--once', '--', program).ended();
    expect(once).toMatchObject({ code: EXIT.failure, stdout: '', stderr: expect.stringContaining('make room') });
    // The next look finds room: the link is gone.
    await fill();
    const { code, stdout, stderr } = await running(home, '--max', '1', '--', program).ended();
    expect({ code, stdout }).toEqual({ code: EXIT.ok, stdout: 'try 1\n' });
    expect(stderr.match(/make room/g)).toHaveLength(1);
  });

  test('what is wrong is said before any mail is touched', SLOW, async () => {
    const home = await hostWithBen();
    const sent = await send(home, 'one');
    for (const [args, code, said] of [
      [['--', 'no-such-program'], EXIT.notFound, 'there is no program no-such-program'],
      [['--timeout', '0', '--', 'true'], EXIT.usage, 'more than 0 seconds'],
      [[], EXIT.usage, 'command'],
      [['--as', 'owner', '--', 'true'], EXIT.usage, 'owner is a person'],
      [['--as', 'nobody', '--', 'true'], EXIT.notFound, 'nobody'],
    ] as const) {
      const ended = await running(home, ...args).ended();
      expect(ended).toMatchObject({ code, stderr: expect.stringContaining(said) });
    }
    expect(await stateOf(home, sent)).toBe('delivered');
  });
});

/** Resolves when ben is live. */
async function live(home: PosteHome): Promise<void> {
  for (;;) {
    const { sessions } = await home.client.call('session-list', {});
    if (sessions.some(({ presence }) => presence === 'live')) return;
    await new Promise(setImmediate);
  }
}

test('an argument holds what Linux gives a program, and no zero byte', () => {
  const { words } = placeMail(['a{message}b', '{message}{message}', 'c'], '$& {message}');
  expect(words).toEqual(['a$& {message}b', '$& {message}$& {message}', 'c']);
  expect(argumentFault(['x'.repeat(131_071)])).toBeUndefined();
  expect(argumentFault(['x'.repeat(131_072)])).toContain('131072 bytes, and one holds at most 131071');
  expect(argumentFault(['é'.repeat(65_536)])).toContain('131072 bytes');
  expect(argumentFault(['a\0b'])).toContain('zero byte');
});

test('an answer is bounded, and says what is missing', () => {
  expect(answerText(Buffer.from(' \n'), 2)).toBe('');
  expect(answerText(Buffer.from('two\nlines\n'), 10)).toBe('two\nlines');
  const cut = answerText(Buffer.alloc(ANSWER_BYTES_MAX, 'x'), 70_000);
  expect(cut.slice(-80)).toContain('[The answer has 70000 bytes; 65536 of them are sent.]');
});
