/**
 * Commands by name, each loaded when it is wanted: most of the time of a short command would go into loading what the
 * others need. For help, and for a name that is none, all of them are.
 */
import type { Command } from 'commander';

export type LazyCommands = Readonly<Record<string, () => Promise<Command>>>;

/** Adds to `parent` the command that the arguments after `parent` name, or all where they name none. */
export async function addCommands(parent: Command, commands: LazyCommands, words: readonly string[]): Promise<void> {
  const wanted = words[words.indexOf(parent.name()) + 1] ?? '';
  const loads = Object.hasOwn(commands, wanted) ? [commands[wanted]] : Object.values(commands);
  for (const load of loads) if (load) parent.addCommand(await load());
}
