/**
 * The words that may come next on a command line, from the tree of commands and from the daemon, and the scripts by
 * which shells ask for them. The daemon answers at once or not at all, and nothing that it is asked changes anything: a
 * shell asks at every key.
 */
import type { Argument, Command, Option } from 'commander';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from './context.ts';
import { childrenOf, defaultChildOf, optionsOf } from './command-tree.ts';
import { DaemonClient } from '../../host/api/client.ts';
import type { InputOf, OperationName, OutputOf } from '../../host/api/operations.ts';
import { OWNER_NAME } from '../../host/core/address.ts';
import { ownPaths } from '../../host/base/paths.ts';

/** Builds `poste` with the command loaded that `argv` names. */
export type CommandTree = (argv: readonly string[] | undefined, context: CommandContext) => Promise<Command>;

/** The source of the values of an option, by its long name; at commands of the relay they name other things. */
const OPTION_SOURCES: Readonly<Record<string, SourceName>> = {
  '--as': 'actors',
  '--agent': 'agents',
  '--to': 'addresses',
  '--host': 'hosts',
  '--reply-to': 'messagesAndSent',
};

/** The same of arguments, by command and name. */
const ARGUMENT_SOURCES: Readonly<Record<string, SourceName>> = {
  'agent rename name': 'agents',
  'agent roles name': 'agents',
  'agent remove name': 'agents',
  'peer address host': 'hosts',
  'peer remove host': 'hosts',
  'relay remove relay': 'relays',
  'relay prefer relay': 'relays',
  'inbox read message': 'messages',
  'inbox ack message': 'messages',
  'inbox thread thread': 'messagesAndSent',
  'reply message': 'messages',
  'sent message': 'sent',
  'trace message-id': 'messagesAndSent',
  'outbox cancel row': 'outboxRows',
  'quarantine show number': 'quarantined',
  'quarantine retry number': 'quarantined',
  'quarantine discard number': 'quarantined',
  'session heartbeat session': 'sessions',
  'session wait session': 'sessions',
  'session end session': 'sessions',
};

/** The names of a value that names a file or a folder. */
const FILE_VALUE = /^(?:file|dir|folder|path|program)$/;

/** The words of the line, as far as they were read. */
interface TypedWords {
  command: Command;
  /** Its name, with those of its parents below `poste`. */
  path: string;
  /** The number of arguments that came already. */
  arguments: number;
  /** The option whose value comes next. */
  option: Option | undefined;
  given: Set<string>;
  /** The value of `--as`. */
  as: string | undefined;
  /** True when `--` came: no flag follows. */
  isOver: boolean;
}

/**
 * Lines for the shell: a word, a tab and what it stands for; or `:files`. `root` is `poste`, with the command loaded
 * that the words name.
 *
 * @param words - what follows `poste`; the last one is being typed.
 */
export async function completionLines(
  root: Command,
  words: readonly string[],
  context: CommandContext,
): Promise<string[]> {
  const current = words.at(-1) ?? '';
  const typed = readWords(root, words.slice(0, -1));
  const candidates = await candidatesAt(typed, current, context);
  if (candidates === FILES) return [FILES];
  const fitting = candidates.filter(({ word }) => word.startsWith(current));
  return fitting.map(({ word, about }) => `${printable(word)}\t${printable(about)}`);
}

function readWords(root: Command, words: readonly string[]): TypedWords {
  const typed: TypedWords = {
    command: root,
    path: '',
    arguments: 0,
    option: undefined,
    given: new Set(),
    as: undefined,
    isOver: false,
  };
  for (const word of words) step(typed, word);
  return typed;
}

function step(typed: TypedWords, word: string): void {
  const { option } = typed;
  if (option && !(option.variadic && isFlag(typed, word))) {
    if (option.long === '--as') typed.as = word;
    // One that takes several goes on until the next flag.
    if (!option.variadic) typed.option = undefined;
    return;
  }
  typed.option = undefined;
  if (word === '--' && !typed.isOver) {
    typed.isOver = true;
  } else if (isFlag(typed, word)) {
    takeFlag(typed, word);
  } else {
    const child = typed.arguments === 0 ? typed.command.commands.find((one) => one.name() === word) : undefined;
    if (child) Object.assign(typed, { command: child, path: `${typed.path} ${child.name()}`.trimStart() });
    else typed.arguments++;
  }
}

function isFlag({ isOver }: TypedWords, word: string): boolean {
  return !isOver && word.startsWith('-') && word !== '-';
}

function takeFlag(typed: TypedWords, word: string): void {
  const [name = ''] = word.split('=', 1);
  const option = optionsOf(typed.command).find(({ long, short }) => name === long || name === short);
  if (!option) return;
  typed.given.add(option.long ?? name);
  if (option.required && word === name) typed.option = option;
}

async function candidatesAt(
  typed: TypedWords,
  current: string,
  context: CommandContext,
): Promise<CompletionWord[] | typeof FILES> {
  const { option, command, path } = typed;
  if (option && !(option.variadic && isFlag(typed, current))) {
    const isOfRelay = path.startsWith('relay ') && !path.startsWith('relay quarantine');
    const source = isOfRelay ? undefined : OPTION_SOURCES[option.long ?? ''];
    // `file` of `--key-file <file>`.
    const [, name = ''] = /[<[]([^\]>.]*)/.exec(option.flags) ?? [];
    return valuesOf(typed, option.argChoices, name, source, context);
  }
  if (isFlag(typed, current)) return flagsOf(typed);
  const children = typed.arguments === 0 ? childrenOf(command) : [];
  const words = children.map((child) => ({ word: child.name(), about: child.description() }));
  const argument = argumentAt(typed);
  if (!argument) return words;
  const source = ARGUMENT_SOURCES[`${path} ${argument.name()}`];
  const values = await valuesOf(typed, argument.argChoices, argument.name(), source, context);
  return values === FILES ? FILES : [...words, ...values];
}

/** The flags that may still be given. */
function flagsOf({ command, given }: TypedWords): CompletionWord[] {
  const left = optionsOf(command).filter(({ long, variadic }) => variadic || !given.has(long ?? ''));
  return left.flatMap(({ long, description }) => (long === undefined ? [] : [{ word: long, about: description }]));
}

/** The argument that comes next; one that takes several is the last. */
function argumentAt({ command, arguments: count }: TypedWords): Argument | undefined {
  const taken = (defaultChildOf(command) ?? command).registeredArguments;
  const last = taken.at(-1);
  return taken[count] ?? (last?.variadic ? last : undefined);
}

/** The values of an option or an argument; nothing where no daemon answers: a shell is no place for its error. */
async function valuesOf(
  { as }: TypedWords,
  choices: readonly string[] | undefined,
  name: string,
  source: SourceName | undefined,
  context: CommandContext,
): Promise<CompletionWord[] | typeof FILES> {
  if (choices) return choices.map((word) => ({ word, about: '' }));
  if (FILE_VALUE.test(name)) return FILES;
  if (source === undefined) return [];
  const paths = ownPaths(context);
  const client = new DaemonClient(paths.socket, paths.store);
  const named = as ?? (context.env['POSTE_AGENT'] || undefined);
  const ask: Ask = (operation, input) => {
    // The owner's, as for the command itself: who completes a line types at a terminal.
    const actor = named ?? (OF_MAILBOX.has(operation) ? OWNER_NAME : undefined);
    return client.call(operation, input, { as: actor, signal: AbortSignal.timeout(ANSWER_MS) });
  };
  return SOURCES[source](ask).catch(() => []);
}

/** The tables, for the test that every source is of something that is there. */
export const COMPLETED = { options: OPTION_SOURCES, arguments: ARGUMENT_SOURCES };

/** A word that may come next, and what it stands for. */
interface CompletionWord {
  word: string;
  about: string;
}

/** A daemon that takes longer is not waited for. */
const ANSWER_MS = 1_000;
const PAGE = 20;

/** The operations that are asked for here about one mailbox. */
const OF_MAILBOX: ReadonlySet<OperationName> = new Set(['watch-inbox', 'mail-sent']);

type Ask = <N extends OperationName>(name: N, input: InputOf<N>) => Promise<OutputOf<N>>;

/** The words that the daemon knows, by the function that asks it. */
const SOURCES = {
  agents,
  actors,
  addresses: async (ask: Ask) => {
    const known = await ask('known-agents', {});
    const roles = new Set(known.agents.flatMap((agent) => agent.roles));
    return [
      ...known.agents.map((agent) => ({
        word: agent.presence === 'remote' ? agent.address : agent.name,
        about: aboutAgent(agent),
      })),
      OWNER,
      { word: '*', about: 'everyone' },
      ...[...roles].map((role) => ({ word: `role:${role}`, about: 'all with this role' })),
    ];
  },
  hosts: async (ask: Ask) => {
    const { peers } = await ask('peers', {});
    return peers.map(({ host, fingerprint }) => ({ word: host, about: fingerprint }));
  },
  relays: async (ask: Ask) => {
    const { relays } = await ask('relay-list', {});
    return relays.map(({ number, role, relay }) => ({ word: String(number), about: `${relay.url}, ${role}` }));
  },
  messages,
  sent: sentMessages,
  messagesAndSent: async (ask: Ask) => [...(await messages(ask)), ...(await sentMessages(ask))],
  outboxRows: async (ask: Ask) => {
    const { rows } = await ask('outbox', { limit: PAGE });
    return rows.map(({ row, host, state }) => ({ word: String(row), about: `${state}, for ${host}` }));
  },
  quarantined: async (ask: Ask) => {
    const { items } = await ask('quarantine', { limit: PAGE });
    return items.map(({ number, reason, detail }) => ({ word: String(number), about: `${reason}: ${detail}` }));
  },
  sessions: async (ask: Ask) => {
    const { sessions } = await ask('session-list', {});
    return sessions.map(({ session_id, agent, presence }) => ({ word: session_id, about: `${agent}, ${presence}` }));
  },
};
type SourceName = keyof typeof SOURCES;

async function agents(ask: Ask): Promise<CompletionWord[]> {
  const answer = await ask('list-agents', {});
  return answer.agents.map((agent) => ({ word: agent.name, about: aboutAgent(agent) }));
}

function aboutAgent({ presence, roles }: { presence: string; roles: readonly string[] }): string {
  return [presence, ...roles].join(', ');
}

const OWNER: CompletionWord = { word: OWNER_NAME, about: 'you' };

async function actors(ask: Ask): Promise<CompletionWord[]> {
  return [...(await agents(ask)), OWNER];
}

/** The unread messages of the mailbox. A list would tell the senders that the agent was notified. */
async function messages(ask: Ask): Promise<CompletionWord[]> {
  const { summaries } = await ask('watch-inbox', {});
  return summaries.map(({ message_id, from, subject }) => ({ word: message_id, about: `${from}: ${subject}` }));
}

async function sentMessages(ask: Ask): Promise<CompletionWord[]> {
  const answer = await ask('mail-sent', { limit: PAGE });
  return answer.messages.map(({ message_id, subject }) => ({ word: message_id, about: subject }));
}

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** `poste complete` prints it instead of candidates where the shell is to complete files. */
export const FILES = ':files';

const BASH = `# bash completion for poste: eval "$(poste completion bash)", or a file that bash-completion reads
_poste() {
  local line word cur='' joined='' prefix
  local -a words=()
  # bash splits words at colons, which addresses and fingerprints have: join them.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ \${#words[@]} -gt 0 && ( $word == : || $joined == : ) ]]; then
      words[\${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
    joined=$word
  done
  [[ \${#words[@]} -gt 0 ]] && cur=\${words[\${#words[@]}-1]}
  prefix=
  [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]] && prefix=\${cur%"\${cur##*:}"}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == ${FILES} ]]; then
      compopt -o default 2>/dev/null
    elif [[ -n $line ]]; then
      line=\${line%%$'\\t'*}
      # Quoted: the shell would put names of files in the place of a *.
      printf -v line %q "\${line#"$prefix"}"
      COMPREPLY+=("$line")
    fi
  done < <(poste completion candidates -- "\${words[@]}" 2>/dev/null)
}
complete -F _poste poste
`;

const ZSH = `#compdef poste
# zsh completion for poste: source <(poste completion zsh), or a file _poste in a folder of fpath
_poste() {
  local line
  local -a candidates
  for line in "\${(@f)$(poste completion candidates -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == ${FILES} ]]; then
      _files
      return
    fi
    [[ -n $line ]] && candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  (( $#candidates )) && _describe poste candidates
}
if [[ $funcstack[1] == _poste ]]; then
  _poste "$@"
else
  compdef _poste poste
fi
`;

const FISH = `# fish completion for poste: poste completion fish | source, or ~/.config/fish/completions/poste.fish
function __poste_candidates
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l lines (poste completion candidates -- $words[2..-1] "$current" 2>/dev/null)
  if test "$lines[1]" = '${FILES}'
    __fish_complete_path "$current"
  else
    printf '%s\\n' $lines
  end
end
complete -c poste -f -a '(__poste_candidates)'
`;

export const SCRIPTS: Readonly<Record<Shell, string>> = { bash: BASH, zsh: ZSH, fish: FISH };
