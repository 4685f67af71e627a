/** Parses the values of flags and arguments. Throws one sentence that says what is wrong. */
import { InvalidArgumentError } from 'commander';
import { type HostName, parseHostName } from '../../protocol/names.ts';
import { parseListenAddress } from '../../lib/listen-address.ts';
import { CommandFailed } from './exit.ts';
import { findProgram } from './find-program.ts';

/** Throws the sentence, for a value that is not right. */
export function must(isRight: boolean, sentence: string): asserts isRight {
  if (!isRight) throw new InvalidArgumentError(sentence);
}

/** A whole number of at least `least`. */
export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    const isRight = /^[0-9]+$/.test(text) && Number.isSafeInteger(value) && value >= least;
    must(isRight, `It must be a whole number, at least ${least}.`);
    return value;
  };
}

/** A number of seconds, which may have a fraction. */
export function seconds(text: string): number {
  const value = /^[0-9]+(?:\.[0-9]+)?$/.test(text) ? Number(text) : Number.NaN;
  must(value <= 1_000_000, 'It must be a number of seconds, at most 1000000.');
  return value;
}

/** The absolute path of a program that a shell would run by its name. Throws `CommandFailed` when there is none. */
export function requireProgram(name: string, searchPath: string | undefined): string {
  const program = findProgram(name, searchPath);
  if (program !== undefined) return program;
  const message = `there is no program ${name}: give the name or the path of an installed one`;
  throw new CommandFailed('notFound', 'NO_SUCH_PROGRAM', message);
}

/** The address where a host of the LAN listens, as it was written: `host:port`. */
export function lanAddress(text: string): string {
  const port = parseListenAddress(text)?.port ?? 0;
  must(port !== 0, 'It must be host:port, as in 192.168.1.7:8789 or [fd00::7]:8789.');
  return text;
}

/** The argument that names this host. */
export function hostName(text: string): HostName {
  const name = parseHostName(text);
  const sentence =
    'It must be letters, digits, dots, hyphens and underscores, at most 63, the first and last a letter or digit.';
  must(name !== undefined, sentence);
  return name;
}

/** The members that are not undefined. */
export function withoutUndefined<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
