/**
 * Our MCP server in the settings of the programs that run agents, and the approval of its tools: adds them, or removes
 * them, and changes nothing else. Texts in, texts out; a text that stays the same is not written.
 *
 * A server that is called `poste` and that somebody else wrote stays as it is.
 */
import { join } from 'node:path';
import {
  codexServerIn,
  withCodexApproval,
  withCodexServer,
  withoutCodexApproval,
  withoutCodexServer,
} from './codex-config.ts';
import { type Environment, homeFolder } from '../../lib/user-folders.ts';
import { HOOK_PROGRAMS } from './programs.ts';
import {
  isSameServer,
  missingServer,
  type ServerCommand,
  type ServerThere,
  SERVER_NAME as NAME,
  serverThere,
} from './server-command.ts';
import { changedJson, settingsOf, SettingsRefused } from './settings-text.ts';

/** OpenCode runs no hooks; it loads a plugin. */
export const SETTLED_PROGRAMS = [...HOOK_PROGRAMS, 'opencode'] as const;
export type SettledProgram = (typeof SETTLED_PROGRAMS)[number];

export type TextChange = (text: string | undefined) => string | undefined;

type Json = Record<string, unknown>;

const CLAUDE_RULE = 'mcp__poste';

/** The file of the program that names its MCP servers, for its owner, in all projects. */
export function serverFile(
  program: SettledProgram,
  folder: string,
  environment: Environment,
  isThere: (path: string) => boolean,
): string {
  switch (program) {
    case 'claude-code':
      return join(environment['CLAUDE_CONFIG_DIR'] || homeFolder(environment), '.claude.json');
    case 'codex':
      return join(folder, 'config.toml');
    case 'gemini':
      return join(folder, 'settings.json');
    case 'opencode': {
      const withComments = join(folder, 'opencode.jsonc');
      return isThere(withComments) ? withComments : join(folder, 'opencode.json');
    }
  }
}

/**
 * The settings with the server, in place of one that an earlier setup wrote: what its owner or the program added to
 * that one stays. Throws `SettingsRefused`.
 */
export function withServer(
  program: SettledProgram,
  server: ServerCommand,
  earlier: readonly ServerCommand[] = [],
): TextChange {
  if (program === 'codex') return (text = '') => withCodexServer(text, server, earlier);
  const { list, value } = jsonServer(program, server);
  return (text) =>
    changedJson(text, (settings) => {
      const servers = memberOf(settings, list);
      const before = servers[NAME];
      const isEarlier = earlier.some((one) => isSameServer(commandOf(before), one));
      if (NAME in servers && !isEarlier) return settings as Json;
      const { command: _command, args: _args, env: _env, environment: _environment, ...added } = (before ?? {}) as Json;
      return { ...(settings as Json), [list]: { ...servers, [NAME]: { ...added, ...value } } };
    });
}

/**
 * The settings without the server, when it is started as `withServer` wrote it: what its owner or the program added to
 * it, such as an approval, means nothing without it and goes too. Throws `SettingsRefused`.
 */
export function withoutServer(program: SettledProgram, server: ServerCommand): TextChange {
  if (program === 'codex') return (text) => text && withoutCodexServer(text, server);
  const { list } = jsonServer(program, server);
  return (text) =>
    changedJson(text, (settings) => {
      const { [NAME]: ours, ...servers } = memberOf(settings, list);
      if (!isSameServer(commandOf(ours), server)) return settings as Json;
      return withMember(settings as Json, list, servers);
    });
}

/** What the settings have under the server's name. Throws `SettingsRefused`. */
export function serverIn(program: SettledProgram, text: string | undefined): ServerThere {
  if (program === 'codex') return codexServerIn(text ?? '');
  const servers = memberOf(settingsOf(text), program === 'opencode' ? 'mcp' : 'mcpServers');
  return serverThere(NAME in servers, servers[NAME], commandOf(servers[NAME]));
}

/** How these settings start a server; `undefined` when they do so in another way than by a command. */
function commandOf(server: unknown): ServerCommand | undefined {
  if (!isRecord(server)) return undefined;
  const { command, args = [], env, environment = env ?? {} } = server;
  const words: unknown[] = [...(Array.isArray(command) ? (command as unknown[]) : [command]), ...listed(args)];
  const [program, ...rest] = words.map(String);
  if (typeof words[0] !== 'string' || program === undefined || !isRecord(environment)) return undefined;
  return { command: program, args: rest, env: environment as Record<string, string> };
}

function listed(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [value];
}

/** Allows the tools of the server; `undefined` for a program that does not ask. */
export function allowedTools(program: SettledProgram): { add: TextChange; remove: TextChange } | undefined {
  switch (program) {
    case 'claude-code':
      return {
        add: (text) => changedJson(text, (settings) => withClaudeRules(settings, (rules) => [...rules, CLAUDE_RULE])),
        remove: (text) => changedJson(text, withoutClaudeRule),
      };
    case 'codex':
      return { add: (text = '') => withCodexApproval(text), remove: (text) => text && withoutCodexApproval(text) };
    case 'gemini':
      return {
        add: (text) => changedJson(text, (settings) => withTrust(settings, true)),
        remove: (text) => changedJson(text, (settings) => withTrust(settings, undefined)),
      };
    case 'opencode':
      return undefined;
  }
}

function jsonServer(
  program: Exclude<SettledProgram, 'codex'>,
  { command, args, env }: ServerCommand,
): { list: string; value: Json } {
  const hasEnv = Object.keys(env).length > 0;
  if (program === 'opencode') {
    const value = { type: 'local', command: [command, ...args], enabled: true, ...(hasEnv && { environment: env }) };
    return { list: 'mcp', value };
  }
  const type = program === 'claude-code' ? { type: 'stdio' } : {};
  return { list: 'mcpServers', value: { ...type, command, args: [...args], ...(hasEnv && { env }) } };
}

/** An object in the settings, which may be missing. Throws `SettingsRefused`. */
function memberOf(settings: unknown, name: string): Json {
  if (!isRecord(settings)) throw new SettingsRefused('is no JSON object');
  const member = settings[name] ?? {};
  if (!isRecord(member)) throw new SettingsRefused(`has "${name}" that is no object`);
  return member;
}

/** A member that became empty goes. */
function withMember(settings: Json, name: string, member: Json): Json {
  const { [name]: _before, ...others } = settings;
  return Object.keys(member).length === 0 ? others : { ...settings, [name]: member };
}

function withClaudeRules(settings: unknown, change: (rules: readonly unknown[]) => unknown[]): Json {
  const permissions = memberOf(settings, 'permissions');
  const rules: unknown = permissions['allow'] ?? [];
  if (!Array.isArray(rules)) throw new SettingsRefused('has "permissions.allow" that is no list');
  if (rules.includes(CLAUDE_RULE)) return settings as Json;
  return { ...(settings as Json), permissions: { ...permissions, allow: change(rules) } };
}

function withoutClaudeRule(settings: unknown): Json {
  const { allow, ...permissions } = memberOf(settings, 'permissions');
  if (!Array.isArray(allow) || !allow.includes(CLAUDE_RULE)) return settings as Json;
  const rules: unknown[] = allow.filter((rule) => rule !== CLAUDE_RULE);
  return withMember(settings as Json, 'permissions', { ...permissions, ...(rules.length > 0 && { allow: rules }) });
}

function withTrust(settings: unknown, trust: true | undefined): Json {
  const servers = memberOf(settings, 'mcpServers');
  const server = servers[NAME];
  if (!isRecord(server)) {
    if (trust === undefined) return settings as Json;
    throw missingServer('gemini mcp add poste poste mcp --agent NAME --start');
  }
  const { trust: _before, ...others } = server;
  const changed = trust ? { ...server, trust } : others;
  return { ...(settings as Json), mcpServers: { ...servers, [NAME]: changed } };
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
