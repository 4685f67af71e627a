/**
 * `config.toml` of Codex: changed by lines, so that comments and layout stay. What the lines mean is parsed before and
 * after, and nothing but the change may be different.
 */
import { parse as parseToml, TomlError } from 'smol-toml';
import {
  isSameServer,
  missingServer,
  SERVER_NAME as NAME,
  type ServerCommand,
  type ServerThere,
  serverThere,
} from './server-command.ts';
import { badLayout, lineEndOf, SettingsRefused } from './settings-text.ts';

type Json = Record<string, unknown>;

const MODE = 'default_tools_approval_mode';
const HEADER = '[mcp_servers.poste]';
const APPROVAL = `${MODE} = "approve"`;
const SERVER_HEADER = /^\s*\[\s*mcp_servers\s*\.\s*(?:poste|"poste"|'poste')\s*\]\s*(?:#.*)?$/;
/** Of a table in the server's, such as the approval of one tool that Codex writes. */
const INNER_HEADER = /^\s*\[\s*mcp_servers\s*\.\s*(?:poste|"poste"|'poste')\s*\./;
const APPROVAL_LINE = /^\s*default_tools_approval_mode\s*=\s*(?:"approve"|'approve')\s*(?:#.*)?$/;
const COMMAND_LINE = /^\s*(?:command|args|env)\s*=/;

export function withCodexServer(text: string, server: ServerCommand, earlier: readonly ServerCommand[]): string {
  const { config, servers, server: before } = codexServer(text);
  const lines = commandLines(server);
  const { command, args, env } = server;
  const value = { command, args: [...args], ...(Object.keys(env).length > 0 && { env: { ...env } }) };
  if (!(NAME in servers)) {
    const end = lineEndOf(text);
    const table = [HEADER, ...lines].join(end);
    // As the text ends now, it ends below the table too.
    const isOpen = text !== '' && !text.endsWith('\n');
    const after = text === '' ? `${table}\n` : `${text}${end}${isOpen ? `${end}${table}` : `${table}${end}`}`;
    return checkChange(after, { ...config, mcp_servers: { ...servers, [NAME]: value } });
  }
  const there = before && commandOf(before);
  if (!there || isSameServer(there, server) || !earlier.some((one) => isSameServer(there, one))) return text;
  const { command: _command, args: _args, env: _env, ...added } = before;
  const all = text.split('\n');
  const tail = lineEndOf(text).slice(0, -1);
  const start = all.findIndex((line) => SERVER_HEADER.test(line));
  const end = tableEnd(all, start);
  const kept = all.slice(start + 1, end).filter((line) => !COMMAND_LINE.test(line));
  const written = lines.map((line) => `${line}${tail}`);
  const after = [...all.slice(0, start + 1), ...written, ...kept, ...all.slice(end)].join('\n');
  return checkChange(after, { ...config, mcp_servers: { ...servers, [NAME]: { ...added, ...value } } });
}

/** Tables in the server's go with it: Codex refuses a config with a server that has no command. */
export function withoutCodexServer(text: string, server: ServerCommand): string {
  const { config, server: ours } = codexServer(text);
  if (!ours || !isSameServer(commandOf(ours), server)) return text;
  const { [NAME]: _ours, ...servers } = config['mcp_servers'] as Json;
  let lines = text.split('\n');
  for (;;) {
    const start = lines.findIndex((line) => SERVER_HEADER.test(line) || INNER_HEADER.test(line));
    if (start === -1) break;
    const isSpaced = start > 0 && lines[start - 1]?.trim() === '';
    lines = lines.toSpliced(isSpaced ? start - 1 : start, tableEnd(lines, start) - start + (isSpaced ? 1 : 0));
  }
  const { mcp_servers: _before, ...others } = config;
  return checkChange(lines.join('\n'), { ...others, ...(Object.keys(servers).length > 0 && { mcp_servers: servers }) });
}

/** What the config has under the server's name. Throws `SettingsRefused`. */
export function codexServerIn(text: string): ServerThere {
  const { servers } = codexServer(text);
  const value = servers[NAME];
  return serverThere(NAME in servers, value, isRecord(value) ? commandOf(value) : undefined);
}

export function withCodexApproval(text: string): string {
  const { config, server, servers } = codexServer(text);
  if (server === undefined) throw missingServer('codex mcp add poste -- poste mcp --agent NAME --start');
  const mode = server[MODE];
  if (mode === 'approve') return text;
  if (mode !== undefined) {
    const remedy = `set it to "approve" there, or leave out --allow-tools`;
    throw new SettingsRefused(`sets ${MODE} of ${NAME} to ${JSON.stringify(mode)} already`, remedy);
  }
  const lines = text.split('\n');
  const at = lines.findIndex((line) => SERVER_HEADER.test(line));
  if (at === -1) throw new SettingsRefused(`has no line ${HEADER}, which ${APPROVAL} could follow`);
  const allowed = { ...server, [MODE]: 'approve' };
  const after = lines.toSpliced(at + 1, 0, `${APPROVAL}${lineEndOf(text).slice(0, -1)}`).join('\n');
  return checkChange(after, { ...config, mcp_servers: { ...servers, [NAME]: allowed } });
}

export function withoutCodexApproval(text: string): string {
  const { config, server, servers } = codexServer(text);
  if (server?.[MODE] !== 'approve') return text;
  const lines = text.split('\n');
  const start = lines.findIndex((line) => SERVER_HEADER.test(line));
  const at = lines.findIndex((line, index) => index > start && APPROVAL_LINE.test(line));
  if (start === -1 || at === -1) throw badLayout();
  const { [MODE]: _mode, ...others } = server;
  return checkChange(lines.toSpliced(at, 1).join('\n'), { ...config, mcp_servers: { ...servers, [NAME]: others } });
}

function commandLines({ command, args, env }: ServerCommand): string[] {
  const variables = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return [
    `command = ${JSON.stringify(command)}`,
    `args = [${args.map((word) => JSON.stringify(word)).join(', ')}]`,
    ...(variables.length > 0 ? [`env = { ${variables.join(', ')} }`] : []),
  ];
}

/** Where the lines of the table end that begins at `start`: at an empty line, or at the next table. */
function tableEnd(lines: readonly string[], start: number): number {
  const length = lines.slice(start + 1).findIndex((line) => line.trim() === '' || line.trimStart().startsWith('['));
  return length === -1 ? lines.length : start + 1 + length;
}

function codexServer(text: string): { config: Json; servers: Json; server: Json | undefined } {
  const config = parseConfig(text);
  const servers = config['mcp_servers'];
  const server = isRecord(servers) ? servers[NAME] : undefined;
  return { config, servers: isRecord(servers) ? servers : {}, server: isRecord(server) ? server : undefined };
}

function commandOf({ command, args = [], env = {} }: Json): ServerCommand | undefined {
  if (typeof command !== 'string' || !Array.isArray(args) || !isRecord(env)) return undefined;
  return { command, args: args.map(String), env: env as Record<string, string> };
}

function parseConfig(text: string): Json {
  try {
    return parseToml(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    throw new SettingsRefused(`is no TOML at line ${error.line}`);
  }
}

function checkChange(after: string, meant: Json): string {
  // The last line may have no end any more.
  const text = after.replace(/\r$/, '');
  let means: Json;
  try {
    means = parseToml(text);
  } catch {
    throw badLayout();
  }
  // The parser's tables have no prototype.
  if (JSON.stringify(sortMembers(means)) !== JSON.stringify(sortMembers(meant))) throw badLayout();
  return text;
}

function sortMembers(value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`;
  if (Array.isArray(value)) return value.map(sortMembers);
  if (!isRecord(value) || value instanceof Date) return value;
  const members = Object.entries(value).map(([name, member]): [string, unknown] => [name, sortMembers(member)]);
  return Object.fromEntries(members.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
