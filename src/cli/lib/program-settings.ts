/** The settings of the programs that run agents: where Poste's parts of them lie, and how they are changed. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  type AllowedTools,
  mailToolsOf,
  type ServerCommand,
  type ServerThere,
  type TextChange,
} from '../../host/hooks/mcp-settings.ts';
import { DEFAULT_AGENT } from '../../host/hooks/programs.ts';
import { type HookedProgram, SETTINGS_OF, type SettledProgram } from '../../host/hooks/settled-programs.ts';
import { SettingsRefused } from '../../host/hooks/settings-text.ts';
import { readSettings, type SettingsFile, writeSettings } from '../../host/hooks/settings.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { attempt } from '../../lib/caught.ts';
import { printableWithin } from '../../protocol/printable.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed } from './exit.ts';
import { findProgram } from './find-program.ts';
import type { Edited } from './setup-record.ts';

function folderOf(context: CommandContext, name: SettledProgram): string {
  // The path is written down for `setup --undo`, which may run elsewhere.
  return resolve(SETTINGS_OF[name].settingsFolder(context.env));
}

/** A change of one file, which is not written yet. */
export interface Edit {
  path: string;
  change: TextChange;
}

function ownHome(context: CommandContext): string | undefined {
  return context.env['POSTE_HOME'] ? ownPaths(context).dataFolder : undefined;
}

export function isHooked(name: SettledProgram): name is HookedProgram {
  return SETTINGS_OF[name].hooks !== undefined;
}

export function hookFile(context: CommandContext, name: HookedProgram): string {
  return join(folderOf(context, name), SETTINGS_OF[name].hooks.file);
}

/** The agent of all sessions, or the one where neither POSTE_AGENT nor the project names another. */
interface NamedAgent {
  agent?: string | undefined;
  defaultAgent?: string | undefined;
}

export function addHooks(context: CommandContext, name: HookedProgram, named: NamedAgent): Edit {
  const parts = { node: process.execPath, main: context.program, ...named, home: ownHome(context) };
  return { path: hookFile(context, name), change: SETTINGS_OF[name].hooks.add(parts, versionOf(context, name)) };
}

const VERSION_MS = 5000;

/** The version that the program of the PATH says, where its hooks depend on it. One that says none is old. */
function versionOf({ env }: CommandContext, name: HookedProgram): string | undefined {
  const { command, hooks } = SETTINGS_OF[name];
  const program = findProgram(command, env['PATH']);
  if (program === undefined || !hooks.asksVersion) return undefined;
  const asked = { env: { ...env }, timeout: VERSION_MS, killSignal: 'SIGKILL', encoding: 'utf8' } as const;
  const said = attempt(() => execFileSync(program, ['--version'], { ...asked, stdio: ['ignore', 'pipe', 'ignore'] }));
  return /^\d+\.\d+\.\d+/.exec(said ?? '')?.[0];
}

/**
 * The command by which a program starts the tools of the agent: by paths, since its PATH may be another one. The agent
 * of a program that setup knows gives way to the one of POSTE_AGENT, or of the project.
 */
export function serverOf(context: CommandContext, agent: string, program?: SettledProgram): ServerCommand {
  const home = ownHome(context);
  const named = program === undefined ? ['--agent', agent] : ['--program', program, DEFAULT_AGENT, agent];
  return {
    command: process.execPath,
    args: [context.program, 'mcp', ...named],
    env: home === undefined ? {} : { POSTE_HOME: home },
  };
}

export function toolsFile(context: CommandContext, name: SettledProgram): string {
  return resolve(SETTINGS_OF[name].serverFile(folderOf(context, name), context.env, existsSync));
}

/** The server that the program has under the name of our server. Throws `CommandFailed`. */
export function serverOfProgram(path: string, name: SettledProgram): ServerThere {
  return settingsText(path, SETTINGS_OF[name].serverIn);
}

/** Reads a file of settings. Throws `CommandFailed`. */
export function settingsText<T>(path: string, read: (text: string | undefined) => T): T {
  return refusing(path, () => read(readSettings(path).text));
}

/** Two long paths, of Node.js and of Poste, and the words behind them, of which the last may be what differs. */
const SHOWN_CHARACTERS_MAX = 500;

/** A server as a person may recognise it. */
export function shownServer(there: Exclude<ServerThere, { type: 'absent' }>): string {
  const text = there.type === 'other' ? there.text : [there.server.command, ...there.server.args].join(' ');
  return printableWithin(text, SHOWN_CHARACTERS_MAX);
}

/** Throws `CommandFailed` when the tools that would be allowed are those of another server. */
export function requireOwnServer(context: CommandContext, name: SettledProgram): void {
  const file = toolsFile(context, name);
  const there = serverOfProgram(file, name);
  if (there.type === 'absent' || (there.type === 'command' && mailToolsOf(there.server))) return;
  const message = `the MCP server poste in ${file} is another one, ${shownServer(there)}, whose tools would be allowed`;
  throw new CommandFailed('conflict', 'SERVER_FOREIGN', `${message}: remove it there, or leave out --allow-tools`);
}

export type AllowEdit = Edit & Required<Pick<AllowedTools, 'remove' | 'rulesIn'>>;

/** Allows the mail tools; `undefined` for a program that does not ask. */
export function allowTools(context: CommandContext, name: SettledProgram): AllowEdit | undefined {
  const { tools } = SETTINGS_OF[name];
  if (!tools) return undefined;
  const path = tools.isInHookFile && isHooked(name) ? hookFile(context, name) : toolsFile(context, name);
  const { add: change, remove, rulesIn = () => [] } = tools;
  return { path, change, remove, rulesIn };
}

/** The steps that the owner must or may also take in the program, in sentences. Throws `CommandFailed`. */
export function programNotices(context: CommandContext, name: SettledProgram): string[] {
  const file = isHooked(name) ? hookFile(context, name) : toolsFile(context, name);
  return refusing(file, () => SETTINGS_OF[name].notices?.(folderOf(context, name)) ?? []);
}

/** An edit whose file was read. */
export interface PlannedEdit {
  file: SettingsFile;
  text: string | undefined;
  isChange: boolean;
}

/** Throws `CommandFailed`. */
export function plannedEdit({ path, change }: Edit): PlannedEdit {
  return refusing(path, () => {
    const file = readSettings(path);
    const text = change(file.text);
    return { file, text, isChange: text !== file.text };
  });
}

/** Writes the file; returns the copy of what it was, or null. Throws `CommandFailed`. */
export async function writeEdit({ file, text, isChange }: PlannedEdit): Promise<string | null> {
  if (!isChange) return null;
  try {
    return await writeSettings(file, text, Date.now());
  } catch (error) {
    throw settingsFailure(file.path, error);
  }
}

export function digestOf(text: string | undefined): string {
  return createHash('sha256')
    .update(text ?? '')
    .digest('hex');
}

/** The edit that puts back what was there before; `undefined` when the file was changed since, or the copy is gone. */
export function restoringEdit(path: string, { copy, sha256 }: Edited): PlannedEdit | undefined {
  return refusing(path, () => {
    const file = readSettings(path);
    if (file.text === undefined || digestOf(file.text) !== sha256) return undefined;
    if (copy === null) return { file, text: undefined, isChange: true };
    const { text, hasMark } = readSettings(copy);
    return text === undefined ? undefined : { file: { ...file, hasMark }, text, isChange: true };
  });
}

function refusing<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw settingsFailure(path, error);
  }
}

function settingsFailure(path: string, error: unknown): unknown {
  if (!(error instanceof SettingsRefused)) return error;
  return new CommandFailed('failure', 'SETTINGS_REFUSED', `${path} ${error.message}: ${error.remedy}`);
}
