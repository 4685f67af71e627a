/**
 * Reads back the files that setup, `poste hooks install` and `poste daemon install` wrote for other programs: each
 * names Node.js and a file of Poste by their paths, and an upgrade may have removed either.
 */
import { existsSync } from 'node:fs';
import type { Check } from '../../host/contract/daemon.ts';
import { mailToolsOf } from '../../host/hooks/mcp-settings.ts';
import { DEFAULT_AGENT } from '../../host/hooks/programs.ts';
import {
  type HookedProgram,
  SETTINGS_OF,
  SETTLED_PROGRAMS,
  type SettledProgram,
} from '../../host/hooks/settled-programs.ts';
import { broken, note, ok } from '../../lib/check.ts';
import { shellWord } from '../../lib/shell-word.ts';
import { projectsHere } from '../lib/agent-here.ts';
import type { CommandContext } from '../lib/context.ts';
import { failureOf } from '../lib/exit.ts';
import { findProgram } from '../lib/find-program.ts';
import { hookFile, isHooked, serverOfProgram, settingsText, toolsFile } from '../lib/program-settings.ts';
import { ownService } from '../lib/service-manager.ts';

interface Installed {
  area: 'wake' | 'daemon';
  file: string;
  /** The subject of a sentence. */
  what: string;
  words: readonly string[];
  /** The command that writes it again. */
  remedy: string;
}

/** Broken for each thing that runs a program which is not there; nothing where nothing is installed. */
export function installedChecks(context: CommandContext): Check[] {
  const { found, unread } = installed(context);
  const wrong = found.flatMap(({ area, file, what, words, remedy }) => {
    const missing = missingOf(context, words);
    const sentence = `${what} in ${file} runs ${missing}, which is not there`;
    return missing === undefined ? [] : [broken({ area, id: 'installed', about: file } as const, sentence, remedy)];
  });
  if (wrong.length > 0 || found.length === 0) return [...wrong, ...unread];
  const files = new Set(found.map(({ file }) => file)).size;
  const sentence = `what is installed for other programs, in files: ${files}, runs programs that are there`;
  return [ok({ area: 'wake', id: 'installed' }, sentence), ...unread];
}

/** A note for each checkout that is gone, though setup gave its sessions agents. */
export function goneCheckouts(context: CommandContext): Check[] {
  try {
    const gone = Object.keys(projectsHere(context)).filter((folder) => !existsSync(folder));
    return gone.map((folder) => {
      const remedy = `poste setup --undo --project ${shellWord(folder)}`;
      const sentence = `the checkout ${folder} is gone, and agents of its own are set up for it`;
      return note({ area: 'wake', id: 'installed', about: folder }, sentence, remedy);
    });
  } catch (error) {
    const failure = failureOf(error);
    if (!failure) throw error;
    return [note({ area: 'wake', id: 'installed', about: 'checkouts' }, failure.message)];
  }
}

function missingOf({ env }: CommandContext, [program = '', main = '']: readonly string[]): string | undefined {
  if (findProgram(program, env['PATH']) === undefined) return program;
  return program.includes('/') && main.startsWith('/') && !existsSync(main) ? main : undefined;
}

function installed(context: CommandContext): { found: Installed[]; unread: Check[] } {
  const found = new Map<string, Installed>();
  const unread = new Map<string, Check>();
  const take = (area: Installed['area'], about: string, read: () => Installed[]): void => {
    try {
      for (const one of read()) found.set(JSON.stringify(one), one);
    } catch (error) {
      const failure = failureOf(error);
      if (!failure) throw error;
      const { message } = failure;
      if (!unread.has(message)) unread.set(message, note({ area, id: 'installed', about }, message));
    }
  };
  for (const name of SETTLED_PROGRAMS) {
    if (isHooked(name)) take('wake', name, () => hooksOf(context, name));
    take('wake', name, () => toolsOf(context, name));
  }
  take('daemon', 'service', () => serviceOf(context));
  return { found: [...found.values()], unread: [...unread.values()] };
}

function hooksOf(context: CommandContext, name: HookedProgram): Installed[] {
  const file = hookFile(context, name);
  const { words: wordsIn, noun } = SETTINGS_OF[name].hooks;
  return settingsText(file, wordsIn).map((words) => {
    const at = words.indexOf('--agent');
    const agent = at === -1 ? '' : ` --agent ${shellWord(words[at + 1] ?? '')}`;
    const remedy = words.includes(DEFAULT_AGENT) ? 'poste setup' : `poste hooks install ${name}${agent}`;
    return { area: 'wake', file, what: noun, words: words.slice(0, 2), remedy };
  });
}

function toolsOf(context: CommandContext, name: SettledProgram): Installed[] {
  const file = toolsFile(context, name);
  const there = serverOfProgram(file, name);
  if (there.type !== 'command' || !mailToolsOf(there.server)) return [];
  const { command, args } = there.server;
  return [{ area: 'wake', file, what: 'the MCP server poste', words: [command, ...args], remedy: 'poste setup' }];
}

function serviceOf(context: CommandContext): Installed[] {
  const service = ownService(context);
  if (!service) return [];
  const { manager, words } = service;
  return [{ area: 'daemon', file: manager.file, what: 'the service', words, remedy: 'poste daemon install' }];
}
