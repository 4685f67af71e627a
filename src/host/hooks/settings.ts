/**
 * Hooks in the settings of a program: adds ours, or removes them, and changes nothing else.
 *
 *     { "hooks": { "<event>": [ { "matcher"?: …, "hooks": [ { "type": "command", "command": … } ] } ] } }
 */
import { lstatSync, mkdirSync, realpathSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parse as parseToml, TomlError } from 'smol-toml';
import { fileFault } from '../../lib/file-fault.ts';
import { copyBeside, replaceFile } from '../../lib/files.ts';
import { shellWord, shellWords } from '../../lib/shell-word.ts';
import { readText } from '../../lib/user-text.ts';
import { DEFAULT_AGENT, type HookProgram, type HookProgramName } from './programs.ts';
import { isRecord, settingsOf, SettingsRefused } from './settings-text.ts';

type Json = Record<string, unknown>;

/**
 * The settings with exactly these hooks of ours, those that the program knows in this `version`; without a version only
 * those that every version knows. Pure. Throws `SettingsRefused`.
 */
export function withHooks(settings: unknown, program: HookProgram, command: string, version = ''): Json {
  const cleaned = withoutHooks(settings, program);
  const hooks = { ...(cleaned['hooks'] as Json | undefined) };
  for (const { event, moment, since = '', members } of program.entries) {
    if (version.localeCompare(since, 'en', { numeric: true }) < 0) continue;
    const groups = (hooks[event] as unknown[] | undefined) ?? [];
    const line = moment === 'wait' ? `${command} --wait` : command;
    hooks[event] = [...groups, { hooks: [{ type: 'command', command: line, ...members }] }];
  }
  return { ...cleaned, hooks };
}

/** The settings without our hooks, and without lists that held only those. Pure. Throws `SettingsRefused`. */
export function withoutHooks(settings: unknown, program: HookProgram): Json {
  if (!isRecord(settings)) throw new SettingsRefused('is no JSON object');
  const { hooks } = settings;
  if (hooks === undefined) return settings;
  if (!isRecord(hooks)) throw new SettingsRefused('has "hooks" that are no object');
  const left: [event: string, groups: unknown[]][] = [];
  for (const [event, groups] of Object.entries(hooks)) {
    if (!Array.isArray(groups)) throw new SettingsRefused(`has hooks of ${event} that are no list`);
    const kept = groups.flatMap((group: unknown) => cleanedGroup(group, event, program));
    if (kept.length > 0 || groups.length === 0) left.push([event, kept]);
  }
  const isEmptied = left.length === 0 && Object.keys(hooks).length > 0;
  const { hooks: _hooks, ...others } = settings;
  return isEmptied ? others : { ...settings, hooks: Object.fromEntries(left) };
}

function cleanedGroup(group: unknown, event: string, program: HookProgram): unknown[] {
  if (!isRecord(group) || !Array.isArray(group['hooks'])) {
    throw new SettingsRefused(`has a hook of ${event} that is no { "hooks": […] }`);
  }
  const handlers: unknown[] = group['hooks'];
  const kept = handlers.filter((handler) => !isOurs(handler, program));
  if (kept.length === handlers.length) return [group];
  return kept.length === 0 ? [] : [{ ...group, hooks: kept }];
}

function isOurs(handler: unknown, { name }: HookProgram): boolean {
  return isRecord(handler) && typeof handler['command'] === 'string' && isHookCommand(handler['command'], name);
}

/** A settings file of another program: read whole, changed as a whole, with a copy of what it was beside it. */

export interface SettingsFile {
  /** The real path: the file may be a symbolic link. */
  path: string;
  /** The text without its byte order mark; `undefined` when there is no file. */
  text: string | undefined;
  hasMark: boolean;
}

const BYTE_ORDER_MARK = '\uFEFF';

/** Throws `SettingsRefused`; its message completes "<path> …". */
export function readSettings(path: string): SettingsFile {
  const real = realPath(path);
  try {
    const text = readText(real);
    const hasMark = text.startsWith(BYTE_ORDER_MARK);
    return { path: real, text: hasMark ? text.slice(1) : text, hasMark };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') {
      // A file in its place would cut the link.
      const isLink = lstatSync(real, { throwIfNoEntry: false })?.isSymbolicLink();
      if (isLink) throw new SettingsRefused('is a symbolic link to a file that is not there');
      return { path: real, text: undefined, hasMark: false };
    }
    throw new SettingsRefused(`cannot be read (${fileFault(error)})`);
  }
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/**
 * Writes the file, or removes it when `changed` is undefined; returns the path of the copy of its old content, or null.
 * Throws `SettingsRefused`.
 */
export async function writeSettings(
  { path, text, hasMark }: SettingsFile,
  changed: string | undefined,
  nowMs: number,
): Promise<string | null> {
  try {
    // The program may have written it in between.
    if (readSettings(path).text !== text) {
      throw new SettingsRefused('was changed by another program just now', 'try again');
    }
    if (changed === undefined) {
      rmSync(path, { force: true });
      return null;
    }
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const backup = text === undefined ? null : copyBeside(path, nowMs);
    await replaceFile(path, `${hasMark ? BYTE_ORDER_MARK : ''}${changed}`);
    return backup;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new SettingsRefused(`cannot be written (${code})`);
  }
}

const TRUST =
  'Codex runs a hook only when you trust it: it asks at its next start, or give it the command /hooks once.';

/** The rules that allow all tools of the MCP server `poste` in Claude Code. */
const CLAUDE_RULES: ReadonlySet<unknown> = new Set(['mcp__poste', 'mcp__poste__*']);

/** Sentences on the rules that the owner may also want in Claude Code. */
export function claudeNotices({ path, text }: Pick<SettingsFile, 'path' | 'text'>): string[] {
  const settings = settingsOf(text);
  const permissions = isRecord(settings) ? settings['permissions'] : undefined;
  const allowed = isRecord(permissions) ? permissions['allow'] : undefined;
  if (Array.isArray(allowed) && allowed.some((rule) => CLAUDE_RULES.has(rule))) return [];
  return [
    'Claude Code asks you before a mail tool runs, and claude -p refuses it: to allow the tools, ' +
      `add "mcp__poste" to permissions.allow in ${path}.`,
  ];
}

function codexApproval(path: string): string {
  return (
    'Codex asks you before mail is sent, and codex exec refuses it: to allow the tools, ' +
    'set default_tools_approval_mode = "approve" in the table [mcp_servers.poste] ' +
    `of ${path}, which codex mcp add writes.`
  );
}

/** Sentences on what the owner must also do in Codex, by its `config.toml`. Throws `SettingsRefused` for no TOML. */
export function codexNotices(folder: string): string[] {
  const path = join(folder, 'config.toml');
  let text: string | undefined;
  try {
    ({ text } = readSettings(path));
  } catch (error) {
    if (!(error instanceof SettingsRefused)) throw error;
  }
  if (text === undefined) return [TRUST, codexApproval(path)];
  let config: Record<string, unknown>;
  try {
    config = parseToml(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    throw new SettingsRefused(`cannot be used as long as ${path}, line ${error.line}, is no TOML`);
  }
  const features = config['features'] as Record<string, unknown> | undefined;
  const isOff = features?.['hooks'] === false || features?.['codex_hooks'] === false;
  const off = `Hooks are turned off in ${path}: set hooks = true in its table [features].`;
  const servers = config['mcp_servers'];
  const tools = isRecord(servers) ? servers['poste'] : undefined;
  const isAllowed = isRecord(tools) && tools['default_tools_approval_mode'] === 'approve';
  return [...(isOff ? [off] : []), TRUST, ...(isAllowed ? [] : [codexApproval(path)])];
}

/**
 * The command line of a hook, as it is written into a program's settings.
 *
 * Any shell may run it. It replaces the shell, so that the hook's parent is the agent's program. When Poste is not
 * installed any more it does nothing: a hook that fails would wake its agent again and again.
 */

/**
 * After an upgrade of Node.js neither it nor what it had installed may be where it was: then it is the one of the PATH,
 * and so is Poste. DO NOT CHANGE: installed hooks are recognised by these; a new one comes first.
 */
const GUARDS = [
  `/bin/sh -c '[ -x "$1" ] && [ -f "$2" ] && exec "$@"; m=$2; shift 2; ` +
    '[ -f "$m" ] && command -v node >/dev/null && exec node "$m" "$@"; ' +
    `command -v poste >/dev/null && exec poste "$@"; exit 0' poste-hook `,
  `/bin/sh -c '[ -x "$1" ] && [ -f "$2" ] || exit 0; exec "$@"' poste-hook `,
] as const;

interface HookCommand {
  program: HookProgramName;
  /** Node.js, and the file that it is to run. */
  node: string;
  main: string;
  /** The agent whose sessions these are; without it, the session's environment or its project names the agent. */
  agent?: string | undefined;
  /** The agent where neither does. */
  defaultAgent?: string | undefined;
  /** `POSTE_HOME`, if the host's files are not in their default folders. */
  home?: string | undefined;
}

export function hookCommand({ program, node, main, agent, defaultAgent, home }: HookCommand): string {
  const words = [node, main, 'hooks', 'run', program, ...agentWords({ agent, defaultAgent })];
  const environment = home === undefined ? '' : `env ${shellWord(`POSTE_HOME=${home}`)} `;
  return `exec ${environment}${GUARDS[0]}${words.map(shellWord).join(' ')}`;
}

/** The flags of a hook that name its agent. */
export function agentWords({ agent, defaultAgent }: Pick<HookCommand, 'agent' | 'defaultAgent'>): string[] {
  if (agent !== undefined) return ['--agent', agent];
  return defaultAgent === undefined ? [] : [DEFAULT_AGENT, defaultAgent];
}

/** True when Poste wrote this command, in any version and from any folder. */
export function isHookCommand(command: string, program: HookProgramName): boolean {
  return hookWords(command, program) !== undefined;
}

/** The words that such a command runs; undefined when it is none. */
function hookWords(command: string, program: HookProgramName): string[] | undefined {
  for (const guard of GUARDS) {
    const [before, words] = command.split(guard);
    if (before?.startsWith('exec ') && words?.includes(` hooks run ${program}`)) return shellWords(words);
  }
  return undefined;
}

/** The words that our hooks in these settings run. Throws `SettingsRefused`. */
export function hooksIn(text: string | undefined, { name }: HookProgram): string[][] {
  const found: string[][] = [];
  JSON.stringify(settingsOf(text), (key, value: unknown) => {
    const words = key === 'command' && typeof value === 'string' ? hookWords(value, name) : undefined;
    if (words) found.push(words);
    return value;
  });
  return found;
}
