/** Claude Code with nobody at its keys: a worker that is fed over stdin, and a dialog that waits for its user. */
import { claudeHome, type ClaudeSetting, claudeSession } from './claude.ts';
import { check, rest, saidIsWhatHappens, type Scenario, scenario } from './scenario.ts';
import { prompt, PROMPTS, SLOW_MS, wholeTurn, SETTLE_MS } from './turns.ts';
import { until } from '../until.ts';
import { READER, type World } from './world.ts';

/** How its screen asks. */
const DIALOG = /Do you want to proceed\?/;

function dialogScenario(by: string, setting: ClaudeSetting): Scenario {
  const { hasHooks = true } = setting;
  return scenario(
    'claude',
    `at a permission dialog, ${by}: not said to be woken, the dialog stays, and read after the answer`,
    async (world) => {
      const settings = { permissions: { allow: ['mcp__poste'] } };
      // Its usual mode decides for its user.
      const args = ['--permission-mode', 'default'];
      const terminal = await claudeSession(world, { ...setting, settings, args });
      await wholeTurn(world, terminal);
      const usual = world.model.script;
      const command = 'touch made-by-the-tool';
      world.model.script = (asked) =>
        asked.newest.includes(PROMPTS.tool)
          ? { type: 'tool', name: 'Bash', input: { command, description: 'Make a file' } }
          : usual(asked);
      await prompt(world, terminal, PROMPTS.tool);
      await terminal.shows(DIALOG);
      const before = world.model.turns.length;
      const note = await saidIsWhatHappens(world, { said: hasHooks ? 'live-next-prompt' : 'offline', sees: false });
      check(DIALOG.test(await terminal.screen()), 'the dialog is gone');
      await terminal.press('Enter');
      check((await world.rungWithin(SLOW_MS, before)) !== undefined, 'the model did not see it after the answer');
      return note;
    },
  );
}

interface Worker {
  say: (text: string) => void;
  /** Returns how many answers its caller got. */
  answers: () => number;
}

/** A line that is cut off is none yet. */
function isAnswer(line: string): boolean {
  if (!line.startsWith('{') || !line.endsWith('}')) return false;
  return (JSON.parse(line) as { type: string }).type === 'result';
}

async function worker(world: World, setting: ClaudeSetting, mayBeWoken: boolean): Promise<Worker> {
  await claudeHome(world, { ...setting, hasTools: false });
  const args = ['mcp', '--agent', READER, ...(mayBeWoken ? ['--wake-unattended'] : [])];
  world.write('worker.json', { mcpServers: { poste: { type: 'stdio', command: 'poste', args, env: {} } } });
  const streams = ['--input-format', 'stream-json', '--output-format', 'stream-json', '--verbose'];
  const { child, output } = world.start('claude', ['-p', ...streams, '--mcp-config', `${world.home}/worker.json`]);
  return {
    say: (text) =>
      child.stdin?.write(`${JSON.stringify({ type: 'user', message: { role: 'user', content: text } })}\n`),
    answers: () => output().split('\n').filter(isAnswer).length,
  };
}

function workerScenario(mayBeWoken: boolean, by: string, setting: ClaudeSetting): Scenario {
  const outcome = mayBeWoken ? 'with --wake-unattended: woken' : 'not woken, and not said to be';
  return scenario('claude', `-p fed by stream-json, ${by}, ${outcome}`, async (world) => {
    const { say, answers } = await worker(world, setting, mayBeWoken);
    say(PROMPTS.greet);
    await until('its caller has an answer', () => answers() === 1 || undefined);
    await rest(SETTLE_MS);
    const note = await saidIsWhatHappens(world, { said: mayBeWoken ? 'live-wake' : 'offline' });
    if (mayBeWoken) await until('its caller has the answer of that turn', () => answers() === 2 || undefined);
    else check(answers() === 1, `its caller has ${answers()} answers`);
    return note;
  });
}

export const CLAUDE_WORKER_SCENARIOS: readonly Scenario[] = [
  dialogScenario('with hooks', {}),
  dialogScenario('tools alone', { hasHooks: false, readsMail: true }),
  workerScenario(true, 'with hooks', {}),
  workerScenario(true, 'tools alone', { hasHooks: false, readsMail: true }),
  workerScenario(false, 'with hooks', {}),
  workerScenario(false, 'tools alone', { hasHooks: false, readsMail: true }),
];
