/** The recipes of docs/recipes.md, run as they stand there. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { describe, expect, test } from 'vitest';
import { CommandRun, commandContext } from '../support/command-run.ts';
import { blocksOf, commandsOf, docPage } from '../support/doc-pages.ts';
import { eventually } from '../support/eventually.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { type PosteHome, posteHome } from '../support/poste-home.ts';
import type { Environment } from '../support/poste-process.ts';
import { ShellFolder } from '../support/shell-folder.ts';
import { atTestEnd } from '../support/test-end.ts';

const BLOCKS = blocksOf(docPage('docs/recipes.md'));

/** Stands in a thread once it has an answer. */
const ANSWERED = 'subject  Re:';

function titled(heading: string, title: string): string {
  const found = BLOCKS.find((block) => block.heading === heading && block.title === title);
  if (!found) throw new Error(`there is no ${title} below ${heading}`);
  return found.text;
}

/** What is typed below a heading. */
function lines(heading: string): string[] {
  const blocks = BLOCKS.filter((block) => block.heading === heading && block.language === 'console');
  return blocks.flatMap(commandsOf).map(({ text }) => text);
}

/** A host, and a folder in which the recipes are typed. */
class Bench extends ShellFolder {
  readonly home: PosteHome;

  constructor(home: PosteHome, environment: Environment = {}) {
    super(join(home.folder, 'work'), { ...home.environment, ...environment });
    this.home = home;
  }

  static async make(): Promise<Bench> {
    const home = await posteHome('box');
    await home.daemon();
    await home.json('agent', 'add', 'asker');
    const bench = new Bench(home);
    await bench.furnish();
    return bench;
  }

  async ask(agent: string, body: string): Promise<string> {
    const words = ['--as', 'asker', '--to', agent, '--kind', 'request', '--needs-reply', '--subject', 'a question'];
    return (await this.home.json<{ message_id: string }>('send', ...words, '--body', body)).message_id;
  }

  /** The answer, once it is there. */
  async answer(message_id: string): Promise<string> {
    const thread = async () => (await this.home.run('inbox', 'thread', '--as', 'asker', message_id)).stdout;
    const [, answer = ''] = (await eventually(thread, (text) => text.includes(ANSWERED))).split(ANSWERED);
    return answer;
  }
}

function typed(words: readonly string[]): string {
  return `poste ${words.map((word) => `'${word}'`).join(' ')}`;
}

describe('the recipes of docs/recipes.md', { timeout: 2 * PATIENCE_MS }, () => {
  test('a shell script', async () => {
    const bench = await Bench.make();
    await bench.program('handle-mail.sh', titled('A shell script', 'handle-mail.sh'));
    const [add = '', start = '', ...more] = lines('A shell script');
    expect(more).toEqual([]);
    await bench.type(add);
    bench.leaveRunning(start);
    const id = await bench.ask('counter', 'one two three');
    expect(await bench.answer(id)).toContain('| asker@box sent 3 words about a question.');
    // The same message once more, as after a crash.
    const environment = { ...bench.environment, POSTE_MESSAGE_ID: id, POSTE_FROM: 'x', POSTE_SUBJECT: 'y' };
    expect(await bench.type('./handle-mail.sh < /dev/null', environment)).toBe('');
  });

  test('cron, with the environment that cron gives', async () => {
    const bench = await Bench.make();
    await bench.program('handle-mail.sh', titled('A shell script', 'handle-mail.sh'));
    await bench.home.json('agent', 'add', 'counter');
    const entry = BLOCKS.find(({ heading }) => heading === 'cron');
    const line = /^(?:\S+ ){5}(?<command>.*)\n$/.exec(entry?.text ?? '')?.groups?.['command'] ?? '';
    const path = `PATH=${bench.environment['PATH']} `;
    const dated = line.replace('PATH=/usr/local/bin:/usr/bin:/bin ', path);
    expect(dated).toContain(path);
    const { POSTE_HOME = '', POSTE_LAN_LISTEN = '' } = bench.home.environment;
    const cron = { HOME: bench.folder, LOGNAME: 'somebody', SHELL: '/bin/sh', PATH: '/usr/bin:/bin' };
    const environment = { ...cron, POSTE_HOME, POSTE_LAN_LISTEN };
    expect(await bench.type(dated, environment)).toBe('');
    const id = await bench.ask('counter', 'one two');
    await bench.type(dated, environment);
    expect(await bench.answer(id)).toContain('| asker@box sent 2 words');
  });

  test('aider gets the mail as one argument, and what it prints is the answer', async () => {
    const bench = await Bench.make();
    await bench.program('bin/aider', 'printf "%s words: %s %s" "$#" "$1" "$2"; printf "%s" "$3" > given');
    const [add = '', start = ''] = lines('aider');
    await bench.type(add);
    bench.leaveRunning(start);
    const id = await bench.ask('writer', 'Write "$(it)"; then `stop`.');
    expect(await bench.answer(id)).toContain('| 3 words: --yes-always --message');
    const given = await readFile(join(bench.folder, 'given'), 'utf8');
    expect(given).toMatch(/^From: asker@box\n/);
    expect(given).toContain('\n\nWrite "$(it)"; then `stop`.');
  });

  test('a CI job asks an agent of the host that stays, and nothing of it stays', async () => {
    const bench = await Bench.make();
    await bench.home.json('agent', 'add', 'reviewer');
    await bench.program('review', 'echo "It is fit."');
    await bench.program('bin/ssh', `shift; export POSTE_HOME=${bench.home.folder}; exec sh -c "$*"`);
    await bench.program('ask-reviewer.sh', titled('A CI job', 'ask-reviewer.sh'));
    const words = ['run', '--as', 'reviewer', '--reply', '--', join(bench.folder, 'review')];
    const reviewer = new CommandRun(words, commandContext({ environment: bench.home.environment }));
    atTestEnd(() => reviewer.stop());
    const job = { MAIL_HOST: 'build', CI_JOB_ID: '7', CI_COMMIT: '1a2b3c', REVIEWER: 'reviewer@box' };
    const { POSTE_HOME: _, ...outside } = bench.environment;
    const printed = await bench.type('./ask-reviewer.sh', { ...outside, ...job });
    expect(printed).toContain('From: reviewer@box\n');
    expect(printed).toContain('\n\nIt is fit.\n');
    expect((await bench.home.json<{ peers: unknown[] }>('peer', 'list')).peers).toEqual([]);
    expect(await bench.type('ls -d tmp.* 2> /dev/null || true')).toBe('');
    expect(reviewer.stderr).toContain('of job@ci-7: done');
    const gone = await bench.home.run('send', '--as', 'reviewer', '--to', 'job@ci-7', '--subject', 's', '--body', 'b');
    expect(gone.code).not.toBe(0);
  });

  test('a container: what its services start, without one', async () => {
    const { services } = parse(titled('A container', 'compose.yml')) as {
      services: Record<'mail' | 'worker', { command: string[]; environment: Record<string, string> }>;
    };
    const [, from, copy] =
      /^FROM (\S+)\nCOPY (.*)\nHEALTHCHECK NONE\n$/.exec(titled('A container', 'Dockerfile')) ?? [];
    expect(from).toBe('poste');
    const [, , target = ''] = (copy ?? '').split(' ');
    const bench = await Bench.make();
    await bench.program('handle-mail.sh', titled('A shell script', 'handle-mail.sh'));
    const volume = services.mail.environment['POSTE_HOME'] ?? '';
    expect(services.worker.environment['POSTE_HOME']).toBe(volume);
    const other = { ...bench.environment, POSTE_HOME: join(bench.folder, 'volume') };
    const [init = '', , add = ''] = lines('A container');
    await bench.type(typed(init.split('mail ')[1]?.split(' ') ?? []), other);
    const inBox = new Bench(bench.home, { POSTE_HOME: other.POSTE_HOME });
    inBox.leaveRunning(typed(services.mail.command));
    await expect
      .poll(() => bench.type(add.split('mail ')[1] ?? '', other).catch(() => ''), { timeout: PATIENCE_MS })
      .not.toBe('');
    expect(services.worker.command).toContain(target);
    inBox.leaveRunning(typed(services.worker.command.map((word) => (word === target ? './handle-mail.sh' : word))));
    await bench.type(
      'poste agent add asker && poste send --as asker --to counter --kind request --subject s --body "one two"',
      other,
    );
    const inbox = () => bench.type('poste inbox list --as asker', other);
    await expect.poll(inbox, { timeout: PATIENCE_MS }).toContain('Re: s');
  });
});

test('every block of the page belongs to a recipe', () => {
  const recipes = new Set(['A shell script', 'cron', 'aider', 'A CI job', 'A container']);
  expect(BLOCKS.map(({ heading }) => heading).filter((heading) => !recipes.has(heading))).toEqual([]);
});
