/** `poste run --acp` with an agent by script, which the vendors' library speaks for. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { endWithOutput } from '../../../../src/cli/lib/output.ts';
import { isMailTool, within } from '../../../../src/cli/mail/run-acp.ts';
import type { SendResult } from '../../../../src/host/contract/mail.ts';
import { CommandRun, commandContext } from '../../../support/command-run.ts';
import { eventually } from '../../../support/eventually.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { type PosteHome, posteHome } from '../../../support/poste-home.ts';
import { isGone } from '../../../support/process-tree.ts';
import { disposableFolder } from '../../../support/temporary-folder.ts';
import { atTestEnd } from '../../../support/test-end.ts';

const SOURCE = fileURLToPath(new URL('../../../support/scripted-acp-agent.ts', import.meta.url));
/** The agent as one file of JavaScript, which starts in a third of the time. */
let agent = '';
let removeAgent = (): Promise<void> => Promise.resolve();

beforeAll(async () => {
  const { folder, remove } = await disposableFolder();
  removeAgent = remove;
  agent = join(folder, 'agent.mjs');
  await build({ entryPoints: [SOURCE], outfile: agent, bundle: true, platform: 'node', format: 'esm' });
});

afterAll(() => removeAgent());

const SLOW = { timeout: 2 * PATIENCE_MS };
const LINE = 'You have 1 unread message in Poste. Read it with mail_inbox.';

const LINES = 'You have 2 unread messages in Poste. Read them with mail_inbox.';

class AcpWorld {
  readonly home: PosteHome;
  readonly folder: string;

  constructor(home: PosteHome) {
    this.home = home;
    this.folder = join(home.folder, 'agent');
  }

  static async make(): Promise<AcpWorld> {
    const home = await posteHome();
    await home.daemon();
    for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
    const world = new AcpWorld(home);
    await mkdir(world.folder);
    return world;
  }

  run(way: string, ...flags: string[]): CommandRun {
    return this.runIn(commandContext({ environment: this.home.environment }), way, ...flags);
  }

  runIn(context: ReturnType<typeof commandContext>, way: string, ...flags: string[]): CommandRun {
    const words = [process.execPath, agent, this.folder, way];
    const args = ['run', '--as', 'ben', '--acp', ...flags, '--', ...words];
    const command = new CommandRun(args, context);
    atTestEnd(() => command.stop());
    return command;
  }

  /** What the agent wrote under this name. */
  noted(name: string): unknown[] {
    const file = join(this.folder, name);
    if (!existsSync(file)) return [];
    return readFileSync(file, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
  }

  async hasSession(): Promise<void> {
    const isThere = await eventually(
      () => Promise.resolve(existsSync(join(this.folder, 'new.json'))),
      (found) => found,
    );
    if (!isThere) throw new Error('the agent was asked for no session');
  }

  async send(kind = 'request'): Promise<SendResult['recipients'][number] | undefined> {
    const words = ['--as', 'ann', '--to', 'ben', '--kind', kind, '--subject', 's', '--body', 'b'];
    return (await this.home.json<SendResult>('send', ...words)).recipients[0];
  }
}

describe('poste run --acp', () => {
  test('gives the program the mail tools and the doorbell; what it says is the proof', SLOW, async () => {
    const world = await AcpWorld.make();
    const command = world.run('speaks');
    await world.hasSession();
    const given = JSON.parse(readFileSync(join(world.folder, 'new.json'), 'utf8')) as {
      mcpServers: { args: string[] }[];
    };
    expect(given.mcpServers.map(({ args }) => args.slice(1))).toEqual([['mcp', '--agent', 'ben']]);
    expect(await world.send()).toMatchObject({ status: 'live-wake' });
    expect(world.noted('prompts')).toEqual([[{ type: 'text', text: LINE }]]);
    await command.printed('Hm.');
    await command.asked('a turn for 1 unread message ended: end_turn');
    expect(await world.home.client.call('session-list', {})).toMatchObject({
      sessions: [{ session_id: 'run', presence: 'live', woken_by: 'hook' }],
    });
    const [pid] = world.noted('starts');
    command.signal('SIGTERM');
    expect((await command.ended()).code).toBe(EXIT.ok);
    await expect.poll(() => isGone(Number(pid))).toBe(true);
  });

  test('a turn that ends without a word is a proof too', SLOW, async () => {
    const world = await AcpWorld.make();
    world.run('is silent');
    await world.hasSession();
    expect(await world.send()).toMatchObject({ status: 'live-wake' });
  });

  test('a status that comes during a turn begins none', SLOW, async () => {
    const world = await AcpWorld.make();
    const command = world.run('works');
    await world.hasSession();
    await world.send();
    await world.send('status');
    writeFileSync(join(world.folder, 'go'), '');
    await command.asked('a turn for 1 unread message ended: end_turn');
    command.signal('SIGTERM');
    expect((await command.ended()).code).toBe(EXIT.ok);
    expect(world.noted('prompts')).toHaveLength(1);
  });

  test('what it asks for another session is no proof', SLOW, async () => {
    const world = await AcpWorld.make();
    const command = world.run('asks for another session');
    await world.hasSession();
    expect(await world.send()).toMatchObject({ status: 'live-next-prompt' });
    expect(command.stderr).toContain('refused: poste_mail_inbox');
    writeFileSync(join(world.folder, 'go'), '');
    await command.asked('ended: end_turn');
  });

  test('what comes during a turn is said after it', SLOW, async () => {
    const world = await AcpWorld.make();
    const command = world.run('works');
    await world.hasSession();
    expect(await world.send()).toMatchObject({ status: 'live-wake' });
    expect(await world.send()).toMatchObject({ status: 'live-next-prompt' });
    expect(world.noted('prompts')).toHaveLength(1);
    writeFileSync(join(world.folder, 'go'), '');
    await command.asked('a turn for 2 unread messages ended: end_turn');
    expect(world.noted('prompts')[1]).toEqual([{ type: 'text', text: LINES }]);
    command.signal('SIGTERM');
    expect((await command.ended()).code).toBe(EXIT.ok);
  });

  test.each([
    ['is refused whatever it asks for', [], ['no', 'no']],
    ['may use the mail tools, and no command that is called like one', ['--allow-tools'], ['yes', 'no']],
  ])('%s', SLOW, async (_what, flags, options) => {
    const world = await AcpWorld.make();
    const command = world.run('asks', ...flags);
    await world.hasSession();
    await world.send();
    await command.asked('ended: end_turn');
    expect(world.noted('outcomes')).toEqual(options.map((optionId) => ({ outcome: 'selected', optionId })));
  });

  test('a model that refuses the turn is told to the owner, and the program goes on', SLOW, async () => {
    const world = await AcpWorld.make();
    const command = world.run('refuses');
    await world.hasSession();
    await world.send();
    await command.asked('a turn failed: Internal error: no credit');
    expect(world.noted('starts')).toHaveLength(1);
  });

  test('a turn that takes too long is cancelled', SLOW, async () => {
    const world = await AcpWorld.make();
    const command = world.run('works', '--timeout', '1');
    await world.hasSession();
    await world.send();
    await command.asked('a turn takes too long; it is cancelled');
    await command.asked('ended: end_turn');
    expect(world.noted('cancels')).toEqual([true]);
  });

  test.each([
    ['ends', 'the program ended with exit code 3, after 2 starts in a row without a turn'],
    ['wants a login', 'the program began no session (Authentication required), after 2 starts'],
  ])('a program that %s is started again, a few times', SLOW, async (way, said) => {
    const world = await AcpWorld.make();
    const { code, stderr } = await world.run(way, '--tries', '2', '--pause', '0.1').ended();
    expect(code).toBe(EXIT.failure);
    expect(stderr).toContain('it is started again in 0.1 s');
    expect(stderr).toContain(said);
    expect(world.noted('starts')).toHaveLength(2);
  });

  test('one that ends in a turn gets the doorbell again', SLOW, async () => {
    const world = await AcpWorld.make();
    const command = world.run('ends in the turn', '--tries', '2', '--pause', '0.1');
    await world.hasSession();
    await world.send();
    expect((await command.ended()).stderr).toContain('the program ended with exit code 4, after 2 starts');
    expect(world.noted('prompts')).toHaveLength(2);
  });

  test('one that does not even end its turn when it is cancelled is ended', SLOW, async () => {
    const world = await AcpWorld.make();
    const command = world.run('never ends', '--timeout', '0.2', '--tries', '1');
    await world.hasSession();
    await world.send();
    const { code, stderr } = await command.ended();
    expect(code).toBe(EXIT.failure);
    expect(stderr).toContain('the program did not end its turn (it did not answer within 5.2 s), after 1 start');
    expect(isGone(Number(world.noted('starts')[0]))).toBe(true);
  });

  test('one that ends after a turn is started again, also when one start may fail', SLOW, async () => {
    const world = await AcpWorld.make();
    const command = world.run('ends after the turn', '--tries', '1', '--pause', '0.1');
    await world.hasSession();
    await world.send();
    await command.asked('the program ended with exit code 5; it is started again in 0.1 s');
    command.signal('SIGTERM');
    expect((await command.ended()).code).toBe(EXIT.ok);
  });

  test('goes on when nobody reads what the agent says any more', SLOW, async () => {
    const world = await AcpWorld.make();
    const context = commandContext({ environment: world.home.environment });
    endWithOutput(context, (failure) => {
      throw failure;
    });
    const command = world.runIn(context, 'speaks');
    await world.hasSession();
    await world.send();
    await command.printed('Hm.');
    context.stdout.emit('error', Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    await command.asked('ended: end_turn');
    expect(world.noted('starts')).toHaveLength(1);
  });

  test('goes with no option that is for a command', async () => {
    const world = await AcpWorld.make();
    for (const flags of [['--reply'], ['--once'], ['--max', '1']]) {
      expect(await world.run('speaks', ...flags).ended()).toMatchObject({ code: EXIT.usage });
    }
    const { code, stderr } = await world.home.run('run', '--as', 'ben', '--allow-tools', '--', 'true');
    expect({ code, stderr }).toEqual({
      code: EXIT.usage,
      stderr: expect.stringContaining('goes with --acp') as string,
    });
    writeFileSync(join(world.folder, 'go'), '');
  });
});

test('a wait that is over before it begins ends at once', async () => {
  const never = new Promise<never>(() => undefined);
  await expect(within(never, undefined, AbortSignal.abort())).rejects.toThrow('aborted');
});

test.each([
  [{ title: 'poste_mail_inbox', kind: 'other' as const }, true],
  [{ title: 'mcp__poste__mail_send' }, true],
  [{ title: 'mail_reply (poste MCP Server)', kind: null }, true],
  [{ title: '{}', kind: 'other' as const, _meta: { toolName: 'mcp__poste__mail_agents' } }, true],
  [{ title: 'poste_mail_inbox', kind: 'other' as const, _meta: { toolName: 'bash' } }, false],
  [{ title: 'poste_mail_inbox', kind: 'execute' as const }, false],
  [{ title: 'poste_mail_inbox; rm -rf /' }, false],
  [{ title: 'mail_inbox' }, false],
  [{ title: 'mail_inbox (other MCP Server)' }, false],
  [{}, false],
])('%j is a mail tool: %s', (toolCall, expected) => {
  expect(isMailTool(toolCall)).toBe(expected);
});
