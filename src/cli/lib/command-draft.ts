/**
 * A command while its module writes it down. The module names each flag and argument once, and what the action gets of
 * them has the types that follow from that. The action makes it a command of commander, which reads the command line.
 */
import { Argument, Command, Option } from 'commander';
import type { CommandContext } from './context.ts';
import { print } from './output.ts';
import { type Screen, screenOf } from './screen.ts';

/** Throws `InvalidArgumentError`. `before` is what the same flag or argument gave before. */
type Parse = (text: string, before: never) => unknown;

interface Wishes {
  parse?: Parse;
  choices?: readonly string[];
  byDefault?: unknown;
  /** Help shows it in the place of `byDefault`. */
  defaultText?: string;
  conflicts?: readonly string[];
  isNeeded?: true;
}

/** `reply-to` of `--reply-to <message>`. */
type LongName<Words extends string> = Words extends `${string}--${infer Rest}`
  ? Rest extends `${infer Name} ${string}`
    ? Name
    : Rest
  : never;

/** `replyTo` of `reply-to`, and `service` of `no-service`. */
type MemberName<Name extends string> = Name extends `no-${infer Rest}`
  ? MemberName<Rest>
  : Name extends `${infer First}-${infer Rest}`
    ? `${First}${Capitalize<MemberName<Rest>>}`
    : Name;

/** What is given as `<name>`, `[name]` or `<name...>`, or a flag without a value. */
type Value<Words extends string, Wish, Unsaid> = Wish extends Parse
  ? ReturnType<Wish>
  : Wish extends { parse: infer Own extends Parse }
    ? ReturnType<Own>
    : Wish extends { choices: readonly (infer Choice)[] }
      ? Words extends `${string}...${string}`
        ? Choice[]
        : Choice
      : Words extends `${string}...${string}`
        ? string[]
        : Words extends `${string}[${string}`
          ? string | Unsaid
          : Words extends `${string}<${string}`
            ? string
            : boolean;

type Flag<Words extends string, Wish> = Words extends `--no-${string}`
  ? { [Name in MemberName<LongName<Words>>]: boolean }
  : Wish extends { byDefault: unknown } | { isNeeded: true }
    ? { [Name in MemberName<LongName<Words>>]: Value<Words, Wish, true> }
    : { [Name in MemberName<LongName<Words>>]?: Value<Words, Wish, true> };

/** A parsed argument that need not be given may be absent. */
type Given<Words extends string, Wish> = Words extends `[${string}`
  ? Wish extends Parse
    ? ReturnType<Wish> | undefined
    : Value<Words, Wish, undefined>
  : Value<Words, Wish, undefined>;

/** The flags of the commands that a function drafts. */
export type FlagsOf<Draft extends (...given: never[]) => object> =
  ReturnType<Draft> extends CommandDraft<infer _Args, infer Flags> ? Flags : never;

export class CommandDraft<Args extends readonly unknown[] = [], Flags extends object = object> {
  readonly command: Command;
  readonly #context: CommandContext;

  constructor(context: CommandContext, name: string) {
    this.#context = context;
    this.command = new Command(name);
  }

  description(text: string): this {
    this.command.description(text);
    return this;
  }

  /** Makes it a command of a group. */
  childOf(group: Command, about: string, options: { isDefault?: boolean; hidden?: boolean } = {}): this {
    group.addCommand(this.command.description(about), options);
    return this;
  }

  /** Adds the text that help has below the options. */
  notes(text: string): this {
    this.command.addHelpText('after', text);
    return this;
  }

  argument<Words extends string, const Wish extends Parse | Pick<Wishes, 'choices'> | undefined = undefined>(
    words: Words,
    about: string,
    wish?: Wish,
  ): CommandDraft<[...Args, Given<Words, Wish>], Flags> {
    const argument = new Argument(words, about);
    if (typeof wish === 'function') argument.argParser(wish as (text: string, before: unknown) => unknown);
    else if (wish?.choices) argument.choices(wish.choices);
    this.command.addArgument(argument);
    return this as unknown as CommandDraft<[...Args, Given<Words, Wish>], Flags>;
  }

  option<Words extends string, const Wish extends Parse | Wishes | undefined = undefined>(
    words: Words,
    about: string,
    wish?: Wish,
  ): CommandDraft<Args, Flags & Flag<Words, Wish>> {
    const wishes: Wishes = typeof wish === 'function' ? { parse: wish } : (wish ?? {});
    const { parse, choices, byDefault, defaultText, conflicts, isNeeded = false } = wishes;
    const option = new Option(words, about).makeOptionMandatory(isNeeded);
    if (choices) option.choices(choices);
    if (parse) option.argParser(parse as (text: string, before: unknown) => unknown);
    if (byDefault !== undefined) option.default(byDefault, defaultText);
    if (conflicts) option.conflicts([...conflicts]);
    return this.takes<Flag<Words, Wish>>(option);
  }

  /** Adds options that are defined elsewhere. */
  takes<More extends object>(...options: Option[]): CommandDraft<Args, Flags & More> {
    for (const option of options) this.command.addOption(option);
    return this as unknown as CommandDraft<Args, Flags & More>;
  }

  /** Adds the option that names an agent: POSTE_AGENT by default, unless that is empty; `byDefault` says so in help. */
  agent<Words extends string>(words: Words, about: string, byDefault = 'POSTE_AGENT') {
    const agent = this.#context.env['POSTE_AGENT'] ?? '';
    const option = new Option(words, agent === '' ? `${about} (default: ${byDefault})` : about);
    return this.takes<Flag<Words, undefined>>(agent === '' ? option : option.default(agent, byDefault));
  }

  action(run: (...given: [...Args, flags: Flags, self: Command]) => unknown): Command {
    return this.command.action((...given: unknown[]) => {
      return run(...(given as [...Args, Flags, Command])) as Promise<void>;
    });
  }

  /** The action gets an answer and prints it: with `--json` as a document, else as text. */
  answers<Answer extends object>(
    answerTo: (...given: [...Args, flags: Flags, self: Command]) => Promise<Answer>,
  ): { prints: (textOf: (answer: Answer, screen: Screen, ...given: [...Args, flags: Flags]) => string) => Command } {
    const context = this.#context;
    return {
      prints: (textOf) =>
        this.action(async (...given) => {
          const answer = await answerTo(...given);
          const asked = given.slice(0, -1) as unknown as [...Args, Flags];
          print(context, asked.at(-1) as { json?: boolean }, answer, () => textOf(answer, screenOf(context), ...asked));
        }),
    };
  }
}
