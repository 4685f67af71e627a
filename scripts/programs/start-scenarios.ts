/** The mail tools in the first turn of programs that begin it without waiting for MCP servers, on a busy machine. */
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { claudeHome } from './claude.ts';
import { codexHome } from './codex.ts';
import { check, type Scenario, scenario } from './scenario.ts';
import { PROMPTS } from './turns.ts';
import type { World } from './world.ts';

const STARTS = 6;

/** Two programs that never rest for each processor. */
async function onBusyMachine<T>(run: () => Promise<T>): Promise<T> {
  const busy = Array.from({ length: 2 * availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
  );
  try {
    return await run();
  } finally {
    for (const child of busy) child.kill('SIGKILL');
  }
}

async function haveTools(world: World, program: string, args: readonly string[]): Promise<void> {
  let having = 0;
  await onBusyMachine(async () => {
    for (let start = 0; start < STARTS; start++) {
      const before = world.model.turns.length;
      const { code, stderr } = await world.run(program, args);
      check(code === 0, `it ended with ${code}: ${stderr}`);
      if (world.model.turns[before]?.tools.some((name) => name.endsWith('mail_inbox'))) having++;
    }
  });
  check(having === STARTS, `${having} of ${STARTS} first turns had mail_inbox`);
}

const NAME = 'has the mail tools in its first turn on a busy machine';

export const START_SCENARIOS: readonly Scenario[] = [
  scenario('claude', `-p ${NAME}`, async (world) => {
    await claudeHome(world, { hasHooks: false });
    await haveTools(world, 'claude', ['-p', PROMPTS.greet]);
  }),
  scenario('codex', `exec ${NAME}`, async (world) => {
    await codexHome(world, { allowsTools: true });
    await haveTools(world, 'codex', ['exec', '--skip-git-repo-check', PROMPTS.greet]);
  }),
];
