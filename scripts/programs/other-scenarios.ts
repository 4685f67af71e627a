/** What Gemini CLI, Qwen Code and OpenCode do with Poste, by the hooks and the plugin that it writes for them. */
import { geminiHome, openCodeHome, openCodeServer, paneSession, qwenHome } from './other-programs.ts';
import { check, rest, saidIsWhatHappens, type Scenario, scenario } from './scenario.ts';
import type { Terminal } from './terminal.ts';
import { idle, prompt, PROMPTS, refusedTurn, SETTLE_MS, SLOW_END, SLOW_MS } from './turns.ts';
import { until } from '../until.ts';
import type { World } from './world.ts';

/** After its turn, or after an answer, a line comes this soon. */
const SOON_MS = 8000;

/** The processes in which the plugin of OpenCode waits. */
const WAITS = /session\0wait\0/;

/** A program that is woken by keys in its pane of tmux. */
interface PaneProgram {
  name: 'gemini' | 'qwen';
  home: (world: World) => Promise<void>;
  settings: string;
  /** Its dialog for a command of the shell. */
  dialog: RegExp;
  /** What its user has on the screen, by keys, and what shows it: nothing is submitted to it. */
  occupied: Readonly<Record<string, readonly [keys: readonly string[], shown: RegExp]>>;
}

const GEMINI: PaneProgram = {
  name: 'gemini',
  home: geminiHome,
  settings: '.gemini/settings.json',
  dialog: /Allow once/,
  occupied: {
    'a prompt half typed': [['half a thought'], /> half a thought/],
    'its shell mode': [['!'], /! +Type your shell command/],
    'a shell command half typed': [['!', 'touch x; echo '], /! touch x; echo/],
    'its settings open': [['/settings', 'Enter'], /Use Enter to select/],
  },
};

const QWEN: PaneProgram = {
  name: 'qwen',
  home: qwenHome,
  settings: '.qwen/settings.json',
  dialog: /Yes, allow once/,
  occupied: {
    'a prompt half typed': [['half a thought'], /> half a thought/],
    'its shell mode': [['!'], /\n! +Type your message/],
    'a shell command half typed': [['!', 'touch x; echo '], /! touch x; echo/],
    'its settings open': [['/settings', 'Enter'], /Use Enter to select/],
  },
};

async function session({ name, home }: PaneProgram, world: World): Promise<Terminal> {
  await home(world);
  return paneSession(world, name);
}

async function waitsForDoorbell(world: World): Promise<void> {
  await until('its plugin waits', () => world.processes(WAITS).length > 0 || undefined);
  // The call to the daemon comes a moment later.
  await rest(SETTLE_MS);
}

/** Qwen Code hides its scroll bars after a while. */
function withoutBars(screen: string): string {
  return screen.replaceAll(/[ │█]+$/gm, '');
}

function occupiedScenarios(program: PaneProgram): Scenario[] {
  return Object.entries(program.occupied).map(([state, [keys, shown]]) =>
    scenario(program.name, `${state}: nothing is typed`, async (world) => {
      const terminal = await session(program, world);
      await idle(world, terminal);
      for (const key of keys) {
        await (key === 'Enter' ? terminal.press(key) : terminal.type(key));
        await rest(500);
      }
      await terminal.shows(shown);
      await rest(SETTLE_MS);
      const [before, settings] = [await terminal.screen(), world.read(program.settings)];
      const note = await saidIsWhatHappens(world, { said: 'live-next-prompt', sees: false });
      check(withoutBars(await terminal.screen()) === withoutBars(before), 'its screen has changed');
      check(world.read(program.settings) === settings, 'its settings have changed');
      return note;
    }),
  );
}

function paneScenarios(program: PaneProgram): Scenario[] {
  return [
    ...occupiedScenarios(program),
    scenario(program.name, 'idle after a turn, in tmux: woken', async (world) => {
      const terminal = await session(program, world);
      await idle(world, terminal);
      return saidIsWhatHappens(world, { said: 'live-wake' });
    }),
    scenario(program.name, 'at work, while the model speaks: read after the turn', async (world) => {
      const terminal = await session(program, world);
      await prompt(world, terminal, PROMPTS.slow);
      await rest(500);
      const before = world.model.turns.length;
      const { status } = await world.send();
      const asked = await world.rungWithin(SLOW_MS + SOON_MS, before);
      check(asked !== undefined, `poste send said ${status}, and the model did not see it`);
      check(asked.whole.includes(SLOW_END), 'its answer was cut off');
      return `said ${status}`;
    }),
    scenario(program.name, 'at a permission dialog: nothing is typed, and read after the turn', async (world) => {
      const terminal = await session(program, world);
      await prompt(world, terminal, PROMPTS.tool);
      await terminal.shows(program.dialog);
      const before = world.model.turns.length;
      const note = await saidIsWhatHappens(world, { said: 'live-next-prompt', sees: false });
      check(program.dialog.test(await terminal.screen()), 'the dialog is gone');
      await terminal.press('Enter');
      const asked = await world.rungWithin(SLOW_MS + SOON_MS, before);
      check(asked !== undefined, 'the model did not see it after the turn');
      return note;
    }),
  ];
}

/** No hook of Gemini CLI tells of a turn that failed. */
const REFUSED_QWEN = scenario('qwen', 'its model refuses the turn that mail began: woken again', async (world) => {
  const reading = { ...QWEN, home: (here: World) => qwenHome(here, { readsMail: true }) };
  await idle(world, await session(reading, world));
  return refusedTurn(world);
});

const OPENCODE_SCENARIOS: readonly Scenario[] = [
  scenario('opencode', 'serve, idle after a turn: woken', async (world) => {
    await openCodeHome(world);
    const { prompt: ask } = await openCodeServer(world);
    await ask(PROMPTS.greet);
    await waitsForDoorbell(world);
    return saidIsWhatHappens(world, { said: 'live-wake' });
  }),
  scenario('opencode', 'serve, at work, while a tool runs: read in the same turn', async (world) => {
    await openCodeHome(world);
    const { prompt: ask } = await openCodeServer(world);
    await ask(PROMPTS.greet);
    await waitsForDoorbell(world);
    const before = world.model.turns.length;
    const turn = ask(PROMPTS.tool);
    await until('the tool runs', () => world.model.turns.length > before || undefined);
    await rest(500);
    const { status } = await world.send();
    const isAsked = world.rung(before) !== undefined;
    // The proof is given a moment before the request.
    if (status === 'live-wake' && !isAsked) await until('the model is asked', () => world.rung(before), 1000);
    const asked = await world.rungWithin(SLOW_MS + SOON_MS, before);
    check(asked !== undefined, `poste send said ${status}, and the model did not see it`);
    check(asked.newest.includes('tool_result'), 'it came in a turn of its own');
    await turn;
    return `said ${status}, ${isAsked ? 'when the model had seen it' : 'before the model saw it'}`;
  }),
  scenario('opencode', 'run, mail during its turn: no line, and its answer stays', async (world) => {
    await openCodeHome(world);
    const run = world.run('opencode', ['run', PROMPTS.slow]);
    await until('the model is asked', () => world.model.turns.length > 0 || undefined);
    const note = await saidIsWhatHappens(world, { said: 'offline', sees: false });
    const { stdout } = await run;
    check(stdout.includes(SLOW_END) && !stdout.includes('Done.'), `its answer is ${stdout}`);
    return note;
  }),
  scenario(
    'opencode',
    'killed: what it left waiting neither keeps it live nor takes the doorbell of the next one',
    async (world) => {
      await openCodeHome(world);
      const first = await openCodeServer(world);
      await first.prompt(PROMPTS.greet);
      await waitsForDoorbell(world);
      const orphans = world.processes(WAITS);
      first.child.kill('SIGKILL');
      await until('it has ended', () => first.child.exitCode ?? first.child.signalCode ?? undefined);
      const waiting = world.processes(WAITS);
      check(
        orphans.length === 1 && waiting.includes(orphans[0] ?? 0),
        `${orphans.length} waits, ${waiting.length} left`,
      );
      const note = await saidIsWhatHappens(world, { said: 'offline', sees: false });
      check(!(await world.presence()).includes('live'), 'its session is still live');
      await until('the orphan has ended', () => world.processes(WAITS).length === 0 || undefined);
      const next = await openCodeServer(world);
      const before = world.model.turns.length;
      await next.prompt(PROMPTS.greet);
      check((await world.rungWithin(SOON_MS, before)) !== undefined, 'the next one was not told of the mail');
      return note;
    },
  ),
];

export const OTHER_SCENARIOS: readonly Scenario[] = [
  ...paneScenarios(GEMINI),
  ...paneScenarios(QWEN),
  REFUSED_QWEN,
  ...OPENCODE_SCENARIOS,
];
