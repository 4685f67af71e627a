/**
 * Gemini CLI and OpenCode: programs that Poste wakes by what their owner writes, over the three commands of `poste session`
 * that make any program wakeable (docs/waking.md).
 */
import { rest, saidIsWhatHappens, type Scenario } from './scenario.ts';
import { usualModel, wholeTurn, PROMPTS } from './turns.ts';
import { until } from './until.ts';
import { READER, type World } from './world.ts';

const SETTLE_MS = 1500;

/** Hooks of Gemini CLI: the start of a session registers its pane, and each prompt is reported as heard. */
const GEMINI_HOOK = `import { execFileSync } from 'node:child_process';
let text = '';
for await (const chunk of process.stdin) text += chunk;
const { hook_event_name: event, prompt = '' } = JSON.parse(text);
const poste = (...args) => execFileSync('poste', ['session', ...args, '--as', '${READER}']);
if (event === 'SessionStart') poste('register', 'gemini', '--pid', String(process.ppid), '--tmux');
else poste('heartbeat', 'gemini', '--line', prompt);
console.log('{}');
`;

async function geminiHome(world: World): Promise<void> {
  Object.assign(world.env, {
    GEMINI_API_KEY: 'none',
    GOOGLE_GEMINI_BASE_URL: world.model.url,
    // One process: the pane's program is the one that calls the hooks.
    GEMINI_CLI_NO_RELAUNCH: 'true',
  });
  world.write('hook.mjs', GEMINI_HOOK);
  const hook = [{ hooks: [{ type: 'command', command: `exec node '${world.home}/hook.mjs'`, timeout: 10_000 }] }];
  world.write('.gemini/settings.json', {
    security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
    general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    model: { name: 'gemini-2.5-flash' },
    mcpServers: { poste: { command: 'poste', args: ['mcp', '--agent', READER], trust: true } },
    hooks: { SessionStart: hook, BeforeAgent: hook },
  });
  usualModel(world, {
    shell: (command) => ({ type: 'tool', name: 'run_shell_command', input: { command } }),
    inbox: 'mcp_poste_mail_inbox',
  });
}

/** A plugin that waits for the doorbell of each session and gives its line to the agent. */
const OPENCODE_PLUGIN = `import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
const run = promisify(execFile);
const poste = async (...args) => (await run('poste', ['session', ...args, '--as', '${READER}'])).stdout.trim();
export const Poste = async ({ client }) => ({
  event: async ({ event }) => {
    if (event.type !== 'session.created') return;
    const { id } = event.properties.info;
    await poste('register', id, '--pid', String(process.pid), '--hook');
    void (async () => {
      for (;;) {
        const line = await poste('wait', id);
        await client.session.promptAsync({ path: { id }, body: { parts: [{ type: 'text', text: line }] } });
        await poste('heartbeat', id, '--line', line);
      }
    })().catch(() => undefined);
  },
});
`;

async function openCode(world: World): Promise<{ url: string; session: string }> {
  Object.assign(world.env, { OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' });
  const options = { baseURL: `${world.model.url}/v1`, apiKey: 'none' };
  world.write('.config/opencode/opencode.json', {
    model: 'scripted/scripted',
    autoupdate: false,
    provider: { scripted: { npm: '@ai-sdk/anthropic', options, models: { scripted: { name: 'Scripted' } } } },
    mcp: { poste: { type: 'local', command: ['poste', 'mcp', '--agent', READER], enabled: true } },
  });
  world.write('.config/opencode/plugin/poste.js', OPENCODE_PLUGIN);
  usualModel(world, {
    shell: (command) => ({ type: 'tool', name: 'bash', input: { command, description: 'Wait' } }),
    inbox: 'poste_mail_inbox',
  });
  const server = world.start('opencode', ['serve', '--hostname', '127.0.0.1', '--port', '4096', '--print-logs']);
  const listens = /listening on (http:\S+)/;
  const url = await until('opencode serve listens', () => listens.exec(server.output())?.[1], 60_000);
  const { id: session } = (await post(`${url}/session`, {})) as { id: string };
  await post(`${url}/session/${session}/message`, { parts: [{ type: 'text', text: PROMPTS.greet }] });
  return { url, session };
}

async function post(url: string, body: object): Promise<unknown> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  return response.json();
}

export const OTHER_SCENARIOS: readonly Scenario[] = [
  {
    programs: ['gemini'],
    name: 'idle after a turn, registered with --tmux by a hook: woken',
    async run(world) {
      await geminiHome(world);
      const terminal = await world.terminal('gemini');
      await terminal.shows(/Type your message/);
      await wholeTurn(world, terminal);
      await rest(SETTLE_MS);
      return saidIsWhatHappens(world, { said: 'live-wake' });
    },
  },
  {
    programs: ['opencode'],
    name: 'serve, with a plugin over poste session wait: woken',
    async run(world) {
      await openCode(world);
      await rest(SETTLE_MS);
      return saidIsWhatHappens(world, { said: 'live-wake' });
    },
  },
];
