/**
 * OpenCode: a plugin of ours in its folder of plugins (https://opencode.ai/docs/plugins), one file of JavaScript that
 * OpenCode loads at its next start. It is written whole and removed whole.
 *
 * The plugin calls `poste session`: it registers the session that was used last, waits for its doorbell, and gives
 * OpenCode the line as a prompt. A prompt that comes during a turn is read between two steps, so the proof that the
 * agent has the line is the first request to the model after it (`chat.params`, which names the newest prompt).
 *
 * `opencode run` answers once and ends: a turn that mail begins would change its answer, so nothing rings there. Its
 * words show it, and a session that it begins at another server may ask nobody a question.
 */
import { join } from 'node:path';
import { configFolder, type Environment } from '../../lib/user-folders.ts';
import { SettingsRefused } from './settings-text.ts';
import { agentWords } from './settings.ts';

/** DO NOT CHANGE: installed plugins are recognised by it. */
const FIRST_LINE = '// Written by poste hooks install opencode. poste hooks uninstall opencode removes it.';

/** The folder of the owner's settings of OpenCode. */
export function openCodeFolder(environment: Environment): string {
  return join(configFolder(environment), 'opencode');
}

export const PLUGIN_FILE = join('plugins', 'poste.js');

export interface PluginParts {
  /** Node.js, and the file that it is to run. */
  node: string;
  main: string;
  /** The agent whose sessions these are; without it, the environment of OpenCode or its project names the agent. */
  agent?: string | undefined;
  /** The agent where neither does. */
  defaultAgent?: string | undefined;
  /** `POSTE_HOME`, if the host's files are not in their default folders. */
  home?: string | undefined;
}

/** The file with our plugin. Throws `SettingsRefused` when somebody else wrote what is there. */
export function withPlugin(text: string | undefined, { node, main, home, ...named }: PluginParts): string {
  withoutPlugin(text);
  return `${FIRST_LINE}
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';

const WRITTEN = ${JSON.stringify([node, main])};
${POSTE_OF_NOW}
const NAMED = ${JSON.stringify(agentWords(named))};
const HOME = ${home === undefined ? 'process.env.POSTE_HOME' : JSON.stringify(home)};
const PAUSE_MS = 2000;
const PAUSE_MS_MAX = 60_000;
${PLUGIN_BODY}`;
}

/** After an upgrade of Node.js it is the one of the PATH, and so is Poste. */
const POSTE_OF_NOW =
  "const POSTE = !existsSync(WRITTEN[1]) ? ['poste'] : existsSync(WRITTEN[0]) ? WRITTEN : ['node', WRITTEN[1]];";

const PLUGIN_BODY = `
export const Poste = async ({ client, directory }) => {
  const words = process.argv.slice(2);
  const isOneShot = words.includes('run') && !words.some((word) => word === '-i' || word === '--interactive');
  if (isOneShot) return {};
  let session;
  let given;
  let over = new AbortController();
  process.once('exit', () => over.abort());

  // Resolves with what the command printed, and with undefined when it failed.
  const run = (words, signal) =>
    new Promise((resolve) => {
      const env = HOME ? { ...process.env, POSTE_HOME: HOME } : process.env;
      const given = { cwd: directory, env, signal, stdio: ['ignore', 'pipe', 'ignore'] };
      const child = spawn(POSTE[0], [...POSTE.slice(1), ...words], given);
      let text = '';
      child.stdout.on('data', (chunk) => (text += chunk));
      child.on('error', () => resolve(undefined));
      child.on('close', (code) => resolve(code === 0 ? text.trim() : undefined));
    });

  const agent = await run(['hooks', 'agent', 'opencode', ...NAMED]);
  if (!agent) return {};
  const poste = ([command, ...words], id, signal) => {
    const registers = command === 'register' ? ['--hook', '--pid', String(process.pid)] : [];
    return run(['session', command, ...words, id, '--as', agent, ...registers], signal);
  };

  const wait = async (id, { signal }) => {
    for (let pauseMs = PAUSE_MS; !signal.aborted; ) {
      const isKnown = (await poste(['register'], id, signal)) !== undefined;
      for (let line = isKnown && (await poste(['wait'], id, signal)); line; line = await poste(['wait'], id, signal)) {
        pauseMs = PAUSE_MS;
        const body = { parts: [{ type: 'text', text: line }] };
        const isTaken = await client.session.promptAsync({ path: { id }, body }).then(() => true, () => false);
        if (!isTaken) break;
      }
      // The daemon is away, or let the wait go: register again, less and less often.
      await new Promise((resolve) => setTimeout(resolve, pauseMs).unref());
      pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX);
    }
  };

  // One session acts for the agent: the one that was used last. A subagent's session has a parent, and one that
  // opencode run began may ask nobody.
  const asksNobody = ({ permission, action }) => permission === 'question' && action === 'deny';
  const use = async (id, info) => {
    if (id === session) return;
    const used = info ?? (await client.session.get({ path: { id } })).data;
    if (used?.parentID || (Array.isArray(used?.permission) && used.permission.some(asksNobody))) return;
    over.abort();
    over = new AbortController();
    if (session) void poste(['end'], session);
    session = id;
    wait(id, over).catch(() => undefined);
  };

  return {
    event: async ({ event: { type, properties } }) => {
      if (type === 'session.created') await use(properties.info.id, properties.info);
      if (type === 'session.deleted' && properties.info.id === session) {
        over.abort();
        void poste(['end'], session);
        session = undefined;
      }
    },
    'chat.message': async ({ sessionID }, { message, parts }) => {
      await use(sessionID);
      const text = parts.map((part) => part.text ?? '').join(' ');
      const [line] = /You have [0-9]+ unread messages? in Poste\\. Read \
(?:it|them) with mail_inbox\\./.exec(text) ?? [];
      if (line && sessionID === session) given = { line, prompt: message.id };
    },
    'chat.params': async ({ sessionID, message }) => {
      if (!given || sessionID !== session || message.id !== given.prompt) return;
      const { line } = given;
      given = undefined;
      await poste(['heartbeat', '--line', line], sessionID);
    },
  };
};
`;

/** The words that the plugin runs, in any version of it; undefined when there is none of ours. */
export function pluginWords(text: string | undefined): string[] | undefined {
  if (text?.startsWith(`${FIRST_LINE}\n`) !== true) return undefined;
  const list = /^const (?:POSTE|WRITTEN) = (\["[^\n]*"\]);$/m.exec(text)?.[1];
  if (list === undefined) return undefined;
  const named = /^const NAMED = (\[.*\]);$/m.exec(text)?.[1] ?? '[]';
  const earlier = /^const AGENT = (".*");$/m.exec(text)?.[1];
  const agent = earlier === undefined ? [] : ['--agent', JSON.parse(earlier) as string];
  return [...(JSON.parse(list) as string[]), ...(JSON.parse(named) as string[]), ...agent];
}

/** Removes the file. Throws `SettingsRefused` when somebody else wrote what is there. */
export function withoutPlugin(text: string | undefined): undefined {
  if (text === undefined || text.startsWith(`${FIRST_LINE}\n`)) return undefined;
  throw new SettingsRefused('is not a plugin that Poste wrote');
}
