/** What the MCP Inspector sees of the tools, and which revision of MCP each program agrees on with them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { claudeHome } from './claude.ts';
import { codexHome } from './codex.ts';
import type { ProgramName } from './installs.ts';
import { geminiHome, openCodeHome, openCodeServer } from './other-programs.ts';
import { check, type Scenario, scenario } from './scenario.ts';
import { PROMPTS } from './turns.ts';
import { READER, type World } from './world.ts';

interface ToolList {
  tools: { name: string }[];
}

const TOOLS = ['mail_agents', 'mail_inbox', 'mail_reply', 'mail_send'];

async function inspect(world: World, ...args: string[]): Promise<string> {
  const server = ['--cli', 'poste', 'mcp', '--agent', READER];
  const { code, stdout, stderr } = await world.run('inspector', [...server, ...args]);
  check(code === 0, `it ended with ${code}: ${stderr}${stdout}`);
  return stdout;
}

/** The revision that the server agreed on: what both say passes through tee. */
async function revision(world: World, run: () => Promise<unknown>): Promise<string> {
  const log = join(world.folder, 'mcp');
  world.replaceCommand('poste', `tee -a '${log}-in' | "$POSTE" "$@" | tee -a '${log}-out'`);
  await run();
  const said = readFileSync(`${log}-in`, 'utf8') + readFileSync(`${log}-out`, 'utf8');
  const all = [...said.matchAll(/(?:protocolVersion|protocol-version|protocolversion)"?\s*:\s*"([\d-]{10})"/gi)];
  return all.at(-1)?.[1] ?? `none in ${said.slice(0, 300)}`;
}

function revisionScenario(program: ProgramName, expected: string, run: (world: World) => Promise<unknown>): Scenario {
  return scenario(program, `speaks MCP ${expected}`, async (world) => {
    const agreed = await revision(world, () => run(world));
    check(agreed === expected, `it speaks ${agreed}`);
  });
}

export const MCP_SCENARIOS: readonly Scenario[] = [
  scenario('inspector', 'lists the four tools, and calls one', async (world) => {
    const { tools } = JSON.parse(await inspect(world, '--method', 'tools/list')) as ToolList;
    const names = tools.map(({ name }) => name).toSorted();
    check(names.join() === TOOLS.join(), `the tools are ${names.join(', ')}`);
    await world.send();
    const inbox = await inspect(world, '--method', 'tools/call', '--tool-name', 'mail_inbox');
    check(inbox.includes('Mail 1'), `mail_inbox gave ${inbox}`);
  }),
  revisionScenario('inspector', '2025-11-25', (world) => inspect(world, '--method', 'tools/list')),
  revisionScenario('claude', '2026-07-28', async (world) => {
    await claudeHome(world, { hasHooks: false });
    await world.run('claude', ['-p', PROMPTS.greet]);
  }),
  revisionScenario('codex', '2025-06-18', async (world) => {
    await codexHome(world, { allowsTools: true });
    await world.run('codex', ['exec', '--skip-git-repo-check', PROMPTS.greet]);
  }),
  revisionScenario('gemini', '2025-06-18', async (world) => {
    await geminiHome(world);
    await world.run('gemini', ['-p', PROMPTS.greet]);
  }),
  revisionScenario('opencode', '2025-11-25', async (world) => {
    await openCodeHome(world);
    const { prompt } = await openCodeServer(world);
    await prompt(PROMPTS.greet);
  }),
];
