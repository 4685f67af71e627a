/** Which mail tools a program runs without asking its user, and what `--allow-tools` changes about that. */
import { claudeHome } from './claude.ts';
import { codexHome, codexSession } from './codex.ts';
import { check, rest, type Scenario, scenario } from './scenario.ts';
import { everyToolModel, type MailTool, prompt, PROMPTS, toolsThatWorked } from './turns.ts';
import { until } from '../until.ts';
import { READER, type World } from './world.ts';

const ALL: readonly MailTool[] = ['mail_agents', 'mail_inbox', 'mail_reply', 'mail_send'];
/** What opens nothing but the agent's own mailbox and the list of agents. */
const OWN: readonly MailTool[] = ['mail_agents', 'mail_inbox'];
/** In its usual sandbox: with full access it runs every tool, allowed or not. */
const EXEC = ['exec', '--skip-git-repo-check', '--sandbox', 'read-only', PROMPTS.mail];

async function onlyTheseWork(world: World, expected: readonly MailTool[]): Promise<string> {
  const worked = await toolsThatWorked(world);
  check(
    worked.join() === expected.join(),
    `${worked.join(', ') || 'none'} worked; it should be ${expected.join(', ')}`,
  );
  return worked.join(', ') || 'none';
}

/** The writer has the reply and the mail. */
async function allWork(world: World): Promise<string> {
  await until('every tool has worked', async () => (await toolsThatWorked(world)).length === ALL.length || undefined);
  return ALL.join(', ');
}

function claudeScenario(isAllowed: boolean): Scenario {
  return scenario(
    'claude',
    isAllowed
      ? '-p with --allow-tools: every mail tool is used'
      : '-p without an allow rule: every mail tool is denied',
    async (world) => {
      await claudeHome(world, { hasHooks: false, settings: { permissions: { allow: ['Bash'] } } });
      const allows = isAllowed ? ['--allow-tools'] : [];
      await world.poste('hooks', 'install', 'claude-code', '--agent', READER, ...allows);
      await everyToolModel(world);
      await world.run('claude', ['-p', PROMPTS.mail]);
      return onlyTheseWork(world, isAllowed ? ALL : []);
    },
  );
}

function execScenario(isAllowed: boolean): Scenario {
  return scenario(
    'codex',
    isAllowed
      ? 'exec with --allow-tools: every mail tool is used'
      : 'exec without it: mail is read, and sending is refused',
    async (world) => {
      await codexHome(world, { allowsTools: isAllowed });
      await everyToolModel(world);
      await world.run('codex', EXEC);
      return onlyTheseWork(world, isAllowed ? ALL : OWN);
    },
  );
}

export const APPROVAL_SCENARIOS: readonly Scenario[] = [
  claudeScenario(false),
  claudeScenario(true),
  scenario(
    'codex',
    'without --allow-tools: mail is read, and sending waits for its user, as poste send says',
    async (world) => {
      const terminal = await codexSession(world);
      await everyToolModel(world);
      await prompt(world, terminal, PROMPTS.mail);
      for (const tool of ['mail_reply', 'mail_send']) {
        await terminal.shows(new RegExp(`tool "?${tool}`));
        check(!(await toolsThatWorked(world)).some((worked) => worked === tool), `${tool} was not asked for`);
        if (tool === 'mail_reply') {
          const { status, detail } = await world.send();
          check(status === 'live-next-prompt' && /approve/.test(detail), `poste send said ${status} ("${detail}")`);
        }
        await terminal.press('Enter');
        await rest(500);
      }
      return allWork(world);
    },
  ),
  scenario('codex', 'with --allow-tools: every mail tool is used', async (world) => {
    const terminal = await codexSession(world, { allowsTools: true });
    await everyToolModel(world);
    await prompt(world, terminal, PROMPTS.mail);
    return allWork(world);
  }),
  execScenario(false),
  execScenario(true),
];
