/** What Codex does with Poste. */
import { codexHome, codexSession } from './codex.ts';
import { check, type Expected, ms, rest, saidIsWhatHappens, type Scenario, scenario } from './scenario.ts';
import type { Terminal } from './terminal.ts';
import { GREETED, prompt, PROMPTS, refusedTurn, SLOW_END, SLOW_MS, wholeTurn, SETTLE_MS, idle } from './turns.ts';
import { until } from '../until.ts';
import { hasDoorbell, type World } from './world.ts';

/** Codex looks into its queue every few seconds. */
const QUEUE_MS = 12_000;

/** How a session comes to be idle, and what is to be said of mail then. */
const IDLE: Readonly<
  Record<string, { args?: string[]; reach: (world: World, terminal: Terminal) => Promise<void>; expected: Expected }>
> = {
  'idle after a turn': { reach: wholeTurn, expected: { said: 'live-wake' } },
  'idle after Esc': { reach: interrupted, expected: { said: 'live-wake' } },
  'idle after a turn, --no-daemon': {
    args: ['--no-daemon'],
    reach: wholeTurn,
    // A send does not wait for as long as the queue may take.
    expected: { said: 'any', sees: true, seesWithinMs: QUEUE_MS },
  },
  // Codex holds its queue until its user's next prompt.
  'idle after Esc, --no-daemon': {
    args: ['--no-daemon'],
    reach: interrupted,
    expected: { said: 'live-next-prompt', sees: false, seesWithinMs: QUEUE_MS },
  },
};

async function interrupted(world: World, terminal: Terminal): Promise<void> {
  await prompt(world, terminal, PROMPTS.slow);
  await terminal.shows(/two\./);
  await terminal.press('Escape');
  await terminal.shows(/interrupted/i);
}

const IDLE_SCENARIOS = Object.entries(IDLE).map(
  ([name, { args = [], reach, expected }]): Scenario =>
    scenario(
      'codex',
      `${name}: ${expected.sees === false ? 'not woken, and not said to be' : 'woken'}`,
      async (world) => {
        const terminal = await codexSession(world, { args });
        await reach(world, terminal);
        await rest(SETTLE_MS);
        return saidIsWhatHappens(world, expected);
      },
    ),
);

function workingScenario(what: 'slow' | 'tool'): Scenario {
  return scenario(
    'codex',
    `at work, while ${what === 'tool' ? 'a tool runs' : 'the model speaks'}: read, and nothing is cut off`,
    async (world) => {
      const terminal = await codexSession(world);
      await prompt(world, terminal, PROMPTS[what]);
      await rest(500);
      const before = world.model.turns.length;
      const startMs = performance.now();
      const { status } = await world.send();
      const asked = await world.rungWithin(SLOW_MS + QUEUE_MS, before);
      check(asked !== undefined, `poste send said ${status}, and the model did not see it`);
      if (what === 'slow') check(asked.whole.includes(SLOW_END), 'its answer was cut off');
      return `said ${status}, at the model after ${ms(asked.atMs - startMs)}`;
    },
  );
}

/** How long the server of Codex keeps a thread that no terminal shows any more. */
const FORGOTTEN_MS = 75_000;

function goneScenario(how: 'ended' | 'killed'): Scenario {
  return scenario(
    'codex',
    `${how}: woken only while its server has it, and no old doorbell runs when it is resumed`,
    async (world) => {
      // Mail that stays unread would ring again, and its server keep the thread for longer.
      const terminal = await codexSession(world, { readsMail: true });
      await idle(world, terminal);
      const pid = await terminal.pid();
      if (how === 'killed') {
        process.kill(pid, 'SIGKILL');
      } else {
        await terminal.enter('/quit');
      }
      await until('Codex has ended', () => !world.processes(/./).includes(pid) || undefined);
      const first = await saidIsWhatHappens(world, { said: 'any' });
      await rest(FORGOTTEN_MS);
      const later = await saidIsWhatHappens(world, { said: 'offline', sees: false });
      const before = world.model.turns.length;
      const again = await world.terminal('codex', ['resume', '--last']);
      await again.shows(new RegExp(GREETED));
      await rest(QUEUE_MS);
      const stale = world.model.turns.slice(before).filter(({ newest }) => hasDoorbell(newest));
      check(stale.length === 0, `${stale.length} turns began with a doorbell`);
      return `at once ${first}; later ${later}`;
    },
  );
}

export const CODEX_SCENARIOS: readonly Scenario[] = [
  ...IDLE_SCENARIOS,
  scenario('codex', 'never prompted: what is said is what happens', async (world) => {
    await codexSession(world);
    await rest(SETTLE_MS);
    const before = world.model.turns.length;
    const { status, detail } = await world.send();
    const asked = await world.rungWithin(6000, before);
    check(
      (status === 'live-wake') === (asked !== undefined),
      `said ${status} (${detail}), and the model saw it: ${asked !== undefined}`,
    );
    return `said ${status}`;
  }),
  scenario('codex', 'woken, it reads its mail where its owner allowed nothing', async (world) => {
    const terminal = await codexSession(world, { readsMail: true });
    await idle(world, terminal);
    const note = await saidIsWhatHappens(world, { said: 'live-wake' });
    await until('the mail is read', async () => (await world.unread()) === 0 || undefined);
    return note;
  }),
  scenario('codex', 'its API refuses the turn that mail began: woken again, and it reads its mail', async (world) => {
    const terminal = await codexSession(world, { readsMail: true });
    await idle(world, terminal);
    return refusedTurn(world);
  }),
  scenario('codex', '--no-daemon, while the server of another Codex runs: woken', async (world) => {
    // Without a prompt its thread is unknown to Poste, and its server runs.
    await codexSession(world);
    const terminal = await world.terminal('codex', ['--no-daemon']);
    await terminal.shows(/Ask Codex to do anything/);
    await rest(SETTLE_MS);
    await idle(world, terminal);
    return saidIsWhatHappens(world, { said: 'any', sees: true, seesWithinMs: QUEUE_MS });
  }),
  workingScenario('slow'),
  workingScenario('tool'),
  goneScenario('ended'),
  goneScenario('killed'),
  scenario(
    'codex',
    'exec with mail during its turn: not said to be woken, nor to have another prompt',
    async (world) => {
      await codexHome(world);
      const args = ['exec', '--skip-git-repo-check', '--dangerously-bypass-hook-trust', PROMPTS.slow];
      const running = world.run('codex', args);
      await until('the model is asked', () => world.model.turns.length > 0 || undefined);
      const { status } = await world.send();
      const { stdout } = await running;
      check(status === 'offline', `poste send said ${status}`);
      check(stdout.includes(SLOW_END), `it printed ${stdout}`);
      return `said ${status}`;
    },
  ),
];
