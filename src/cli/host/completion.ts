/** `poste completion`: scripts by which a shell completes commands, flags and what the daemon knows. */
import type { Command } from 'commander';
import { type CommandTree, completionLines, SCRIPTS, SHELLS } from '../lib/complete.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';

const NOTES = `
The script asks poste itself at every tab, so it stays as it is when poste gets new commands. Agents, paired hosts,
messages and the like come from the daemon; without one there are none of them.

Examples:
  $ eval "$(poste completion bash)"                                         # in ~/.bashrc
  $ poste completion zsh > "\${fpath[1]}/_poste"                             # then start zsh again
  $ poste completion fish > ~/.config/fish/completions/poste.fish`;

export function completionCommand(context: CommandContext, tree: CommandTree): Command {
  return new CommandDraft(context, 'completion')
    .argument('<shell>', 'the shell', { choices: SHELLS })
    .notes(NOTES)
    .action((shell) => context.stdout.write(SCRIPTS[shell]))
    .addCommand(candidatesCommand(context, tree), { hidden: true });
}

function candidatesCommand(context: CommandContext, tree: CommandTree): Command {
  return new CommandDraft(context, 'candidates')
    .description('Print what may come next, a line for each; the scripts call it.')
    .argument('[word...]', 'after --: what follows poste on the line; the last one is being typed')
    .notes('\nExample:\n  $ poste completion candidates -- inbox --st')
    .action(async (words) => {
      const root = await tree(words.slice(0, -1), context);
      const lines = await completionLines(root, words, context);
      context.stdout.write(lines.map((line) => `${line}\n`).join(''));
    });
}
