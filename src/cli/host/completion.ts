/** `poste completion`: scripts by which a shell completes commands, flags and what the daemon knows. */
import { Argument, Command } from 'commander';
import { type CommandTree, completionLines, SCRIPTS, SHELLS, type Shell } from '../lib/complete.ts';
import type { CommandContext } from '../lib/context.ts';

const NOTES = `
The script asks poste itself at every tab, so it stays as it is when poste gets new commands. Agents, paired hosts,
messages and the like come from the daemon; without one there are none of them.

Examples:
  $ eval "$(poste completion bash)"                                         # in ~/.bashrc
  $ poste completion zsh > "\${fpath[1]}/_poste"                             # then start zsh again
  $ poste completion fish > ~/.config/fish/completions/poste.fish`;

export function completionCommand(context: CommandContext, tree: CommandTree): Command {
  return new Command('completion')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addCommand(candidatesCommand(context, tree), { hidden: true })
    .addHelpText('after', NOTES)
    .action((shell: Shell) => {
      context.stdout.write(SCRIPTS[shell]);
    });
}

function candidatesCommand(context: CommandContext, tree: CommandTree): Command {
  return new Command('candidates')
    .description('Print what may come next, a line for each; the scripts call it.')
    .argument('[word...]', 'after --: what follows poste on the line; the last one is being typed')
    .addHelpText('after', '\nExample:\n  $ poste completion candidates -- inbox --st')
    .action(async (words: string[]) => {
      const root = await tree(words.slice(0, -1), context);
      const lines = await completionLines(root, words, context);
      context.stdout.write(lines.map((line) => `${line}\n`).join(''));
    });
}
