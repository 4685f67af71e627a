/** Other kinds of sessions of Claude Code: in auto mode, in the background, and with a subagent at work. */
import { claudeHome, type ClaudeSetting, claudeSession } from './claude.ts';
import { check, rest, saidIsWhatHappens, type Scenario, scenario } from './scenario.ts';
import { idle, prompt, PROMPTS, SETTLE_MS, SLOW_END, SLOW_MS } from './turns.ts';
import { until } from '../until.ts';
import type { World } from './world.ts';

/** Without hooks a wake is proven by the model's reading its mail. */
const WAYS: readonly (readonly [by: string, setting: ClaudeSetting])[] = [
  ['with hooks', {}],
  ['tools alone', { hasHooks: false, readsMail: true }],
];

const AUTO = ['--permission-mode', 'auto'];
const BYPASS = ['--dangerously-skip-permissions'];
/** Auto mode asks a server whether a tool may run, which the scripted model is not: then it asks its user. */
const CHECK_FAILED = /Auto mode can't check actions/;

/** The prompt, and the model's answer to it: a subagent that speaks slowly. */
const DELEGATE = 'use a subagent';

function delegates(world: World): void {
  const usual = world.model.script;
  world.model.script = (asked) =>
    asked.newest.includes(DELEGATE) && asked.tools.includes('Agent')
      ? {
          type: 'tool',
          name: 'Agent',
          input: { description: 'Speak', prompt: PROMPTS.slow, subagent_type: 'general-purpose' },
        }
      : usual(asked);
}

function autoScenario(by: string, setting: ClaudeSetting): Scenario {
  return scenario('claude', `auto mode, ${by}: woken`, async (world) => {
    const terminal = await claudeSession(world, { ...setting, args: AUTO });
    await idle(world, terminal);
    return saidIsWhatHappens(world, { said: 'live-wake' });
  });
}

function checkScenario(by: string, setting: ClaudeSetting): Scenario {
  const { hasHooks = true } = setting;
  return scenario(
    'claude',
    `auto mode asks its user, ${by}: not said to be woken, and the question stays`,
    async (world) => {
      const terminal = await claudeSession(world, { ...setting, args: AUTO });
      await idle(world, terminal);
      delegates(world);
      await prompt(world, terminal, DELEGATE);
      await terminal.shows(CHECK_FAILED);
      const note = await saidIsWhatHappens(world, { said: hasHooks ? 'live-next-prompt' : 'offline', sees: false });
      check(CHECK_FAILED.test(await terminal.screen()), 'the question is gone');
      return note;
    },
  );
}

function backgroundScenario(by: string, setting: ClaudeSetting): Scenario {
  return scenario('claude', `in the background (claude --bg), idle, ${by}: woken`, async (world) => {
    await claudeHome(world, { ...setting, readsMail: true });
    await world.run('claude', ['--bg', PROMPTS.greet]);
    await until('the model is asked', () => world.model.turns.length > 0 || undefined);
    await until('its turn is over', async () => {
      const { stdout } = await world.run('claude', ['agents', '--json']);
      return /"status": "idle"/.test(stdout) || undefined;
    });
    await rest(SETTLE_MS);
    const note = await saidIsWhatHappens(world, { said: 'live-wake' });
    await until('the mail is read', async () => (await world.unread()) === 0 || undefined);
    return note;
  });
}

function subagentScenario(by: string, setting: ClaudeSetting): Scenario {
  return scenario('claude', `a subagent at work, ${by}: woken itself, and the subagent goes on`, async (world) => {
    const terminal = await claudeSession(world, { ...setting, args: BYPASS });
    await idle(world, terminal);
    delegates(world);
    await prompt(world, terminal, DELEGATE);
    await terminal.shows(/Backgrounded agent/);
    await rest(SETTLE_MS);
    const before = world.model.turns.length;
    const note = await saidIsWhatHappens(world, { said: 'live-wake' });
    const told = world.rung(before)?.whole ?? '';
    check(told.includes(DELEGATE), 'the line went to the subagent');
    const isDone = (): true | undefined =>
      world.model.turns.slice(before).some(({ newest }) => newest.includes(SLOW_END)) || undefined;
    await until('its answer is there whole', isDone, SLOW_MS + 5000);
    return note;
  });
}

export const CLAUDE_KIND_SCENARIOS: readonly Scenario[] = [
  autoScenario,
  checkScenario,
  backgroundScenario,
  subagentScenario,
].flatMap((make) => WAYS.map(([by, setting]) => make(by, setting)));
