/** Claude Code in a scenario: its settings, and how one knows what it does. */
import type { Terminal } from './terminal.ts';
import { until } from './until.ts';
import { READER, type World } from './world.ts';

export interface ClaudeSetting {
  /** Whether Poste's hooks are installed (default: yes). */
  hasHooks?: boolean;
  /** Whether the mail tools are registered (default: yes). */
  hasTools?: boolean;
  settings?: object;
  /** Arguments of the command. */
  args?: readonly string[];
}

/** A home in which Claude Code asks for nothing and talks to the model by script. */
export async function claudeHome(
  world: World,
  { hasHooks = true, hasTools = true, settings = {} }: ClaudeSetting,
): Promise<void> {
  Object.assign(world.env, {
    ANTHROPIC_BASE_URL: world.model.url,
    ANTHROPIC_AUTH_TOKEN: 'none',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
    // In its room it may run as root without asking.
    IS_SANDBOX: '1',
  });
  const tools = { poste: { type: 'stdio', command: 'poste', args: ['mcp', '--agent', READER], env: {} } };
  world.write('.claude.json', {
    hasCompletedOnboarding: true,
    theme: 'dark',
    bypassPermissionsModeAccepted: true,
    projects: { [world.project]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true } },
    ...(hasTools && { mcpServers: tools }),
  });
  world.write('.claude/settings.json', {
    permissions: { allow: ['mcp__poste'] },
    skipDangerousModePermissionPrompt: true,
    ...settings,
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

/** Types a prompt and waits for the model to be asked with it. */
export async function prompt(world: World, terminal: Terminal, text: string): Promise<void> {
  const before = world.model.turns.length;
  await terminal.type(text);
  await terminal.press('Enter');
  await until(`the model is asked "${text}"`, () =>
    world.model.turns.slice(before).find(({ newest }) => newest.includes(text)),
  );
}

/** A turn that is over when this resolves. */
export async function wholeTurn(world: World, terminal: Terminal): Promise<void> {
  world.model.script = ({ newest }) =>
    newest.includes('say hello') ? { type: 'text', text: 'Hello from the model.' } : undefined;
  await prompt(world, terminal, 'say hello');
  await terminal.shows(/Hello from the model\./);
}
