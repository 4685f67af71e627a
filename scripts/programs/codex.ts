/** Codex in a scenario: its settings, and how one knows what it does. */
import { rest } from './scenario.ts';
import type { Terminal } from './terminal.ts';
import { usualModel } from './turns.ts';
import { until } from '../until.ts';
import { READER, type World } from './world.ts';

export interface CodexSetting {
  /** Says whether Poste's hooks are installed (default: yes). */
  hasHooks?: boolean;
  /** Says whether the model reads its mail when the doorbell rings (default: no). */
  readsMail?: boolean;
  /** Says whether its owner lets the mail tools run without asking (default: no). */
  allowsTools?: boolean;
  /** Arguments of the command. */
  args?: readonly string[];
}

/** The owner's settings of a Codex that talks to the model by script. */
export function codexSettings(world: World, folders: readonly string[] = [world.project]): string {
  Object.assign(world.env, { SCRIPTED_KEY: 'none' });
  return `model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
approval_policy = "on-request"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "Scripted"
base_url = "${world.model.url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

${folders.map((folder) => `[projects."${folder}"]\ntrust_level = "trusted"\n`).join('\n')}`;
}

/** A home in which Codex talks to the model by script, with Poste's tools and hooks. */
export async function codexHome(
  world: World,
  { readsMail = false, allowsTools = false, hasHooks = true }: CodexSetting = {},
): Promise<void> {
  const tools = `[mcp_servers.poste]\ncommand = "poste"\nargs = ["mcp", "--agent", "${READER}"]\n`;
  world.write('.codex/config.toml', `${codexSettings(world)}\n${tools}`);
  codexModel(world, readsMail);
  if (hasHooks)
    await world.poste('hooks', 'install', 'codex', '--agent', READER, ...(allowsTools ? ['--allow-tools'] : []));
}

/** The model as Codex asks it. */
export function codexModel(world: World, readsMail = false): void {
  usualModel(world, {
    shell: (cmd) => ({ type: 'tool', name: 'exec_command', input: { cmd, yield_time_ms: 10_000 } }),
    inbox: 'mcp__poste__mail_inbox',
    readsMail,
  });
}

/** A session in a terminal that waits for its first prompt, with its hooks trusted. */
export async function codexSession(world: World, setting: CodexSetting = {}): Promise<Terminal> {
  await codexHome(world, setting);
  const terminal = await world.terminal('codex', setting.args ?? []);
  if (setting.hasHooks === false) {
    // A key that comes before its tools run is lost.
    await until('its tools run', async () => (await world.presence()).includes('live') || undefined);
    await codexReady(terminal);
  } else {
    await trustHooks(terminal);
  }
  return terminal;
}

/** It takes keys a moment after it shows its prompt; nothing tells when. */
export async function codexReady(terminal: Terminal): Promise<void> {
  await terminal.shows(/Ask Codex to do anything/);
  await rest(2000);
}

/** Trusts the hooks, as its user does once. The question comes when its server runs. */
export async function trustHooks(terminal: Terminal): Promise<void> {
  await terminal.shows(/Trust all and continue/);
  await until('the second answer is chosen', async () => {
    const screen = await terminal.screen();
    if (screen.includes('› 2. Trust all')) return true;
    // A key that came before Codex read keys is lost.
    if (screen.includes('› 1.')) await terminal.press('Down');
    await rest(500);
    return undefined;
  });
  await terminal.press('Enter');
  await until('the question is answered', async () => !(await terminal.screen()).includes('Trust all') || undefined);
  // It takes keys a moment later; nothing tells when.
  await rest(2000);
}
