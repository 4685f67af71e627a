/** Programs that `poste run --acp` keeps as workers: woken over the Agent Client Protocol, without hooks. */
import type { ChildProcess } from 'node:child_process';
import { until } from '../until.ts';
import { bareGeminiHome, bareOpenCodeHome } from './other-programs.ts';
import { check, saidIsWhatHappens, type Scenario, scenario } from './scenario.ts';
import { usualModel } from './turns.ts';
import { READER, type World } from './world.ts';

interface AcpProgram {
  name: 'gemini' | 'opencode';
  /** What is typed behind its name. */
  words: readonly string[];
  /** A home in which it asks for no login, talks to the model by script, and knows nothing of Poste. */
  home: (world: World) => void;
  /** How it calls the tool that reads mail. */
  inbox: string;
}

const GEMINI: AcpProgram = {
  name: 'gemini',
  words: ['--acp'],
  home: bareGeminiHome,
  inbox: 'mcp_poste_mail_inbox',
};

const OPENCODE: AcpProgram = {
  name: 'opencode',
  words: ['acp'],
  home: (world) => bareOpenCodeHome(world, { permission: { '*': 'ask' } }),
  inbox: 'poste_mail_inbox',
};

interface Worker {
  child: ChildProcess;
  output: () => string;
}

/** The program as a worker; its `poste mcp` runs. */
async function worker(world: World, { name, words, home, inbox }: AcpProgram): Promise<Worker> {
  home(world);
  usualModel(world, { shell: () => ({ type: 'text', text: 'No.' }), inbox, readsMail: true });
  const args = ['run', '--as', READER, '--acp', '--allow-tools', '--pause', '1', '--', name, ...words];
  const run = world.start('poste', args);
  await hasTools(world);
  return run;
}

const MCP = /poste\0mcp\0|main\.js\0mcp\0/;

async function hasTools(world: World): Promise<void> {
  await until('the program starts poste mcp', () => world.processes(MCP).length > 0 || undefined, 90_000);
  await until('its session is live', async () => ((await world.presence()).length > 1 ? true : undefined), 30_000);
}

async function readsAll(world: World): Promise<void> {
  await until('the mail is read', async () => ((await world.unread()) === 0 ? true : undefined), 20_000);
}

function scenariosOf(program: AcpProgram): Scenario[] {
  // Not that of poste run, which names the program as well.
  const commandLine = new RegExp(`^(?!.*\0run\0--as\0).*\0${program.words.join('\0')}\0`, 's');
  return [
    scenario(program.name, 'over ACP, idle: woken, and the mail is read', async (world) => {
      await worker(world, program);
      const first = await saidIsWhatHappens(world, { said: 'live-wake' });
      await readsAll(world);
      const second = await saidIsWhatHappens(world, { said: 'live-wake' });
      await readsAll(world);
      return `${first}; ${second}`;
    }),
    scenario(program.name, 'over ACP, killed: started again, and woken', async (world) => {
      const { output } = await worker(world, program);
      for (const pid of world.processes(commandLine)) process.kill(pid, 'SIGKILL');
      await until('it is started again', () => (output().includes('started again') ? true : undefined), 20_000);
      await until('the old poste mcp ends', async () =>
        (await world.presence()).includes('ended') ? true : undefined,
      );
      await hasTools(world);
      const said = await saidIsWhatHappens(world, { said: 'any', sees: true, seesWithinMs: 30_000 });
      await readsAll(world);
      return said;
    }),
    scenario(program.name, 'over ACP, its poste run stopped: nothing of it is left', async (world) => {
      const { child } = await worker(world, program);
      child.kill('SIGTERM');
      await until('poste run ends', () => child.exitCode ?? child.signalCode ?? undefined, 20_000);
      await until('the program ends', () => (world.processes(commandLine).length === 0 ? true : undefined));
      await until('its poste mcp ends', () => (world.processes(MCP).length === 0 ? true : undefined));
      check(child.exitCode === 0, `poste run ended with ${child.exitCode}`);
    }),
  ];
}

export const ACP_SCENARIOS = [...scenariosOf(GEMINI), ...scenariosOf(OPENCODE)];
