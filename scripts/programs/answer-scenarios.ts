/**
 * The same in each program: an answer to an agent that asked and went idle, a model that waits, one that looks what
 * became of its question, tools alone.
 */
import { claudeSession } from './claude.ts';
import { codexSession } from './codex.ts';
import type { ProgramName } from './installs.ts';
import { geminiSession, openCodeHome, openCodeServer } from './other-programs.ts';
import { check, ms, rest, saidIsWhatHappens, type Scenario, scenario } from './scenario.ts';
import type { Terminal } from './terminal.ts';
import { idle, prompt, PROMPTS, SETTLE_MS } from './turns.ts';
import { until } from '../until.ts';
import { READER, type World, WRITER } from './world.ts';

type Ask = (text: string) => Promise<void>;

/** Opens a session that comes to rest after a turn; what it returns gives it a prompt, of which the model is asked. */
type Open = (world: World, hasHooks: boolean) => Promise<Ask>;

async function inTerminal(world: World, terminal: Terminal): Promise<Ask> {
  await idle(world, terminal);
  return (text) => prompt(world, terminal, text);
}

const OPEN = {
  claude: async (world, hasHooks) => inTerminal(world, await claudeSession(world, { hasHooks })),
  codex: async (world, hasHooks) => inTerminal(world, await codexSession(world, { hasHooks })),
  gemini: async (world, hasHooks) => inTerminal(world, await geminiSession(world, { hasHooks })),
  opencode: async (world, hasHooks) => {
    await openCodeHome(world, { hasHooks });
    const { prompt: ask } = await openCodeServer(world);
    await ask(PROMPTS.greet);
    await rest(SETTLE_MS);
    return async (text) => {
      const before = world.model.turns.length;
      // It answers when the turn is over.
      void ask(text).catch(() => undefined);
      await until(`the model is asked "${text}"`, () => world.model.turns.length > before || undefined);
    };
  },
} as const satisfies Partial<Record<ProgramName, Open>>;

const PROGRAMS = Object.keys(OPEN) as (keyof typeof OPEN)[];

interface Sent {
  message_id: string;
  recipients: { status: string; detail: string }[];
}

const ANSWER_SCENARIOS = PROGRAMS.map(
  (program): Scenario =>
    scenario(program, 'an answer to what it asked, idle: woken', async (world) => {
      await OPEN[program](world, true);
      const question = ['--to', WRITER, '--subject', 'Which branch?', '--body', 'Tell me.', '--needs-reply'];
      const asked = JSON.parse(await world.poste('send', '--as', READER, ...question, '--json')) as Sent;
      const before = world.model.turns.length;
      const startMs = performance.now();
      const answer = ['reply', asked.message_id, '--as', WRITER, '--body', 'main', '--json'];
      const { recipients } = JSON.parse(await world.poste(...answer)) as Sent;
      const { status = '', detail = '' } = recipients[0] ?? {};
      const seen = await world.rungWithin(3000, before);
      check(status === 'live-wake', `poste reply said ${status} (${detail}); it should have been live-wake`);
      check(seen !== undefined, `poste reply said ${status}, and the model did not see it`);
      return `${status}, at the model after ${ms(seen.atMs - startMs)}`;
    }),
);

const WAIT_SCENARIOS = PROGRAMS.map(
  (program): Scenario =>
    scenario(program, 'its model waits in a call of mail_inbox, tools alone: it has the mail', async (world) => {
      const ask = await OPEN[program](world, false);
      await ask(PROMPTS.wait);
      // The call is made a moment after the model asked for it.
      await rest(SETTLE_MS);
      const before = world.model.turns.length;
      const { status, detail, ms: sentMs } = await world.send();
      const hasMail = (): true | undefined =>
        world.model.turns.slice(before).some(({ newest }) => newest.includes('Mail 1')) || undefined;
      check(status === 'live-wake', `poste send said ${status} (${detail}); it should have been live-wake`);
      await until('the model has the mail', hasMail, 3000);
      return `${status} in ${sentMs} ms`;
    }),
);

/** Its question was read and has no answer. */
const ASKER_SCENARIOS = PROGRAMS.map(
  (program): Scenario =>
    scenario(program, 'its model learns what became of its question, and who owes it an answer', async (world) => {
      const ask = await OPEN[program](world, false);
      const question = ['--to', WRITER, '--subject', 'Which branch?', '--body', 'Tell me.', '--needs-reply'];
      const asked = JSON.parse(await world.poste('send', '--as', READER, ...question, '--json')) as Sent;
      await world.poste('inbox', 'read', '--as', WRITER, asked.message_id);
      const given = async (text: string, shown: RegExp): Promise<void> => {
        const before = world.model.turns.length;
        await ask(text);
        const isShown = (): true | undefined =>
          world.model.turns.slice(before).some(({ newest }) => shown.test(newest)) || undefined;
        await until(`the model is shown ${shown.source}`, isShown);
        await rest(SETTLE_MS);
      };
      await given(PROMPTS.sent, /Which branch\?[^]*state\W+read/);
      await given(PROMPTS.waiting, /owed_to_you[^]*Which branch\?/);
    }),
);

/** Claude Code is woken by its inbox socket without hooks; the others are not. */
const TOOL_SCENARIOS = PROGRAMS.filter((program) => program !== 'claude').map(
  (program): Scenario =>
    scenario(program, 'idle after a turn, tools alone: not woken, and not said to be', async (world) => {
      await OPEN[program](world, false);
      return saidIsWhatHappens(world, { said: 'offline', sees: false });
    }),
);

export const ANSWER_AND_WAIT_SCENARIOS: readonly Scenario[] = [
  ...ANSWER_SCENARIOS,
  ...WAIT_SCENARIOS,
  ...ASKER_SCENARIOS,
  ...TOOL_SCENARIOS,
];
