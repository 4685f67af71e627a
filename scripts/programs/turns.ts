/** The turns of which scenarios are made, the same with every program: what is typed, and what the model does then. */
import type { Answer } from './model-dialects.ts';
import { ms, rest, saidIsWhatHappens } from './scenario.ts';
import type { Terminal } from './terminal.ts';
import { until } from '../until.ts';
import { hasDoorbell, WRITER, type World } from './world.ts';

/** How long the slow answer speaks, and the tool runs. */
export const SLOW_MS = 4000;
/** How long the model waits for mail. */
const WAIT_SECONDS = 30;

export const PROMPTS = {
  greet: 'say hello',
  slow: 'speak slowly',
  tool: 'use a tool',
  mail: 'use the mail tools',
  wait: 'wait for mail',
  sent: 'look what became of your mail',
  waiting: 'look who waits for whom',
} as const;
export const GREETED = 'Hello from the model.';
/** What the slow answer ends with. */
export const SLOW_END = 'eight.';

interface ModelSetting {
  /** The answer that runs a shell command, with the program's own tool. */
  shell: (command: string) => Answer;
  /** How the program calls the tool that reads mail. */
  inbox: string;
  /** Says whether the model reads its mail when the doorbell rings (default: no). */
  readsMail?: boolean;
}

/** The messages in a list that the tool gave, and which it did not show whole. */
export function listedMail(newest: string): string[] {
  if (!newest.includes('summaries')) return [];
  return [...new Set([...newest.matchAll(/message_id\W+([0-9A-Z]{26})/g)].flatMap(([, id]) => id ?? []))];
}

/** The model of most scenarios. */
export function usualModel(world: World, { shell, inbox, readsMail = false }: ModelSetting): void {
  world.model.script = ({ newest }) => {
    if (hasDoorbell(newest)) return readsMail ? { type: 'tool', name: inbox, input: {} } : undefined;
    const ids = listedMail(newest);
    if (ids.length > 0) return { type: 'tool', name: inbox, input: { action: 'read', message_ids: ids } };
    if (newest.includes(PROMPTS.wait)) {
      return { type: 'tool', name: inbox, input: { wait_seconds: WAIT_SECONDS } };
    }
    for (const action of ['sent', 'waiting'] as const) {
      if (newest.includes(PROMPTS[action])) return { type: 'tool', name: inbox, input: { action } };
    }
    if (newest.includes(PROMPTS.greet)) return { type: 'text', text: GREETED };
    if (newest.includes(PROMPTS.slow)) {
      return {
        type: 'text',
        text: `one.\n\ntwo.\n\nthree.\n\nfour.\n\nfive.\n\nsix.\n\nseven.\n\n${SLOW_END}`,
        forMs: SLOW_MS,
      };
    }
    return newest.includes(PROMPTS.tool) ? shell(`sleep ${SLOW_MS / 1000}`) : undefined;
  };
}

/** Types a prompt and waits for the model to be asked with it. */
export async function prompt(world: World, terminal: Terminal, text: string): Promise<void> {
  const before = world.model.turns.length;
  await terminal.enter(text);
  const isAsked = (): true | undefined =>
    world.model.turns.slice(before).some(({ newest }) => newest.includes(text)) || undefined;
  await until(`the model is asked "${text}"`, isAsked);
}

/** A turn that is over when this resolves. */
export async function wholeTurn(world: World, terminal: Terminal): Promise<void> {
  await prompt(world, terminal, PROMPTS.greet);
  await terminal.shows(/Hello from the model\./);
}

/** Until a waiting hook waits, or a terminal has come to rest: nothing tells when. */
export const SETTLE_MS = 1500;

/** A session whose turn is over, and which has come to rest. */
export async function idle(world: World, terminal: Terminal): Promise<void> {
  await wholeTurn(world, terminal);
  await rest(SETTLE_MS);
}

/** Until a doorbell that was heard in a turn that failed has rung again. */
const AGAIN_MS = 60_000;

/** The model's API refuses the turn that mail began in this idle session; a later one, also begun by mail, reads it. */
export async function refusedTurn(world: World): Promise<string> {
  const usual = world.model.script;
  world.model.script = (asked) => (hasDoorbell(asked.newest) ? 'refused' : usual(asked));
  const note = await saidIsWhatHappens(world, { said: 'live-wake' });
  const startMs = performance.now();
  world.model.script = usual;
  await until('the mail is read', async () => (await world.unread()) === 0 || undefined, AGAIN_MS);
  return `${note}; read ${ms(performance.now() - startMs)} after it was refused`;
}

/** What the model does with the mail tools when it is told to, in this order; nothing that a tool says changes it. */
export const MAIL_TOOLS = ['mail_agents', 'mail_inbox', 'mail_reply', 'mail_send'] as const;
export type MailTool = (typeof MAIL_TOOLS)[number];

/** The subject of the mail that the model sends, and the text of its reply. */
const SENT_SUBJECT = 'From the agent';
const REPLY_BODY = 'I have looked.';

/** The model uses every mail tool once, when it is prompted so. The program puts `prefix` before their names. */
export async function everyToolModel(world: World, prefix = 'mcp__poste__'): Promise<void> {
  const { messageId } = await world.send();
  const inputs: Record<MailTool, Record<string, unknown>> = {
    mail_agents: {},
    mail_inbox: {},
    mail_reply: { message_id: messageId, body: REPLY_BODY },
    mail_send: { to: [WRITER], subject: SENT_SUBJECT, body: 'What do you think?' },
  };
  const left: MailTool[] = [];
  world.model.script = ({ newest }) => {
    if (newest.includes(PROMPTS.mail)) left.push(...MAIL_TOOLS);
    const tool = left.shift();
    return tool && { type: 'tool', name: `${prefix}${tool}`, input: inputs[tool] };
  };
}

/** The mail tools that did what they are for, by what came of it. */
export async function toolsThatWorked(world: World): Promise<MailTool[]> {
  const given = world.model.turns.map(({ newest }) => newest).join('\n');
  const mail = await world.poste('inbox', 'list', '--as', WRITER, '--json');
  const worked: Record<MailTool, boolean> = {
    mail_agents: given.includes('directory_age_seconds'),
    mail_inbox: given.includes('Mail 1'),
    mail_reply: mail.includes('"reply_to"'),
    mail_send: mail.includes(SENT_SUBJECT),
  };
  return MAIL_TOOLS.filter((tool) => worked[tool]);
}
