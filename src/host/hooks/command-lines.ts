/**
 * The words that start Gemini CLI (0.61.0) and Qwen Code (0.24.4), as both read them: with yargs. The tables follow
 * their `--help`.
 */

interface CommandWords {
  /** The file of the program: its words follow it. */
  program: RegExp;
  /** The options that take one word as their value. */
  withValue: ReadonlySet<string>;
  /** The options that take all words up to the next option. */
  withValues: ReadonlySet<string>;
}

function optionsOf(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}

export const GEMINI_WORDS: CommandWords = {
  program: /(?:^|\/)(?:gemini|gemini-cli\/(?:[^/]+\/)*[^/]+\.js)$/,
  withValue: optionsOf(`
    -m --model -p --prompt -i --prompt-interactive -w --worktree --approval-mode --policy --admin-policy
    --allowed-mcp-server-names --allowed-tools -e --extensions -r --resume --session-file --session-id --delete-session
    --include-directories -o --output-format
  `),
  withValues: new Set(),
};

export const QWEN_WORDS: CommandWords = {
  program: /(?:^|\/)(?:qwen|qwen-code\/(?:[^/]+\/)*[^/]+\.js)$/,
  withValue: optionsOf(`
    --telemetry-target --telemetry-otlp-endpoint --telemetry-otlp-protocol --telemetry-outfile --proxy -m --model
    -p --prompt -i --prompt-interactive --system-prompt --append-system-prompt --output-style --sandbox-image
    --approval-mode --channel --mcp-config --openai-logging-dir --openai-api-key --openai-base-url --input-format
    -o --output-format --json-fd --json-file --json-schema --input-file -r --resume --session-id --worktree
    --max-session-turns --max-wall-time --max-tool-calls --max-subagent-depth --auth-type
  `),
  withValues: optionsOf(`
    --fallback-model --allowed-mcp-server-names --allowed-tools -e --extensions --include-directories --add-dir
    --core-tools --exclude-tools --disabled-slash-commands
  `),
};

export interface CommandLine {
  options: ReadonlySet<string>;
  /** True when a word is no option and the value of none. That goes for a word after an option that is not known. */
  hasPrompt: boolean;
}

/** An empty command line, from a system that does not tell it, has neither. */
export function readCommandLine(
  words: readonly string[],
  { program, withValue, withValues }: CommandWords,
): CommandLine {
  const start = words.findIndex((word) => program.test(word));
  const options = new Set<string>();
  let hasPrompt = false;
  let isEnded = false;
  let last = '';
  // A program that is started under a name that is not known has its words after the first one.
  for (const word of words.slice(start === -1 ? 1 : start + 1)) {
    if (!isEnded && /^-./.test(word)) {
      const names = optionNames(word);
      for (const name of names) options.add(name);
      isEnded = word === '--';
      last = isEnded || word.includes('=') ? '' : (names.at(-1) ?? '');
      continue;
    }
    const isSwitched = last !== '' && /^(?:true|false)$/.test(word);
    const isValue = isSwitched || withValue.has(last) || withValues.has(last);
    hasPrompt ||= word !== '' && !isValue;
    if (!withValues.has(last)) last = '';
  }
  return { options, hasPrompt };
}

/** `-ym` is `-y` and `-m`. */
function optionNames(word: string): string[] {
  const [name = ''] = word.split('=');
  return name.startsWith('--') ? [name] : Array.from(name.matchAll(/[^-]/gu), ([letter]) => `-${letter}`);
}
