/** Gemini CLI, Qwen Code and OpenCode in a scenario: their settings, with what `poste hooks install` writes there. */
import type { ChildProcess } from 'node:child_process';
import { rest } from './scenario.ts';
import type { Terminal } from './terminal.ts';
import { SETTLE_MS, usualModel } from './turns.ts';
import { until } from '../until.ts';
import { READER, type World } from './world.ts';

export interface OtherSetting {
  /** Says whether Poste's tools are registered (default: yes). */
  hasTools?: boolean;
  /** Says whether its hooks or its plugin are installed (default: yes). */
  hasHooks?: boolean;
  /** Says whether the model reads its mail when the doorbell rings (default: no). */
  readsMail?: boolean;
}

/** A home in which Gemini CLI asks for no login and talks to the model by script; `more` are further settings. */
export function bareGeminiHome(world: World, more: object = {}): void {
  Object.assign(world.env, { GEMINI_API_KEY: 'none', GOOGLE_GEMINI_BASE_URL: world.model.url });
  world.write('.gemini/settings.json', {
    security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
    general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    model: { name: 'gemini-2.5-flash' },
    ...more,
  });
}

export async function geminiHome(
  world: World,
  { hasTools = true, hasHooks = true, readsMail = false }: OtherSetting = {},
): Promise<void> {
  const poste = { command: 'poste', args: ['mcp', '--agent', READER], trust: true };
  bareGeminiHome(world, hasTools ? { mcpServers: { poste } } : {});
  usualModel(world, {
    shell: (command) => ({ type: 'tool', name: 'run_shell_command', input: { command } }),
    inbox: 'mcp_poste_mail_inbox',
    readsMail,
  });
  if (hasHooks) await world.poste('hooks', 'install', 'gemini', '--agent', READER, '--allow-tools');
}

/** A session of Gemini CLI in a terminal that waits for its first prompt. */
export async function geminiSession(world: World, setting: OtherSetting = {}): Promise<Terminal> {
  await geminiHome(world, setting);
  return paneSession(world, 'gemini');
}

/** A home in which Qwen Code asks for no login and talks to the model by script, without a word of Poste. */
export function bareQwenHome(world: World): void {
  Object.assign(world.env, { ANTHROPIC_API_KEY: 'none', ANTHROPIC_BASE_URL: world.model.url });
  world.write('.qwen/settings.json', {
    security: { auth: { selectedType: 'anthropic' }, folderTrust: { enabled: false } },
    model: { name: 'claude-sonnet-4-5' },
    general: { enableAutoUpdate: false },
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    // Else its own model judges each call of a tool, and another one what to remember of the turn.
    tools: { approvalMode: 'default' },
    memory: { enableManagedAutoMemory: false, enableManagedAutoDream: false },
  });
}

export async function qwenHome(world: World, { readsMail = false } = {}): Promise<void> {
  bareQwenHome(world);
  usualModel(world, {
    shell(command) {
      // It refuses a command that only waits and does not say so.
      const input = { command: `${command} # intentional-sleep: a scenario`, is_background: false };
      return { type: 'tool', name: 'run_shell_command', input };
    },
    inbox: 'mcp__poste__mail_inbox',
    readsMail,
  });
  await world.poste('setup', '--yes', '--no-service', '--allow-tools', '--agent', `qwen=${READER}`);
}

/** A session of a program whose home is there. */
export async function paneSession(world: World, program: 'gemini' | 'qwen'): Promise<Terminal> {
  const terminal = await world.terminal(program);
  await terminal.shows(/Type your message/);
  // Its hooks have begun the session, or its tools run. An Enter that comes before that, or a moment later, is lost.
  await until('the session is known to Poste', async () => (await world.presence()).includes('live') || undefined);
  await rest(SETTLE_MS);
  return terminal;
}

/** A home in which OpenCode fetches nothing and talks to the model by script; `more` are further settings. */
export function bareOpenCodeHome(world: World, more: object): void {
  Object.assign(world.env, { OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' });
  // For a plugin it fetches a package that it can do without, which nothing here answers.
  world.write('.npmrc', 'fetch-retries=0\n');
  const options = { baseURL: `${world.model.url}/v1`, apiKey: 'none' };
  world.write('.config/opencode/opencode.json', {
    model: 'scripted/scripted',
    autoupdate: false,
    provider: { scripted: { npm: '@ai-sdk/anthropic', options, models: { scripted: { name: 'Scripted' } } } },
    ...more,
  });
}

/** A home in which OpenCode talks to the model by script. */
export async function openCodeHome(
  world: World,
  { hasTools = true, hasHooks = true, readsMail = false }: OtherSetting = {},
): Promise<void> {
  const poste = { type: 'local', command: ['poste', 'mcp', '--agent', READER], enabled: true };
  bareOpenCodeHome(world, hasTools ? { mcp: { poste } } : {});
  usualModel(world, {
    shell: (command) => ({ type: 'tool', name: 'bash', input: { command, description: 'Wait' } }),
    inbox: 'poste_mail_inbox',
    readsMail,
  });
  if (hasHooks) await world.poste('hooks', 'install', 'opencode', '--agent', READER);
}

export interface OpenCodeServer {
  child: ChildProcess;
  /** Gives it a prompt in its session; resolves when the turn is over. */
  prompt: (text: string) => Promise<void>;
  /** The same in a new session in another folder. */
  promptIn: (folder: string, text: string) => Promise<void>;
}

/** `opencode serve` with a session that was not prompted. */
export async function openCodeServer(world: World): Promise<OpenCodeServer> {
  const args = ['serve', '--hostname', '127.0.0.1', '--port', '4096', '--print-logs'];
  const { child, output } = world.start('opencode', args);
  const listens = /listening on (http:\S+)/;
  const url = await until('opencode serve listens', () => listens.exec(output())?.[1], 60_000);
  const { id } = (await post(`${url}/session`, {})) as { id: string };
  const prompt = async (text: string): Promise<void> => {
    await post(`${url}/session/${id}/message`, { parts: [{ type: 'text', text }] });
  };
  const promptIn = async (folder: string, text: string): Promise<void> => {
    const at = `?directory=${encodeURIComponent(folder)}`;
    const session = (await post(`${url}/session${at}`, {})) as { id: string };
    await post(`${url}/session/${session.id}/message${at}`, { parts: [{ type: 'text', text }] });
  };
  return { child, prompt, promptIn };
}

async function post(url: string, body: object): Promise<unknown> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  return response.json();
}
