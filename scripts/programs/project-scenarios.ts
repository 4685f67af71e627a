/** Several checkouts on one machine, each with agents of its own by `poste setup --project`, and POSTE_AGENT. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { claudeHome } from './claude.ts';
import { codexModel, codexReady, codexSettings, trustHooks } from './codex.ts';
import type { ProgramName } from './installs.ts';
import { geminiHome, openCodeHome, openCodeServer } from './other-programs.ts';
import { check, rest, saidIsWhatHappens, type Scenario, scenario } from './scenario.ts';
import { idle, PROMPTS, SETTLE_MS } from './turns.ts';
import { until } from '../until.ts';
import { READER, type World } from './world.ts';

const SETUP = ['setup', '--yes', '--no-service', '--allow-tools'];

/** Two checkouts; the first one is the usual project. */
function checkouts(world: World): string[] {
  const folders = [world.project, join(world.home, 'second')];
  for (const folder of folders) mkdirSync(join(folder, '.git'), { recursive: true });
  return folders;
}

async function setUp(world: World, folders: readonly string[]): Promise<void> {
  for (const folder of folders) await world.poste(...SETUP, '--project', folder);
}

async function isLive(world: World, agent: string): Promise<void> {
  await until(`${agent} is live`, async () => (await world.presence(agent)).includes('live') || undefined);
  await rest(SETTLE_MS);
}

async function claudes(world: World, folders: readonly string[]): Promise<void> {
  await claudeHome(world, { hasHooks: false, hasTools: false, readsMail: true, folders });
  await setUp(world, folders);
  for (const folder of folders) {
    const terminal = await world.terminal('claude', [], folder);
    await terminal.shows(/❯/);
    await rest(SETTLE_MS);
    await idle(world, terminal);
  }
}

/** All threads are those of one app server. */
async function codexes(world: World, folders: readonly string[]): Promise<void> {
  world.write('.codex/config.toml', codexSettings(world, folders));
  codexModel(world, true);
  await setUp(world, folders);
  for (const [at, folder] of folders.entries()) {
    const terminal = await world.terminal('codex', [], folder);
    await (at === 0 ? trustHooks(terminal) : codexReady(terminal));
    await idle(world, terminal);
  }
}

async function geminis(world: World, folders: readonly string[]): Promise<void> {
  await geminiHome(world, { hasTools: false, hasHooks: false, readsMail: true });
  await setUp(world, folders);
  for (const [at, folder] of folders.entries()) {
    const terminal = await world.terminal('gemini', [], folder);
    await terminal.shows(/Type your message/);
    await isLive(world, agentsOf('gemini')[at] ?? '');
    await idle(world, terminal);
  }
}

/** One server has both. */
async function openCodes(world: World, folders: readonly string[]): Promise<void> {
  await openCodeHome(world, { hasTools: false, hasHooks: false, readsMail: true });
  await setUp(world, folders);
  const { promptIn } = await openCodeServer(world);
  for (const folder of folders) await promptIn(folder, PROMPTS.greet);
  for (const agent of agentsOf('opencode')) await isLive(world, agent);
}

function agentsOf(command: string): string[] {
  return [`${command}-project`, `${command}-second`];
}

const OPEN = { claude: claudes, codex: codexes, gemini: geminis, opencode: openCodes } satisfies Partial<
  Record<ProgramName, (world: World, folders: readonly string[]) => Promise<void>>
>;

const CHECKOUT_SCENARIOS = (Object.keys(OPEN) as (keyof typeof OPEN)[]).map(
  (program): Scenario =>
    scenario(program, 'two checkouts: mail for each wakes the session there, which reads it', async (world) => {
      const folders = checkouts(world);
      await OPEN[program](world, folders);
      const notes: string[] = [];
      for (const [at, agent] of agentsOf(program).entries()) {
        await isLive(world, agent);
        const to = { agent, shows: folders[at] ?? '' };
        notes.push(`${agent}: ${await saidIsWhatHappens(world, { said: 'live-wake', to })}`);
        await until('the mail is read', async () => (await world.unread(agent)) === 0 || undefined);
      }
      const others = await world.presence(program);
      check(!others.includes('live'), `the agent of all other folders is live`);
      return notes.join('; ');
    }),
);

/** The variable of one terminal reaches the tools as well as the hooks. */
const NAMED_SCENARIOS = (['claude', 'codex'] as const).map(
  (program): Scenario =>
    scenario(program, 'POSTE_AGENT: its mail wakes the session, which reads it', async (world) => {
      const [folder = ''] = checkouts(world);
      Object.assign(world.env, { POSTE_AGENT: READER });
      await OPEN[program](world, [folder]);
      await isLive(world, READER);
      const note = await saidIsWhatHappens(world, { said: 'live-wake' });
      await until('the mail is read', async () => (await world.unread()) === 0 || undefined);
      return note;
    }),
);

export const PROJECT_SCENARIOS: readonly Scenario[] = [...CHECKOUT_SCENARIOS, ...NAMED_SCENARIOS];
