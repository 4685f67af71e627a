/**
 * The part of `poste setup` that is about one project: agents of its own for the sessions in it, which
 * host/base/project-agents.ts finds, and the notes on mail in the files that its agents read.
 */
import { existsSync, realpathSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { type ProjectAgents, realFolder, writeProjectAgent } from '../../host/base/project-agents.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { foldName, isSameName } from '../../host/core/address.ts';
import { RESERVED_NAMES } from '../../host/core/rows.ts';
import { withNotes } from '../../host/hooks/agent-notes.ts';
import { isSameServer, mailToolsOf } from '../../host/hooks/mcp-settings.ts';
import { SETTINGS_OF, type SettledProgram } from '../../host/hooks/settled-programs.ts';
import { isListening } from '../../lib/unix-socket.ts';
import { projectsHere } from '../lib/agent-here.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask } from '../lib/daemon-call.ts';
import { usageFailure } from '../lib/exit.ts';
import {
  type Edit,
  plannedEdit,
  serverOfProgram,
  settingsText,
  toolsFile,
  writeEdit,
} from '../lib/program-settings.ts';
import { addWritten, readWritten } from '../lib/setup-record.ts';
import { type Agents, agentStep, ALREADY, type Look, NEEDED, type Step } from './setup-steps.ts';

/** The most characters of an agent's name. */
const NAME_CHARACTERS_MAX = 64;

/**
 * The folder that `--project` means: the one that is named, or the git checkout around the working folder. What was
 * done for one that is gone can be undone.
 */
export function projectFolder(given: string | true, { mayBeGone = false } = {}): string {
  if (given === true) {
    const checkout = checkoutAround(realpathSync('.'));
    if (checkout !== undefined) return checkout;
    throw usageFailure('this folder is in no git checkout: name the folder of the project, as in --project ./shop');
  }
  const folder = resolve(given);
  if (mayBeGone && !existsSync(folder)) return realFolder(folder);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw usageFailure(`there is no folder ${folder}: give --project the folder of a project`);
  }
  return realpathSync(folder);
}

/** In a worktree `.git` is a file. */
function checkoutAround(folder: string): string | undefined {
  if (existsSync(join(folder, '.git'))) return folder;
  return dirname(folder) === folder ? undefined : checkoutAround(dirname(folder));
}

/** The agents of the programs in the project: those that are named, those that it has, else new names. */
export async function projectAgentsOf(
  context: CommandContext,
  folder: string,
  programs: readonly SettledProgram[],
  named: Agents = new Map(),
): Promise<Agents> {
  const projects = projectsHere(context);
  const taken = await takenNames(context, folder, projects);
  return new Map(
    programs.map((program) => {
      const name = named.get(program) ?? projects[folder]?.[program] ?? newName(program, folder, taken);
      return [program, name];
    }),
  );
}

/** The names of other agents, folded: those of this host, and of other projects. */
async function takenNames(
  context: CommandContext,
  folder: string,
  projects: ProjectAgents,
): Promise<ReadonlySet<string>> {
  const others = Object.entries(projects).flatMap(([other, agents]) => (other === folder ? [] : Object.values(agents)));
  const { agents } = (await isListening(ownPaths(context).socket))
    ? await ask(context, 'list-agents', {}, {})
    : { agents: [] };
  const here = agents.flatMap(({ name, former_names: former }) => former.concat(name));
  // A setup that was cut off has added them for this project.
  const isOwn = (name: string): boolean =>
    readWritten(context).some((one) => one.type === 'agent' && one.folder === folder && isSameName(one.name, name));
  return new Set([...RESERVED_NAMES, ...[...others, ...here.filter((name) => !isOwn(name))].map(foldName)]);
}

/** The program's command and the folder's name, `codex-shop`; with a number where that is taken. */
function newName(program: SettledProgram, folder: string, taken: ReadonlySet<string>): string {
  const { command } = SETTINGS_OF[program];
  const base = basename(folder).normalize('NFKD').replaceAll(/\p{M}/gu, '');
  const word = base.replaceAll(/[^A-Za-z0-9._-]+/g, '-').replaceAll(/^[-._]+|[-._]+$/g, '') || 'project';
  for (let number = 1; ; number++) {
    const end = number === 1 ? '' : `-${number}`;
    const name = `${command}-${word}`.slice(0, NAME_CHARACTERS_MAX - end.length) + end;
    if (!taken.has(foldName(name))) return name;
  }
}

/** The steps that add these agents, and give them the sessions of the programs in the project. */
export function projectSteps(context: CommandContext, folder: string, agents: Agents): Step[] {
  const names = [...new Set(agents.values())];
  const added = names.map((name) => agentStep(context, { type: 'agent', name, folder }));
  const given = [...agents].map(([program, agent]) => ({
    text: `let ${program} in ${folder} act for ${agent}`,
    program,
    look: () => projectLook(context, folder, program, agent),
    async run() {
      await addWritten(context, { type: 'project', folder, program, agent });
      await writeProjectAgent(ownPaths(context).dataFolder, { folder, program, agent });
      return { notices: [] };
    },
  }));
  return [...added, ...given];
}

function projectLook(context: CommandContext, folder: string, program: SettledProgram, agent: string): Look {
  if (projectsHere(context)[folder]?.[program] === agent) return ALREADY;
  const file = toolsFile(context, program);
  const there = serverOfProgram(file, program);
  if (there.type === 'absent') return NEEDED;
  if (there.type === 'command') {
    const { server } = there;
    // One of an earlier setup is written anew by this one.
    const isEarlier = readWritten(context).some((one) => one.type === 'server' && isSameServer(one.server, server));
    if (isEarlier || mailToolsOf(server)?.isDefault === true) return NEEDED;
  }
  const why = `the MCP server poste in ${file} names its agent itself: remove it there and run poste setup again`;
  return { state: 'kept', step: `the agent of ${program} in ${folder}`, why };
}

/** The files that agents read first, by their programs; all others read the common one. */
const NOTED_FILE: Readonly<Partial<Record<SettledProgram, string>>> = {
  'claude-code': 'CLAUDE.md',
  gemini: 'GEMINI.md',
};
const COMMON_FILE = 'AGENTS.md';

/** The steps that add the notes. A file that is the common one under another name, or takes it in, needs none. */
export function notesSteps(context: CommandContext, folder: string, programs: readonly SettledProgram[]): Step[] {
  const files = programs.map((program) => {
    const file = join(folder, NOTED_FILE[program] ?? COMMON_FILE);
    return isCommon(file, join(folder, COMMON_FILE)) ? join(folder, COMMON_FILE) : file;
  });
  return [...new Set(files)].map((file) => {
    const edit: Edit = { path: file, change: withNotes };
    return {
      text: `add the notes on mail to ${file}`,
      look: () => (plannedEdit(edit).isChange ? NEEDED : ALREADY),
      async run() {
        const planned = plannedEdit(edit);
        const isNew = planned.file.text === undefined;
        await addWritten(context, { type: 'notes', folder, file, ...(isNew && { isNew }) });
        await writeNotes(planned);
        return { notices: [] };
      },
    };
  });
}

function isCommon(file: string, common: string): boolean {
  if (!existsSync(file)) return false;
  if (existsSync(common) && realpathSync(file) === realpathSync(common)) return true;
  return settingsText(file, (text = '') => /^@(?:\.\/)?AGENTS\.md\s*$/m.test(text));
}

/** Without a copy beside it, which would stand in the checkout: the notes are taken out again to the byte. */
export async function writeNotes(planned: Parameters<typeof writeEdit>[0]): Promise<void> {
  const copy = await writeEdit(planned);
  if (copy !== null) rmSync(copy, { force: true });
}
