/**
 * Our MCP server in the settings of the programs that run agents, and the approval of its tools: adds them, or removes
 * them, and changes nothing else. Texts in, texts out; a text that stays the same is not written.
 *
 * A server that is called `poste` and that somebody else wrote stays as it is.
 */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { parse as parseToml, TomlError } from 'smol-toml';
import { HOOK_PROGRAMS } from './programs.ts';
import { changedJson, SettingsRefused } from './settings.ts';

/** OpenCode runs no hooks; it loads a plugin. */
export const SETTLED_PROGRAMS = [...HOOK_PROGRAMS, 'opencode'] as const;
export type SettledProgram = (typeof SETTLED_PROGRAMS)[number];

export type TextChange = (text: string | undefined) => string | undefined;

export interface ServerCommand {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
}

type Json = Record<string, unknown>;

const NAME = 'poste';
const CLAUDE_RULE = 'mcp__poste';
const CODEX_MODE = 'default_tools_approval_mode';
const CODEX_HEADER = '[mcp_servers.poste]';
const CODEX_APPROVAL = `${CODEX_MODE} = "approve"`;

/** The file of the program that names its MCP servers, for its owner, in all projects. */
export function serverFile(
  program: SettledProgram,
  folder: string,
  { CLAUDE_CONFIG_DIR: claudeFolder }: Readonly<Record<string, string | undefined>>,
  homeFolder: string,
  isThere: (path: string) => boolean,
): string {
  switch (program) {
    case 'claude-code':
      return join(claudeFolder ? claudeFolder : homeFolder, '.claude.json');
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

/** The settings with the server. Throws `SettingsRefused`. */
export function withServer(program: SettledProgram, server: ServerCommand): TextChange {
  if (program === 'codex') return (text = '') => withCodexServer(text, server);
  const { list, value } = jsonServer(program, server);
  return (text) =>
    changedJson(text, (settings) => {
      const servers = memberOf(settings, list);
      return NAME in servers ? (settings as Json) : { ...(settings as Json), [list]: { ...servers, [NAME]: value } };
    });
}

/** The settings without the server, when it is as `withServer` wrote it. Throws `SettingsRefused`. */
export function withoutServer(program: SettledProgram, server: ServerCommand): TextChange {
  if (program === 'codex') return (text) => text && withoutCodexServer(text, server);
  const { list, value } = jsonServer(program, server);
  return (text) =>
    changedJson(text, (settings) => {
      const { [NAME]: ours, ...servers } = memberOf(settings, list);
      if (!isDeepStrictEqual(ours, value)) return settings as Json;
      return withMember(settings as Json, list, servers);
    });
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
    throw new SettingsRefused('has no MCP server poste yet: run poste setup, or gemini mcp add');
  }
  const { trust: _before, ...others } = server;
  const changed = trust ? { ...server, trust } : others;
  return { ...(settings as Json), mcpServers: { ...servers, [NAME]: changed } };
}

/**
 * `config.toml` of Codex: changed by lines, so that comments and layout stay. What the lines mean is parsed before and
 * after, and nothing but the change may be different.
 */

function withCodexServer(text: string, { command, args, env }: ServerCommand): string {
  const config = parsed(text);
  const servers = config['mcp_servers'] ?? {};
  if (isRecord(servers) && NAME in servers) return text;
  const variables = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const lines = [
    CODEX_HEADER,
    `command = ${JSON.stringify(command)}`,
    `args = [${args.map((word) => JSON.stringify(word)).join(', ')}]`,
    ...(variables.length > 0 ? [`env = { ${variables.join(', ')} }`] : []),
  ];
  const before = text === '' || text.endsWith('\n') ? text : `${text}\n`;
  const after = `${before}${before === '' ? '' : '\n'}${lines.join('\n')}\n`;
  const server = { command, args: [...args], ...(variables.length > 0 && { env: { ...env } }) };
  return checked(after, { ...config, mcp_servers: { ...(servers as Json), [NAME]: server } });
}

function withoutCodexServer(text: string, { command, args }: ServerCommand): string {
  const config = parsed(text);
  const { [NAME]: ours, ...servers } = (config['mcp_servers'] ?? {}) as Json;
  if (!isRecord(ours) || ours['command'] !== command || !isDeepStrictEqual(ours['args'], [...args])) return text;
  const lines = text.split('\n');
  const start = lines.indexOf(CODEX_HEADER);
  const length = lines.slice(start + 1).findIndex((line) => line.trim() === '' || line.trimStart().startsWith('['));
  const end = length === -1 ? lines.length : start + 1 + length;
  const isSpaced = start > 0 && lines[start - 1] === '';
  const after = [...lines.slice(0, isSpaced ? start - 1 : start), ...lines.slice(end)].join('\n');
  const left = Object.keys(servers).length === 0 ? {} : { mcp_servers: servers };
  const { mcp_servers: _before, ...others } = config;
  return checked(after, { ...others, ...left });
}

function withCodexApproval(text: string): string {
  const { config, server, servers } = codexServer(text);
  if (server === undefined) {
    throw new SettingsRefused('has no MCP server poste yet: run poste setup, or codex mcp add');
  }
  const mode = server[CODEX_MODE];
  if (mode === 'approve') return text;
  if (mode !== undefined) throw new SettingsRefused(`sets ${CODEX_MODE} of poste to ${JSON.stringify(mode)} already`);
  const lines = text.split('\n');
  const at = lines.findIndex((line) => /^\s*\[\s*mcp_servers\s*\.\s*poste\s*\]\s*(?:#.*)?$/.test(line));
  if (at === -1) throw new SettingsRefused(`has no line ${CODEX_HEADER}, which ${CODEX_APPROVAL} could follow`);
  const after = lines.toSpliced(at + 1, 0, CODEX_APPROVAL).join('\n');
  const allowed = { ...server, [CODEX_MODE]: 'approve' };
  return checked(after, { ...config, mcp_servers: { ...servers, [NAME]: allowed } });
}

function withoutCodexApproval(text: string): string {
  const { config, server, servers } = codexServer(text);
  if (server?.[CODEX_MODE] !== 'approve') return text;
  const lines = text.split('\n');
  const header = lines.findIndex((line) => /^\s*\[\s*mcp_servers\s*\.\s*poste\s*\]/.test(line));
  const at = lines.indexOf(CODEX_APPROVAL, header);
  if (at === -1) return text;
  const { [CODEX_MODE]: _mode, ...others } = server;
  return checked(lines.toSpliced(at, 1).join('\n'), { ...config, mcp_servers: { ...servers, [NAME]: others } });
}

function codexServer(text: string): { config: Json; servers: Json; server: Json | undefined } {
  const config = parsed(text);
  const servers = config['mcp_servers'];
  const server = isRecord(servers) ? servers[NAME] : undefined;
  return { config, servers: isRecord(servers) ? servers : {}, server: isRecord(server) ? server : undefined };
}

function parsed(text: string): Json {
  try {
    return parseToml(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    throw new SettingsRefused(`is no TOML at line ${error.line}`);
  }
}

function checked(text: string, meant: Json): string {
  const refused = new SettingsRefused('is laid out in a way that Poste does not change by itself');
  let means: Json;
  try {
    means = parseToml(text);
  } catch {
    throw refused;
  }
  // The parser's tables have no prototype.
  if (JSON.stringify(sorted(means)) !== JSON.stringify(sorted(meant))) throw refused;
  return text;
}

function sorted(value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`;
  if (Array.isArray(value)) return value.map(sorted);
  if (!isRecord(value) || value instanceof Date) return value;
  const members = Object.entries(value).map(([name, member]): [string, unknown] => [name, sorted(member)]);
  return Object.fromEntries(members.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
