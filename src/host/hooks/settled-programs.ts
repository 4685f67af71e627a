/**
 * The programs that run agents, one row each: where their settings lie, and how Poste's parts of them are added,
 * removed and read. Texts in, texts out.
 *
 * A hook does not load this file: what it needs of its program is in programs.ts.
 */
import { join } from 'node:path';
import { configFolder, type Environment, homeFolder } from '../../lib/user-folders.ts';
import {
  type AllowedTools,
  CODEX_SERVERS,
  CODEX_TOOLS,
  jsonServers,
  openCodeServer,
  permittedTools,
  plainServer,
  type ServerSettings,
  type TextChange,
  trustedTools,
} from './mcp-settings.ts';
import { openCodeFolder, PLUGIN_FILE, type PluginParts, pluginWords, withoutPlugin, withPlugin } from './opencode.ts';
import { CLAUDE_CODE, CODEX, GEMINI, HOOK_PROGRAMS, type HookProgram, QWEN } from './programs.ts';
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

/** The programs that tell their agents of mail. OpenCode runs no hooks; it loads a plugin. */
export const HOOKED_PROGRAMS = [...HOOK_PROGRAMS, 'opencode'] as const;
export type HookedProgram = (typeof HOOKED_PROGRAMS)[number];

/** The programs that get the mail tools alone. */
const TOOL_PROGRAMS = ['copilot', 'cline', 'crush'] as const;
type ToolProgram = (typeof TOOL_PROGRAMS)[number];

export const SETTLED_PROGRAMS = [...HOOKED_PROGRAMS, ...TOOL_PROGRAMS] as const;
export type SettledProgram = (typeof SETTLED_PROGRAMS)[number];

interface HookSettings {
  /** The file that has the hooks, in the folder of the program's settings. */
  file: string;
  /** The subject of a sentence on one of the hooks. */
  noun: string;
  /** True when the hooks depend on the version of the program. */
  asksVersion: boolean;
  add: (parts: PluginParts, version: string | undefined) => TextChange;
  remove: TextChange;
  /** The words that our hooks run. Throws `SettingsRefused`. */
  words: (text: string | undefined) => string[][];
}

interface ProgramSettings extends ServerSettings {
  /** The command that starts the program, which is also the first name of its agent. */
  command: string;
  settingsFolder: (environment: Environment) => string;
  /** The file that names its MCP servers, for its owner, in all projects. */
  serverFile: (folder: string, environment: Environment, isThere: (path: string) => boolean) => string;
  hooks?: HookSettings;
  /** Allows the tools of our server, in the file of the servers or of the hooks; a program that never asks has none. */
  tools?: AllowedTools & { isInHookFile?: true };
  /** Sentences on the steps that the owner must or may also take. Throws `SettingsRefused`. */
  notices?: (folder: string) => string[];
}

interface HookedSettings extends ProgramSettings {
  hooks: HookSettings;
}

function hookSettings(program: HookProgram): Pick<HookedSettings, 'settingsFolder' | 'hooks'> {
  const { name, settingsFolder, settingsFile: file, entries } = program;
  const hooks: HookSettings = {
    file,
    noun: 'a hook',
    asksVersion: entries.some(({ since }) => since !== undefined),
    add(parts, version) {
      const command = hookCommand({ program: name, ...parts });
      return (text) => changedJson(text, (settings) => withHooks(settings, program, command, version));
    },
    remove: (text) => changedJson(text, (settings) => withoutHooks(settings, program)),
    words: (text) => hooksIn(text, program),
  };
  return { settingsFolder, hooks };
}

/** The file of the servers lies in the folder of the settings. */
function serverFile(name: string): ProgramSettings['serverFile'] {
  return (folder) => join(folder, name);
}

const COPILOT_ASKS =
  'Copilot CLI asks you before it uses the mail tools, and copilot -p refuses them: to allow them, ' +
  'start it with --allow-tool=poste.';

type SettingsOf = Record<HookedProgram, HookedSettings> & Record<ToolProgram, ProgramSettings>;

export const SETTINGS_OF: Readonly<SettingsOf> = {
  'claude-code': {
    ...hookSettings(CLAUDE_CODE),
    // Its first prompt waits for a server whose tools are always loaded, and for no other.
    ...jsonServers('mcpServers', plainServer({ type: 'stdio', alwaysLoad: true })),
    command: 'claude',
    serverFile: (_folder, environment) =>
      join(environment['CLAUDE_CONFIG_DIR'] || homeFolder(environment), '.claude.json'),
    tools: { ...permittedTools('allow', ['mcp__poste']), isInHookFile: true },
    notices: (folder) => claudeNotices(readSettings(join(folder, CLAUDE_CODE.settingsFile))),
  },
  codex: {
    ...hookSettings(CODEX),
    ...CODEX_SERVERS,
    command: 'codex',
    serverFile: serverFile('config.toml'),
    tools: CODEX_TOOLS,
    notices: codexNotices,
  },
  gemini: {
    ...hookSettings(GEMINI),
    ...jsonServers('mcpServers', plainServer()),
    command: 'gemini',
    serverFile: serverFile('settings.json'),
    tools: trustedTools('gemini'),
  },
  qwen: {
    ...hookSettings(QWEN),
    ...jsonServers('mcpServers', plainServer()),
    command: 'qwen',
    serverFile: serverFile('settings.json'),
    tools: trustedTools('qwen'),
  },
  opencode: {
    hooks: {
      file: PLUGIN_FILE,
      noun: 'the plugin',
      asksVersion: false,
      add: (parts) => (text) => withPlugin(text, parts),
      remove: withoutPlugin,
      words(text) {
        const words = pluginWords(text);
        return words ? [words] : [];
      },
    },
    ...jsonServers('mcp', openCodeServer),
    command: 'opencode',
    settingsFolder: openCodeFolder,
    serverFile(folder, _environment, isThere) {
      const withComments = join(folder, 'opencode.jsonc');
      return isThere(withComments) ? withComments : join(folder, 'opencode.json');
    },
  },
  copilot: {
    ...jsonServers('mcpServers', plainServer({ type: 'local', tools: ['*'] })),
    command: 'copilot',
    settingsFolder: (environment) => environment['COPILOT_HOME'] || join(homeFolder(environment), '.copilot'),
    serverFile: serverFile('mcp-config.json'),
    notices: () => [COPILOT_ASKS],
  },
  cline: {
    ...jsonServers('mcpServers', plainServer()),
    command: 'cline',
    settingsFolder: clineFolder,
    serverFile: (folder, environment) =>
      environment['CLINE_MCP_SETTINGS_PATH'] || join(folder, 'cline_mcp_settings.json'),
  },
  crush: {
    ...jsonServers('mcp', plainServer({ type: 'stdio' })),
    command: 'crush',
    settingsFolder: (environment) => environment['CRUSH_GLOBAL_CONFIG'] || join(configFolder(environment), 'crush'),
    serverFile: serverFile('crush.json'),
    tools: permittedTools(
      'allowed_tools',
      ['mail_agents', 'mail_inbox', 'mail_reply', 'mail_send'].map((tool) => `mcp_poste_${tool}`),
    ),
  },
};

function clineFolder(environment: Environment): string {
  const own = environment['CLINE_DIR'] || join(homeFolder(environment), '.cline');
  return join(environment['CLINE_DATA_DIR'] || join(own, 'data'), 'settings');
}
