/** Parses the values of flags and arguments. Throws one sentence that says what is wrong. */
import { InvalidArgumentError } from 'commander';
import { parseListenAddress } from '../../lib/listen-address.ts';

/** A whole number of at least `least`. */
export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^[0-9]+$/.test(text) || !Number.isSafeInteger(value) || value < least) {
      throw new InvalidArgumentError(`It must be a whole number, at least ${least}.`);
    }
    return value;
  };
}

/** Where a host of the LAN listens, as it was written: `host:port`. */
export function lanAddress(text: string): string {
  const address = parseListenAddress(text);
  if (!address || address.port === 0) {
    throw new InvalidArgumentError('It must be host:port, as in 192.168.1.7:8789 or [fd00::7]:8789.');
  }
  return text;
}
