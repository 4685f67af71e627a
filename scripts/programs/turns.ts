/** The turns of which scenarios are made, the same with every program: what is typed, and what the model does then. */
import type { Answer } from './model-dialects.ts';
import type { Terminal } from './terminal.ts';
import { until } from './until.ts';
import { hasDoorbell, type World } from './world.ts';

/** How long the slow answer speaks, and the tool runs. */
export const SLOW_MS = 4000;

export const PROMPTS = { greet: 'say hello', slow: 'speak slowly', tool: 'use a tool' } as const;
export const GREETED = 'Hello from the model.';
/** What the slow answer ends with. */
export const SLOW_END = 'eight.';

interface ModelSetting {
  /** The answer that runs a shell command, with the program's own tool. */
  shell: (command: string) => Answer;
  /** How the program calls the tool that reads mail. */
  inbox: string;
  /** Whether the model reads its mail when the doorbell rings (default: no). */
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
