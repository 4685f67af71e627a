/** How a program starts our MCP server, and what its settings may have under that name. */
import { isDeepStrictEqual } from 'node:util';
import { SettingsRefused } from './settings-text.ts';

export const SERVER_NAME = 'poste';

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

export function serverThere(isThere: boolean, value: unknown, server: ServerCommand | undefined): ServerThere {
  if (!isThere) return { type: 'absent' };
  return server ? { type: 'command', server } : { type: 'other', text: JSON.stringify(value) };
}

export function isSameServer(a: ServerCommand | undefined, b: ServerCommand): boolean {
  return (
    a?.command === b.command && isDeepStrictEqual([...a.args], [...b.args]) && isDeepStrictEqual({ ...a.env }, b.env)
  );
}

export interface MailTools {
  /** Without it the program's own environment names the agent. */
  agent: string | undefined;
}

/** Whether a command starts our mail tools, however Poste is named in it, and of which agent. */
export function mailToolsOf({ command, args, env }: ServerCommand): MailTools | undefined {
  const words = [command, ...args];
  const at = words.indexOf('mcp');
  if (!/(?:^|\/)(?:poste|cli\/main\.js)$/.test(words[at - 1] ?? '')) return undefined;
  const flag = words.indexOf('--agent', at);
  const joined = words.find((word) => word.startsWith('--agent='))?.slice('--agent='.length);
  return { agent: flag === -1 ? (joined ?? env['POSTE_AGENT']) : words[flag + 1] };
}

/** Its tools cannot be allowed where it is not named; `add` is the program's own command that names it. */
export function missingServer(add: string): SettingsRefused {
  const remedy = `run poste setup --allow-tools, or ${add}, and then this command again`;
  return new SettingsRefused(`has no MCP server ${SERVER_NAME} yet, whose tools could be allowed`, remedy);
}
