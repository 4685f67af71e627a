/**
 * The programs that run agents, one row each: where their settings lie, and how Poste's parts of them are added,
 * removed and read. Texts in, texts out.
 *
 * A hook does not load this file: what it needs of its program is in programs.ts.
 */
import { join } from 'node:path';
import { type Environment, homeFolder } from '../../lib/user-folders.ts';
import {
  type AllowedTools,
  CLAUDE_TOOLS,
  CODEX_SERVERS,
  CODEX_TOOLS,
  GEMINI_TOOLS,
  jsonServers,
  openCodeServer,
  plainServer,
  type ServerSettings,
  type TextChange,
} from './mcp-settings.ts';
import { openCodeFolder, PLUGIN_FILE, type PluginParts, pluginWords, withoutPlugin, withPlugin } from './opencode.ts';
import { CLAUDE_CODE, CODEX, GEMINI, HOOK_PROGRAMS, type HookProgram } from './programs.ts';
import { changedJson } from './settings-text.ts';
import {
  claudeNotices,
  codexNotices,
  hookCommand,
  hooksIn,
  readSettings,
  withHooks,
  withoutHooks,
} from './settings.ts';

/** OpenCode runs no hooks; it loads a plugin. */
export const SETTLED_PROGRAMS = [...HOOK_PROGRAMS, 'opencode'] as const;
export type SettledProgram = (typeof SETTLED_PROGRAMS)[number];

interface HookSettings {
  /** The folder of its settings, and the file there that has the hooks. */
  settingsFolder: (environment: Environment) => string;
  settingsFile: string;
  /** The subject of a sentence on one of the hooks. */
  hookNoun: string;
  /** True when the hooks depend on the version of the program. */
  asksVersion: boolean;
  addHooks: (parts: PluginParts, version: string | undefined) => TextChange;
  removeHooks: TextChange;
  /** The words that our hooks run. Throws `SettingsRefused`. */
  hookWords: (text: string | undefined) => string[][];
}

export interface ProgramSettings extends HookSettings, ServerSettings {
  /** The command that starts the program, which is also the first name of its agent. */
  command: string;
  /** The file that names its MCP servers, for its owner, in all projects. */
  serverFile: (folder: string, environment: Environment, isThere: (path: string) => boolean) => string;
  /** Allows the tools of our server, in the file of the servers or of the hooks; a program that never asks has none. */
  tools?: AllowedTools & { isInHookFile?: true };
  /** Sentences on the steps that the owner must or may also take. Throws `SettingsRefused`. */
  notices: (folder: string) => string[];
}

function hookSettings(program: HookProgram): HookSettings {
  const { name, settingsFolder, settingsFile, entries } = program;
  return {
    settingsFolder,
    settingsFile,
    hookNoun: 'a hook',
    asksVersion: entries.some(({ since }) => since !== undefined),
    addHooks(parts, version) {
      const command = hookCommand({ program: name, ...parts });
      return (text) => changedJson(text, (settings) => withHooks(settings, program, command, version));
    },
    removeHooks: (text) => changedJson(text, (settings) => withoutHooks(settings, program)),
    hookWords: (text) => hooksIn(text, program),
  };
}

export const SETTINGS_OF: Readonly<Record<SettledProgram, ProgramSettings>> = {
  'claude-code': {
    ...hookSettings(CLAUDE_CODE),
    ...jsonServers('mcpServers', (server) => plainServer(server, { type: 'stdio' })),
    command: 'claude',
    serverFile: (_folder, environment) =>
      join(environment['CLAUDE_CONFIG_DIR'] || homeFolder(environment), '.claude.json'),
    tools: { ...CLAUDE_TOOLS, isInHookFile: true },
    notices: (folder) => claudeNotices(readSettings(join(folder, CLAUDE_CODE.settingsFile))),
  },
  codex: {
    ...hookSettings(CODEX),
    ...CODEX_SERVERS,
    command: 'codex',
    serverFile: (folder) => join(folder, 'config.toml'),
    tools: CODEX_TOOLS,
    notices: codexNotices,
  },
  gemini: {
    ...hookSettings(GEMINI),
    ...jsonServers('mcpServers', (server) => plainServer(server)),
    command: 'gemini',
    serverFile: (folder) => join(folder, 'settings.json'),
    tools: GEMINI_TOOLS,
    notices: () => [],
  },
  opencode: {
    settingsFolder: openCodeFolder,
    settingsFile: PLUGIN_FILE,
    hookNoun: 'the plugin',
    asksVersion: false,
    addHooks: (parts) => (text) => withPlugin(text, parts),
    removeHooks: withoutPlugin,
    hookWords(text) {
      const words = pluginWords(text);
      return words ? [words] : [];
    },
    ...jsonServers('mcp', openCodeServer),
    command: 'opencode',
    serverFile(folder, _environment, isThere) {
      const withComments = join(folder, 'opencode.jsonc');
      return isThere(withComments) ? withComments : join(folder, 'opencode.json');
    },
    notices: () => [],
  },
};
