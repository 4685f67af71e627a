/**
 * Folders whose sessions act for agents of their own: of several checkouts on one machine, each has its address.
 *
 * `projects.json` beside the store names them, an agent for each program, and `poste setup --project` writes it. A file
 * in the checkout could come with what is checked out, and a stranger's repository would choose whose mail is read.
 */
import { readFileSync, realpathSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { replaceFile } from '../../lib/files.ts';
import type { Environment } from '../../lib/user-folders.ts';
import { isObject } from '../../protocol/json.ts';
import { isAgentName } from '../../protocol/names.ts';

/** The agent by the folder's real path, and then by the program. */
export type ProjectAgents = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The message says which file is wrong, and how. */
export class ProjectsUnreadable extends Error {}

const VERSION = 1;

function projectsFile(dataFolder: string): string {
  return join(dataFolder, 'projects.json');
}

/** Throws `ProjectsUnreadable`. */
export function readProjectAgents(dataFolder: string): ProjectAgents {
  const file = projectsFile(dataFolder);
  let document: unknown;
  try {
    document = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return {};
    throw unreadable(file, code ?? 'no JSON');
  }
  const { version, projects } = (document ?? {}) as { version?: unknown; projects?: unknown };
  if (version !== VERSION || !isProjects(projects)) throw unreadable(file, 'not what this version of Poste writes');
  return projects;
}

function unreadable(file: string, why: string): ProjectsUnreadable {
  const repair = 'repair it, or move it away and run poste setup --project in each checkout';
  return new ProjectsUnreadable(`${file}, which names the agents of checkouts, cannot be read (${why}): ${repair}`);
}

function isProjects(value: unknown): value is ProjectAgents {
  return isObject(value) && Object.values(value).every(isAgents);
}

function isAgents(value: unknown): boolean {
  return isObject(value) && Object.values(value).every(isName);
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && isAgentName(value);
}

/** Names the agent, or with `undefined` none any more. The caller holds the lock of `poste setup`. */
export async function writeProjectAgent(
  dataFolder: string,
  { folder, program, agent }: { folder: string; program: string; agent: string | undefined },
): Promise<void> {
  const { [folder]: before = {}, ...others } = readProjectAgents(dataFolder);
  const { [program]: _before, ...rest } = before;
  const agents = agent === undefined ? rest : { ...rest, [program]: agent };
  const projects = Object.keys(agents).length === 0 ? others : { ...others, [folder]: agents };
  const file = projectsFile(dataFolder);
  if (Object.keys(projects).length === 0) rmSync(file, { force: true });
  else await replaceFile(file, `${JSON.stringify({ version: VERSION, projects }, null, 2)}\n`);
}

/** The agent of the program in this folder, or in the nearest one above it that has one. */
export function projectAgent(projects: ProjectAgents, program: string, folder: string): string | undefined {
  for (let at = realFolder(folder); ; at = dirname(at)) {
    const agents = Object.hasOwn(projects, at) ? projects[at] : undefined;
    if (agents && Object.hasOwn(agents, program)) return agents[program];
    if (dirname(at) === at) return undefined;
  }
}

/** The absolute path without symbolic links; a folder that is gone is called by the real path of the one above it. */
export function realFolder(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return dirname(folder) === folder ? folder : join(realFolder(dirname(folder)), basename(folder));
  }
}

export interface AgentChoice {
  /** The agent that a flag named for all sessions. */
  given?: string | undefined;
  environment: Environment;
  /** The program that runs the session, and the folder in which it does, which may be gone. */
  program?: string | undefined;
  folder: () => string;
  /** The agent where nothing else names one: `poste setup` wrote it into the settings of the user. */
  byDefault?: string | undefined;
}

/** Chooses whose session this is: a flag goes before POSTE_AGENT, then the project, then the user's settings. */
export function chosenAgent(
  { given, environment, program, folder, byDefault }: AgentChoice,
  projects: () => ProjectAgents,
): string | undefined {
  if (given !== undefined) return given;
  const { POSTE_AGENT: named } = environment;
  if (named) return named;
  return (program === undefined ? undefined : projectAgent(projects(), program, folder())) ?? byDefault;
}
