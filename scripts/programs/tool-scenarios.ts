/** Programs that `poste setup` gives the mail tools, one by one: each is used, and undo takes them back. */
import { claudeHome } from './claude.ts';
import { bareQwenHome } from './other-programs.ts';
import { check, type Scenario, scenario } from './scenario.ts';
import { everyToolModel, MAIL_TOOLS, PROMPTS, toolsThatWorked } from './turns.ts';
import { READER, type World } from './world.ts';

const SETUP = ['setup', '--yes', '--no-service', '--allow-tools'];
const UNDO = ['setup', '--undo', '--yes'];

interface ToolProgram {
  name: 'qwen' | 'copilot' | 'cline';
  /** A home in which it asks for no login and talks to the model by script. */
  home: (world: World) => void;
  /** The file of its MCP servers. */
  file: string;
  /** What it puts before the names of the tools. */
  prefix: string;
  /** The words with which it answers one prompt and ends. */
  words: (prompt: string) => string[];
}

const ANTHROPIC_MODEL = 'claude-sonnet-4-5';

const QWEN: ToolProgram = {
  name: 'qwen',
  home: bareQwenHome,
  file: '.qwen/settings.json',
  prefix: 'mcp__poste__',
  words: (prompt) => ['-p', prompt],
};

const COPILOT: ToolProgram = {
  name: 'copilot',
  home: ({ env, model }) => {
    Object.assign(env, {
      COPILOT_OFFLINE: 'true',
      COPILOT_PROVIDER_TYPE: 'anthropic',
      COPILOT_PROVIDER_BASE_URL: model.url,
      COPILOT_PROVIDER_API_KEY: 'none',
      COPILOT_MODEL: ANTHROPIC_MODEL,
    });
  },
  file: '.copilot/mcp-config.json',
  prefix: 'poste-',
  words: (prompt) => ['--allow-tool=poste', '-p', prompt],
};

const CLINE: ToolProgram = {
  name: 'cline',
  home(world) {
    const settings = {
      provider: 'anthropic',
      model: ANTHROPIC_MODEL,
      apiKey: 'none',
      baseUrl: `${world.model.url}/v1`,
    };
    const updatedAt = new Date().toISOString();
    world.write('.cline/data/settings/providers.json', {
      version: 1,
      lastUsedProvider: 'anthropic',
      modes: {},
      providers: { anthropic: { settings, updatedAt, tokenSource: 'manual' } },
    });
  },
  file: '.cline/data/settings/cline_mcp_settings.json',
  prefix: 'poste__',
  words: (prompt) => [prompt],
};

/** Settings in a layout that no program writes, with a server of somebody else. */
const THEIRS = '{"mcpServers": {\t"other": {"command": "true",  "args": [ ]}}\n\n}';

function toolScenarios(program: ToolProgram): Scenario[] {
  const { name, home, file, prefix, words } = program;
  return [
    scenario(name, 'poste setup gives it every mail tool, and undo takes them back', async (world) => {
      home(world);
      await world.poste(...SETUP, '--agent', `${name}=${READER}`);
      await everyToolModel(world, prefix);
      const { stdout, stderr } = await world.run(name, words(PROMPTS.mail));
      const worked = await toolsThatWorked(world);
      check(worked.join() === MAIL_TOOLS.join(), `${worked.join(', ') || 'none'} worked: ${stdout}${stderr}`);
      await world.poste(...UNDO);
      const before = world.model.turns.length;
      await world.run(name, words(PROMPTS.greet));
      const asked = world.model.turns[before];
      check(asked !== undefined && !asked.whole.includes('mail_'), 'its model has a mail tool after the undo');
      return worked.join(', ');
    }),
    scenario(name, 'poste setup and its undo leave its settings byte for byte as they were', async (world) => {
      world.write(file, THEIRS);
      await world.poste(...SETUP);
      const written = world.read(file);
      const isAdded =
        written.includes('"other": {"command": "true",  "args": [ ]}') && written.includes('"--default-agent"');
      check(isAdded, `setup wrote ${written}`);
      await world.poste(...UNDO);
      check(world.read(file) === THEIRS, `undo left ${world.read(file)}`);
    }),
  ];
}

/** As long as `poste mcp` takes on a machine under load; Claude Code waits 5 seconds. */
const SLOW_START = 'sleep 3; exec "$0" "$@"';

/** `poste mcp` starts late, as setup wrote it otherwise. */
function startLate(world: World): void {
  const settings = JSON.parse(world.read('.claude.json')) as {
    mcpServers: { poste: { command: string; args: string[] } };
  };
  const { poste } = settings.mcpServers;
  Object.assign(poste, { command: 'sh', args: ['-c', SLOW_START, poste.command, ...poste.args] });
  world.write('.claude.json', settings);
}

export const TOOL_SCENARIOS: readonly Scenario[] = [
  ...[QWEN, COPILOT, CLINE].flatMap(toolScenarios),
  scenario('copilot', '-p without a flag: the list of agents is shown, and no other tool is used', async (world) => {
    COPILOT.home(world);
    await world.poste(...SETUP, '--agent', `copilot=${READER}`);
    await everyToolModel(world, COPILOT.prefix);
    await world.run('copilot', ['-p', PROMPTS.mail]);
    const worked = await toolsThatWorked(world);
    check(worked.join() === 'mail_agents', `${worked.join(', ') || 'none'} worked`);
  }),
  scenario('claude', '-p after poste setup: its first request has all tools, though they start late', async (world) => {
    await claudeHome(world, { hasHooks: false, hasTools: false });
    await world.poste(...SETUP, '--agent', `claude-code=${READER}`);
    startLate(world);
    await world.run('claude', ['-p', PROMPTS.greet]);
    const [first] = world.model.turns;
    const offered = first?.tools.filter((tool) => tool.startsWith('mcp__poste__')) ?? [];
    check(offered.length === MAIL_TOOLS.length, `it has ${offered.join(', ') || 'none'}`);
    return offered.join(', ');
  }),
];
