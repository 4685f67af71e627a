/** Claude Code in a scenario: its settings, and how one knows what it does. */
import type { Terminal } from './terminal.ts';
import { usualModel } from './turns.ts';
import { until } from '../until.ts';
import { READER, type World } from './world.ts';

export interface ClaudeSetting {
  /** Says whether Poste's hooks are installed (default: yes). */
  hasHooks?: boolean;
  /** Says whether the mail tools are registered (default: yes). */
  hasTools?: boolean;
  /** Says whether the model reads its mail when the doorbell rings (default: no). */
  readsMail?: boolean;
  settings?: object;
  /** The folders that its user trusts (default: the project). */
  folders?: readonly string[];
  /** Arguments of the command. */
  args?: readonly string[];
}

/** A home in which Claude Code asks for nothing and talks to the model by script. */
export async function claudeHome(
  world: World,
  { hasHooks = true, hasTools = true, readsMail = false, settings = {}, folders = [world.project] }: ClaudeSetting = {},
): Promise<void> {
  Object.assign(world.env, {
    ANTHROPIC_BASE_URL: world.model.url,
    ANTHROPIC_AUTH_TOKEN: 'none',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
    // In its room it may run as root in every permission mode.
    IS_SANDBOX: '1',
  });
  const tools = { poste: { type: 'stdio', command: 'poste', args: ['mcp', '--agent', READER], env: {} } };
  world.write('.claude.json', {
    hasCompletedOnboarding: true,
    theme: 'dark',
    bypassPermissionsModeAccepted: true,
    projects: Object.fromEntries(
      folders.map((folder) => [folder, { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true }]),
    ),
    ...(hasTools && { mcpServers: tools }),
  });
  const allowed = { permissions: { allow: ['mcp__poste', 'Bash'] }, skipDangerousModePermissionPrompt: true };
  world.write('.claude/settings.json', { ...allowed, ...settings });
  usualModel(world, {
    shell: (command) => ({ type: 'tool', name: 'Bash', input: { command, description: 'Wait' } }),
    inbox: 'mcp__poste__mail_inbox',
    readsMail,
  });
  if (hasHooks) await world.poste('hooks', 'install', 'claude-code', '--agent', READER);
}

/** A session in a terminal that waits for its first prompt. */
export async function claudeSession(world: World, setting: ClaudeSetting = {}): Promise<Terminal> {
  await claudeHome(world, setting);
  const terminal = await world.terminal('claude', setting.args ?? []);
  await terminal.shows(/❯/);
  await until('the session is known to Poste', async () => (await world.presence()).includes('live') || undefined);
  return terminal;
}
