/**
 * Our MCP server in the settings of the programs that run agents, and the approval of its tools: adds them, or removes
 * them, and changes nothing else. Texts in, texts out; a text that stays the same is not written.
 *
 * A server that is called `poste` and that somebody else wrote stays as it is.
 */
import { isDeepStrictEqual } from 'node:util';
import { parse as parseToml, TomlError } from 'smol-toml';
import { DEFAULT_AGENT } from './programs.ts';
import { isRecord, changedJson, settingsOf, SettingsRefused, badLayout, lineEndOf } from './settings-text.ts';

export type TextChange = (text: string | undefined) => string | undefined;

type Json = Record<string, unknown>;

/** The part of a program's settings that names our MCP server. */
export interface ServerSettings {
  /**
   * The settings with the server, in place of one that an earlier setup wrote: what its owner or the program added to
   * that one stays. Throws `SettingsRefused`.
   */
  addServer: (server: ServerCommand, earlier?: readonly ServerCommand[]) => TextChange;
  /**
   * The settings without the server, when it is started as `addServer` wrote it: what its owner or the program added to
   * it, such as an approval, means nothing without it and goes too. Throws `SettingsRefused`.
   */
  removeServer: (server: ServerCommand) => TextChange;
  /** Reads what the settings have under the server's name. Throws `SettingsRefused`. */
  serverIn: (text: string | undefined) => ServerThere;
}

/** Settings in JSON whose member `list` has the servers by their names; `entryOf` makes ours. */
export function jsonServers(list: string, entryOf: (server: ServerCommand) => Json): ServerSettings {
  return {
    addServer:
      (server, earlier = []) =>
      (text) =>
        changedJson(text, (settings) => {
          const servers = memberOf(settings, list);
          const before = servers[NAME];
          const there = commandOf(before);
          const isEarlier = earlier.some((one) => isSameServer(there, one));
          if (NAME in servers && !isEarlier) return settings as Json;
          const {
            command: _command,
            args: _args,
            env: _env,
            environment: _environment,
            ...theirs
          } = (before ?? {}) as Json;
          return {
            ...(settings as Json),
            [list]: {
              ...servers,
              [NAME]: { ...entryOf(there && isSameServer(there, server) ? there : server), ...theirs },
            },
          };
        }),
    removeServer: (server) => (text) =>
      changedJson(text, (settings) => {
        const { [NAME]: ours, ...servers } = memberOf(settings, list);
        if (!isSameServer(commandOf(ours), server)) return settings as Json;
        return withMember(settings as Json, list, servers);
      }),
    serverIn(text) {
      const servers = memberOf(settingsOf(text), list);
      return serverThere(NAME in servers, servers[NAME], commandOf(servers[NAME]));
    },
  };
}

/** The entry of a server in the form that most programs read, with the members that this program wants besides. */
export function plainServer(members: Json = {}): (server: ServerCommand) => Json {
  return ({ command, args, env }) => ({
    ...members,
    command,
    args: [...args],
    ...(Object.keys(env).length > 0 && { env }),
  });
}

export function openCodeServer({ command, args, env }: ServerCommand): Json {
  const environment = Object.keys(env).length > 0 && { environment: env };
  return { type: 'local', command: [command, ...args], enabled: true, ...environment };
}

/** Two changes of settings: one allows the tools of the server, and the other takes that back. */
export interface AllowedTools {
  add: TextChange;
  /** Leaves the rules that stood there before. */
  remove: (text: string | undefined, before?: readonly string[]) => string | undefined;
  /** The rules of `add` that stand there, when they are items of a list. Throws `SettingsRefused`. */
  rulesIn?: (text: string | undefined) => string[];
}

/** Settings with a list of rules in their `permissions`, one of which allows a tool, or all tools of a server. */
export function permittedTools(list: string, ours: readonly string[]): AllowedTools {
  return {
    add: (text) => changedJson(text, (settings) => withRules(settings, list, ours)),
    remove: (text, before = []) =>
      changedJson(text, (settings) => {
        const written = ours.filter((rule) => !before.includes(rule));
        return withoutRules(settings, list, written);
      }),
    rulesIn(text) {
      const rules = memberOf(settingsOf(text), 'permissions')[list];
      return ours.filter((rule) => asList(rules).includes(rule));
    },
  };
}

/** Settings that trust a server as a whole, in its entry. `command` is the program's own. */
export function trustedTools(command: string): AllowedTools {
  return {
    add: (text) => changedJson(text, (settings) => withTrust(settings, true, command)),
    remove: (text) => changedJson(text, (settings) => withTrust(settings, undefined, command)),
  };
}

export const CODEX_TOOLS: AllowedTools = {
  add: (text = '') => withCodexApproval(text),
  remove: (text) => text && withoutCodexApproval(text),
};

export const CODEX_SERVERS: ServerSettings = {
  addServer:
    (server, earlier = []) =>
    (text = '') =>
      withCodexServer(text, server, earlier),
  removeServer: (server) => (text) => text && withoutCodexServer(text, server),
  serverIn: (text = '') => codexServerIn(text),
};

/** The command by which these settings start a server; `undefined` when they reach it in another way. */
function commandOf(server: unknown): ServerCommand | undefined {
  if (!isRecord(server)) return undefined;
  // `cline mcp add` keeps the command one level below.
  if (isRecord(server['transport'])) return commandOf(server['transport']);
  const { command, args = [], env, environment = env ?? {} } = server;
  const words: unknown[] = [...(Array.isArray(command) ? (command as unknown[]) : [command]), ...asList(args)];
  const [program, ...rest] = words.map(String);
  if (typeof words[0] !== 'string' || program === undefined || !isRecord(environment)) return undefined;
  return { command: program, args: rest, env: environment as Record<string, string> };
}

function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [value];
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

function withRules(settings: unknown, list: string, ours: readonly string[]): Json {
  const permissions = memberOf(settings, 'permissions');
  const rules: unknown = permissions[list] ?? [];
  if (!Array.isArray(rules)) throw new SettingsRefused(`has "permissions.${list}" that is no list`);
  const missing = ours.filter((rule) => !rules.includes(rule));
  if (missing.length === 0) return settings as Json;
  return { ...(settings as Json), permissions: { ...permissions, [list]: [...(rules as unknown[]), ...missing] } };
}

function withoutRules(settings: unknown, list: string, ours: readonly unknown[]): Json {
  const { [list]: rules, ...permissions } = memberOf(settings, 'permissions');
  if (!Array.isArray(rules) || !rules.some((rule) => ours.includes(rule))) return settings as Json;
  const left: unknown[] = rules.filter((rule) => !ours.includes(rule));
  return withMember(settings as Json, 'permissions', { ...permissions, ...(left.length > 0 && { [list]: left }) });
}

function withTrust(settings: unknown, trust: true | undefined, command: string): Json {
  const servers = memberOf(settings, 'mcpServers');
  const server = servers[NAME];
  if (!isRecord(server)) {
    if (trust === undefined) return settings as Json;
    throw missingServer(`${command} mcp add poste poste mcp --agent NAME`);
  }
  const { trust: _before, ...others } = server;
  const changed = trust ? { ...server, trust } : others;
  return { ...(settings as Json), mcpServers: { ...servers, [NAME]: changed } };
}

const NAME = 'poste';

export interface ServerCommand {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
}

export type ServerThere =
  | { type: 'absent' }
  | { type: 'command'; server: ServerCommand }
  /** It is no command: one that is reached by its address, say. */
  | { type: 'other'; text: string };

function serverThere(isThere: boolean, value: unknown, server: ServerCommand | undefined): ServerThere {
  if (!isThere) return { type: 'absent' };
  return server ? { type: 'command', server } : { type: 'other', text: JSON.stringify(value) };
}

/** Earlier versions wrote the flag --start, and started no daemon without it. */
export function isSameServer(a: ServerCommand | undefined, b: ServerCommand): boolean {
  if (a?.command !== b.command) return false;
  const [words, others] = [a, b].map(({ args }) => args.filter((word) => word !== '--start'));
  return isDeepStrictEqual(words, others) && isDeepStrictEqual({ ...a.env }, b.env);
}

interface MailTools {
  /** The flag's agent. The program's own environment names the agent when it is missing. */
  agent: string | undefined;
  /** True where POSTE_AGENT and the project go before that agent. */
  isDefault: boolean;
}

/** The agent of the mail tools that a command starts, whatever it calls Poste; `undefined` for any other command. */
export function mailToolsOf({ command, args, env }: ServerCommand): MailTools | undefined {
  const words = [command, ...args];
  const at = words.indexOf('mcp');
  if (!/(?:^|\/)(?:poste|cli\/main\.js)$/.test(words[at - 1] ?? '')) return undefined;
  const valueOf = (flag: string): string | undefined => {
    const place = words.indexOf(flag, at);
    return place === -1 ? words.find((word) => word.startsWith(`${flag}=`))?.slice(flag.length + 1) : words[place + 1];
  };
  const given = valueOf('--agent') ?? env['POSTE_AGENT'];
  const byDefault = valueOf(DEFAULT_AGENT);
  return { agent: given ?? byDefault, isDefault: given === undefined && byDefault !== undefined };
}

/** Its tools cannot be allowed where it is not named; `add` is the program's own command that names it. */
function missingServer(add: string): SettingsRefused {
  const remedy = `run poste setup --allow-tools, or ${add}, and then this command again`;
  return new SettingsRefused(`has no MCP server ${NAME} yet, whose tools could be allowed`, remedy);
}

const MODE = 'default_tools_approval_mode';
const HEADER = '[mcp_servers.poste]';
const APPROVAL = `${MODE} = "approve"`;
const SERVER_HEADER = /^\s*\[\s*mcp_servers\s*\.\s*(?:poste|"poste"|'poste')\s*\]\s*(?:#.*)?$/;
/** A table in the server's, such as the approval of one tool that Codex writes. */
const INNER_HEADER = /^\s*\[\s*mcp_servers\s*\.\s*(?:poste|"poste"|'poste')\s*\./;
const APPROVAL_LINE = /^\s*default_tools_approval_mode\s*=\s*(?:"approve"|'approve')\s*(?:#.*)?$/;
const COMMAND_LINE = /^\s*(?:command|args|env)\s*=/;
/** Codex hands its servers only a part of its environment, and these besides. */
const PASSED_VARIABLES = ['POSTE_AGENT'];

/**
 * `config.toml` of Codex is changed by lines, so that comments and layout stay. `checkChange` parses what came out:
 * nothing but the change may be different.
 */
function withCodexServer(text: string, server: ServerCommand, earlier: readonly ServerCommand[]): string {
  const { config, servers, server: before } = codexServer(text);
  const lines = commandLines(server);
  const { command, args, env } = server;
  const value = { command, args: [...args], ...(Object.keys(env).length > 0 && { env: { ...env } }) };
  const passed = { env_vars: PASSED_VARIABLES };
  if (!(NAME in servers)) {
    const end = lineEndOf(text);
    const table = [HEADER, ...lines, PASSED].join(end);
    // As the text ends now, it ends below the table too.
    const isOpen = text !== '' && !text.endsWith('\n');
    const after = text === '' ? `${table}\n` : `${text}${end}${isOpen ? `${end}${table}` : `${table}${end}`}`;
    return checkChange(after, { ...config, mcp_servers: { ...servers, [NAME]: { ...value, ...passed } } });
  }
  const there = before && codexCommandOf(before);
  if (!there || isSameServer(there, server) || !earlier.some((one) => isSameServer(there, one))) return text;
  const { command: _command, args: _args, env: _env, ...added } = before;
  const all = text.split('\n');
  const tail = lineEndOf(text).slice(0, -1);
  const start = all.findIndex((line) => SERVER_HEADER.test(line));
  const end = tableEnd(all, start);
  const kept = all.slice(start + 1, end).filter((line) => !COMMAND_LINE.test(line));
  // The tools that its owner lets through stay.
  const isPassing = 'env_vars' in added;
  const written = [...lines, ...(isPassing ? [] : [PASSED])].map((line) => `${line}${tail}`);
  const after = [...all.slice(0, start + 1), ...written, ...kept, ...all.slice(end)].join('\n');
  return checkChange(after, { ...config, mcp_servers: { ...servers, [NAME]: { ...passed, ...added, ...value } } });
}

/** Tables in the server's go with it: Codex refuses a config with a server that has no command. */
function withoutCodexServer(text: string, server: ServerCommand): string {
  const { config, server: ours } = codexServer(text);
  if (!ours || !isSameServer(codexCommandOf(ours), server)) return text;
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

/** Reads what the config has under the server's name. Throws `SettingsRefused`. */
function codexServerIn(text: string): ServerThere {
  const { servers } = codexServer(text);
  const value = servers[NAME];
  return serverThere(NAME in servers, value, isRecord(value) ? codexCommandOf(value) : undefined);
}

function withCodexApproval(text: string): string {
  const { config, server, servers } = codexServer(text);
  if (server === undefined) throw missingServer('codex mcp add poste -- poste mcp --agent NAME');
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

function withoutCodexApproval(text: string): string {
  const { config, server, servers } = codexServer(text);
  if (server?.[MODE] !== 'approve') return text;
  const lines = text.split('\n');
  const start = lines.findIndex((line) => SERVER_HEADER.test(line));
  const at = lines.findIndex((line, index) => index > start && APPROVAL_LINE.test(line));
  if (start === -1 || at === -1) throw badLayout();
  const { [MODE]: _mode, ...others } = server;
  return checkChange(lines.toSpliced(at, 1).join('\n'), { ...config, mcp_servers: { ...servers, [NAME]: others } });
}

const PASSED = `env_vars = ${JSON.stringify(PASSED_VARIABLES)}`;

function commandLines({ command, args, env }: ServerCommand): string[] {
  const variables = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return [
    `command = ${JSON.stringify(command)}`,
    `args = [${args.map((word) => JSON.stringify(word)).join(', ')}]`,
    ...(variables.length > 0 ? [`env = { ${variables.join(', ')} }`] : []),
  ];
}

/** The end of the table that begins at `start`: an empty line, or the next table. */
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

function codexCommandOf({ command, args = [], env = {} }: Json): ServerCommand | undefined {
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
