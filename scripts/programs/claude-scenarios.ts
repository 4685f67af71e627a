/** What Claude Code does with Poste: sessions in a terminal, in every state in which mail can find them. */
import { claudeHome, type ClaudeSetting, claudeSession } from './claude.ts';
import { check, ms, rest, saidIsWhatHappens, type Scenario, scenario } from './scenario.ts';
import type { Terminal } from './terminal.ts';
import {
  GREETED,
  listedMail,
  prompt,
  PROMPTS,
  refusedTurn,
  SLOW_END,
  SLOW_MS,
  wholeTurn,
  SETTLE_MS,
  idle,
} from './turns.ts';
import { until, within } from '../until.ts';
import { type Ran, READER, WRITER, type World } from './world.ts';

/** Without hooks a wake is proven by the model's reading its mail. */
const TOOLS_ONLY: ClaudeSetting = { hasHooks: false, readsMail: true };

/** Returns how a session comes to be idle. */
const IDLE: Readonly<Record<string, (world: World, terminal: Terminal) => Promise<void>>> = {
  'after a turn': wholeTurn,
  'never prompted': async () => {},
  'after /clear': async (world, terminal) => {
    await wholeTurn(world, terminal);
    await terminal.enter('/clear');
    await until('the screen is cleared', async () => !(await terminal.screen()).includes(GREETED) || undefined);
  },
  'after Esc': async (world, terminal) => {
    await prompt(world, terminal, PROMPTS.slow);
    await terminal.shows(/one\./);
    await terminal.press('Escape');
    await terminal.shows(/Interrupted/);
  },
  'with a half-typed draft': async (world, terminal) => {
    await wholeTurn(world, terminal);
    await terminal.type('half a thought');
    await terminal.shows(/half a thought/);
  },
};

function idleScenario(state: string, by: string, setting: ClaudeSetting): Scenario {
  return scenario('claude', `idle ${state}, ${by}: woken`, async (world) => {
    const terminal = await claudeSession(world, setting);
    await IDLE[state]?.(world, terminal);
    await rest(SETTLE_MS);
    const note = await saidIsWhatHappens(world, { said: 'live-wake' });
    if (state === 'with a half-typed draft') await terminal.shows(/❯\s+half a thought/);
    return note;
  });
}

const IDLE_SCENARIOS = Object.keys(IDLE).flatMap((state) => [
  idleScenario(state, 'with hooks', {}),
  idleScenario(state, 'tools alone', TOOLS_ONLY),
]);

function modeScenario(name: string, setting: ClaudeSetting, isWoken: boolean): Scenario {
  return scenario('claude', `${name}: ${isWoken ? 'woken' : 'not woken, and not said to be'}`, async (world) => {
    const terminal = await claudeSession(world, setting);
    await idle(world, terminal);
    return saidIsWhatHappens(world, { said: isWoken ? 'live-wake' : 'offline' });
  });
}

const BYPASS = ['--dangerously-skip-permissions'];
const MODE_SCENARIOS = [
  modeScenario('bypassPermissions, with hooks', { args: BYPASS }, true),
  modeScenario('bypassPermissions, tools alone', { ...TOOLS_ONLY, args: BYPASS }, true),
  modeScenario('plan mode, with hooks', { args: ['--permission-mode', 'plan'] }, true),
  modeScenario('crossSessionInbound refuse, with hooks', { settings: { crossSessionInbound: 'refuse' } }, true),
  modeScenario(
    'crossSessionInbound refuse, tools alone',
    { ...TOOLS_ONLY, settings: { crossSessionInbound: 'refuse' } },
    false,
  ),
  modeScenario(
    'crossSessionInbound hold, tools alone',
    { ...TOOLS_ONLY, settings: { crossSessionInbound: 'hold' } },
    false,
  ),
];

function workingScenario(what: 'slow' | 'tool', by: string, setting: ClaudeSetting): Scenario {
  const doing = what === 'tool' ? 'while a tool runs' : 'while the model speaks';
  return scenario(
    'claude',
    `at work, ${doing}, ${by}: read ${what === 'tool' ? 'in the same turn' : 'after the turn'}`,
    async (world) => {
      const terminal = await claudeSession(world, setting);
      await prompt(world, terminal, PROMPTS[what]);
      await rest(500);
      const before = world.model.turns.length;
      const { status } = await world.send();
      const asked = await world.rungWithin(SLOW_MS + 5000, before);
      check(asked !== undefined, `poste send said ${status}, and the model did not see it`);
      if (what === 'tool') check(asked.newest.includes('tool_result'), 'it came in a turn of its own');
      else await terminal.shows(new RegExp(SLOW_END));
      return `said ${status}`;
    },
  );
}

const WORKING_SCENARIOS = (['tool', 'slow'] as const).flatMap((what) => [
  workingScenario(what, 'with hooks', {}),
  workingScenario(what, 'tools alone', TOOLS_ONLY),
]);

async function mailIsRead(world: World): Promise<void> {
  await until('the mail is read', async () => (await world.unread()) === 0 || undefined);
}

/** Returns how long a command takes, of nine times. */
async function median(run: () => Promise<Ran>): Promise<number> {
  const taken: number[] = [];
  for (let time = 0; time < 9; time += 1) {
    const { code, stderr, ms: tookMs } = await run();
    check(code === 0, `it ended with ${code}: ${stderr}`);
    taken.push(tookMs);
  }
  return taken.toSorted((a, b) => a - b)[4] ?? 0;
}

/** Kills Claude Code as an out-of-memory killer would. */
async function kill(world: World): Promise<void> {
  const claude = /claude-code[^\0]*\/claude\0/;
  for (const pid of world.processes(claude)) process.kill(pid, 'SIGKILL');
  await until('it has ended', () => world.processes(claude).length === 0 || undefined);
}

const OTHER_SCENARIOS: readonly Scenario[] = [
  scenario('claude', 'its API refuses the turn that mail began: woken again, and it reads its mail', async (world) => {
    const terminal = await claudeSession(world, { readsMail: true });
    await idle(world, terminal);
    return refusedTurn(world);
  }),
  scenario('claude', 'the model sees it but reads no mail, tools alone: not said to be woken', async (world) => {
    const terminal = await claudeSession(world, { hasHooks: false });
    await idle(world, terminal);
    return saidIsWhatHappens(world, { said: 'offline', sees: true });
  }),
  scenario('claude', 'three mails one after another, with hooks: woken three times', async (world) => {
    const terminal = await claudeSession(world, { readsMail: true });
    await wholeTurn(world, terminal);
    const notes: string[] = [];
    for (let mail = 0; mail < 3; mail += 1) {
      await rest(SETTLE_MS);
      notes.push(await saidIsWhatHappens(world, { said: 'live-wake' }));
      await mailIsRead(world);
    }
    return notes.join('; ');
  }),
  // Claude Code drops the same text from the same process for 30 s.
  scenario('claude', 'a second mail within 30 s, tools alone: not woken, and not said to be', async (world) => {
    const terminal = await claudeSession(world, TOOLS_ONLY);
    await idle(world, terminal);
    const first = await saidIsWhatHappens(world, { said: 'live-wake' });
    await mailIsRead(world);
    await rest(SETTLE_MS);
    return `${first}; ${await saidIsWhatHappens(world, { said: 'offline', sees: false })}`;
  }),
  ...(['with hooks', 'tools alone'] as const).map(
    (by): Scenario =>
      scenario('claude', `killed, ${by}: not live, and no hook waits for it`, async (world) => {
        const terminal = await claudeSession(world, by === 'with hooks' ? {} : TOOLS_ONLY);
        await idle(world, terminal);
        await kill(world);
        const note = await saidIsWhatHappens(world, { said: 'offline', sees: false });
        const isOver = (): true | undefined => world.processes(/hooks\0run|\0mcp\0/).length === 0 || undefined;
        await until('hooks and tools have ended', isOver, 10_000);
        check(!(await world.presence()).includes('live'), 'its session is still live');
        return note;
      }),
  ),
  scenario('claude', 'resumed with --continue, not prompted: woken', async (world) => {
    const terminal = await claudeSession(world);
    // Its answer is in the file of the session a moment after it is on the screen.
    await idle(world, terminal);
    await kill(world);
    const again = await world.terminal('claude', ['--continue']);
    await again.shows(/Hello from the model\./);
    await rest(SETTLE_MS);
    return saidIsWhatHappens(world, { said: 'live-wake' });
  }),
  scenario('claude', '-p takes as long with hooks as without', async (world) => {
    await claudeHome(world, { hasHooks: false });
    // The first one makes its folders.
    await world.run('claude', ['-p', PROMPTS.greet]);
    const without = await world.run('claude', ['-p', PROMPTS.greet]);
    await world.poste('hooks', 'install', 'claude-code', '--agent', READER);
    const having = await world.run('claude', ['-p', PROMPTS.greet]);
    check(having.stdout.includes(GREETED), `it printed ${having.stdout}${having.stderr}`);
    const told = `${ms(having.ms)} with hooks, ${ms(without.ms)} without`;
    check(having.ms < without.ms + 2500, told);
    return told;
  }),
  scenario(
    'claude',
    '-p with mail during its turn: not said to be woken, and its answer stays what it was',
    async (world) => {
      await claudeHome(world);
      const running = world.run('claude', ['-p', PROMPTS.slow, '--output-format', 'json']);
      await until('the model is asked', () => world.model.turns.length > 0 || undefined);
      const note = await saidIsWhatHappens(world, { said: 'offline', seesWithinMs: SLOW_MS + 2000 });
      const { stdout } = await running;
      check((JSON.parse(stdout) as { result: string }).result.endsWith(SLOW_END), `it printed ${stdout}`);
      return note;
    },
  ),
  scenario('claude', 'what its prompt hook costs, beside a bare Node', async (world) => {
    const [event, session_id] = ['UserPromptSubmit', 'cost'];
    const input = JSON.stringify({ session_id, hook_event_name: event, prompt: 'say hello' });
    const hook = await median(() => world.run('poste', ['hooks', 'run', 'claude-code', '--agent', READER], { input }));
    const bare = await median(() => world.run('node', ['-e', '0']));
    const told = `${ms(hook)} beside ${ms(bare)}`;
    check(hook < bare * 8, told);
    return told;
  }),
  scenario('claude', 'the mail tools are in the first request', async (world) => {
    // Live by its tools alone: then they are there before the first prompt.
    const terminal = await claudeSession(world, { hasHooks: false });
    await rest(SETTLE_MS);
    await wholeTurn(world, terminal);
    const first = world.model.turns.find(({ newest }) => newest.includes(PROMPTS.greet));
    const missing = ['mail_inbox', 'mail_reply'].filter((tool) => !first?.tools.includes(`mcp__poste__${tool}`));
    check(missing.length === 0, `the first request has no ${missing.join(' and no ')}`);
    return first?.tools.filter((tool) => tool.startsWith('mcp__poste__')).join(', ');
  }),
  scenario('claude', 'woken, it reads its mail and replies', async (world) => {
    const terminal = await claudeSession(world, { readsMail: true });
    await wholeTurn(world, terminal);
    const usual = world.model.script;
    world.model.script = (asked) => {
      const [id] = listedMail(asked.newest);
      if (id === undefined) return usual(asked);
      return { type: 'tool', name: 'mcp__poste__mail_reply', input: { message_id: id, body: 'I have looked.' } };
    };
    await rest(SETTLE_MS);
    const note = await saidIsWhatHappens(world, { said: 'live-wake' });
    const reply = await within(10_000, async () => {
      const list = await world.poste('inbox', 'list', '--as', WRITER, '--json');
      return list.includes('"reply_to"') || undefined;
    });
    check(reply === true, 'the writer has no reply');
    return note;
  }),
];

export const CLAUDE_SCENARIOS: readonly Scenario[] = [
  ...IDLE_SCENARIOS,
  ...MODE_SCENARIOS,
  ...WORKING_SCENARIOS,
  ...OTHER_SCENARIOS,
];
