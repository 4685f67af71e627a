/**
 * `npm run programs`: Poste with the real programs that run agents. They are installed from npm into a cache folder and
 * run in a room of their own (programs/namespace.ts), against a model by script. docs/testing.md says more.
 *
 *     npm run programs                                    everything
 *     npm run programs -- --only claude                   the scenarios whose name contains this
 *     npm run programs -- --version claude=2.1.330        another version
 *     npm run programs -- --list                          only their names
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parsedArguments, unusable } from './parsed-arguments.ts';
import { installed, isProgramName, PROGRAM_NAMES, type ProgramName, type Versions } from './programs/installs.ts';
import { INSIDE, roomFault, runInside } from './programs/namespace.ts';
import { fullName, runScenarios } from './programs/run-scenarios.ts';
import { ACP_SCENARIOS } from './programs/acp-scenarios.ts';
import { APPROVAL_SCENARIOS } from './programs/approval-scenarios.ts';
import { CLAUDE_KIND_SCENARIOS } from './programs/claude-kind-scenarios.ts';
import { CLAUDE_SCENARIOS } from './programs/claude-scenarios.ts';
import { CLAUDE_WORKER_SCENARIOS } from './programs/claude-worker-scenarios.ts';
import { CODEX_SCENARIOS } from './programs/codex-scenarios.ts';
import { MCP_SCENARIOS } from './programs/inspector-scenarios.ts';
import { OTHER_SCENARIOS } from './programs/other-scenarios.ts';
import { PROJECT_SCENARIOS } from './programs/project-scenarios.ts';
import { ANSWER_AND_WAIT_SCENARIOS } from './programs/answer-scenarios.ts';
import { SETUP_SCENARIOS } from './programs/setup-scenarios.ts';
import { START_SCENARIOS } from './programs/start-scenarios.ts';
import { TOOL_SCENARIOS } from './programs/tool-scenarios.ts';
import type { Programs } from './programs/world.ts';

const SCENARIOS = [
  ...CLAUDE_SCENARIOS,
  ...CLAUDE_WORKER_SCENARIOS,
  ...CLAUDE_KIND_SCENARIOS,
  ...CODEX_SCENARIOS,
  ...APPROVAL_SCENARIOS,
  ...OTHER_SCENARIOS,
  ...ACP_SCENARIOS,
  ...ANSWER_AND_WAIT_SCENARIOS,
  ...PROJECT_SCENARIOS,
  ...SETUP_SCENARIOS,
  ...TOOL_SCENARIOS,
  ...MCP_SCENARIOS,
  ...START_SCENARIOS,
];

const { values } = parsedArguments({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    version: { type: 'string', multiple: true, default: [] },
    list: { type: 'boolean', default: false },
  },
});

const chosen = SCENARIOS.filter(
  (scenario) => values.only.length === 0 || values.only.some((part) => fullName(scenario).includes(part)),
);
if (chosen.length === 0)
  unusable(`There is no scenario with ${values.only.join(' or ')} in its name: --list shows all.`);
const versions = chosenVersions();
const wanted = PROGRAM_NAMES.filter((name) => chosen.some(({ programs }) => programs.includes(name)));

function chosenVersions(): Versions {
  const pairs = values.version.map((text): [ProgramName, string] => {
    const [name = '', version = ''] = text.split('=');
    if (isProgramName(name) && version !== '') return [name, version];
    return unusable(`--version takes <program>=<version> of ${PROGRAM_NAMES.join(', ')}, not ${text}.`);
  });
  return Object.fromEntries(pairs);
}

async function programs(): Promise<Programs> {
  const found: Partial<Record<ProgramName, Awaited<ReturnType<typeof installed>>>> = {};
  for (const name of wanted) found[name] = await installed(name, versions);
  return found;
}

/** Outside: what can be missing, the installations, and then the same again inside. */
async function outside(): Promise<number> {
  if (spawnSync('tmux', ['-V']).status !== 0) unusable('This needs tmux.');
  const fault = roomFault();
  if (fault !== undefined) unusable(`This needs a network namespace: ${fault}.`);
  for (const { title, version } of Object.values(await programs())) console.log(`${title} ${version}`);
  console.log('');
  return runInside(fileURLToPath(import.meta.url), process.argv.slice(2));
}

if (values.list) {
  for (const scenario of chosen) console.log(fullName(scenario));
} else if (process.env[INSIDE] === '1') {
  process.exit((await runScenarios(chosen, await programs())) ? 0 : 1);
} else {
  process.exitCode = await outside().catch((error: unknown) => {
    console.error((error as Error).message);
    return 1;
  });
}
