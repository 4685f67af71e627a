/** Parses the values of flags and arguments. Throws one sentence that says what is wrong. */
import { InvalidArgumentError } from 'commander';
import { type HostName, parseHostName } from '../../protocol/names.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { parseListenAddress } from '../../lib/listen-address.ts';
import { CommandFailed } from './exit.ts';
import { findProgram } from './find-program.ts';

/** Throws the sentence, for a value that is not right. */
export function must(isRight: boolean, sentence: string): asserts isRight {
  if (!isRight) throw new InvalidArgumentError(sentence);
}

/** A whole number of at least `least`, and of at most `most` if that is given. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  const range = most === Number.MAX_SAFE_INTEGER ? `, at least ${least}` : ` from ${least} to ${most}`;
  return (text) => {
    const value = Number(text);
    must(/^[0-9]+$/.test(text) && value >= least && value <= most, `It must be a whole number${range}.`);
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

/** The key of a relay that is trusted, or its fingerprint, as it was written. */
export function relayKey(text: string): string {
  const isRight = parsePublicKey(text) !== undefined || /^SHA256:[A-Za-z0-9+/]{43}$/.test(text);
  must(isRight, 'It must be the base64 of a public key, or a fingerprint as in SHA256:...');
  return text;
}

/** A relay of this host: its number, or its address. */
export function ownRelay(text: string): string {
  must(/^[1-8]$/.test(text) || URL.canParse(text), 'It must be its number, as poste relay list shows it, or its URL.');
  return text;
}

export function withoutUndefined<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

/** Collects the values of an option that may be repeated. */
export function oneMore(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}
