/** The argument that names this host. Apart from the other parsers of values, which load parts of the relay. */
import { InvalidArgumentError } from 'commander';
import { type HostName, parseHostName } from '../../protocol/names.ts';

export function hostName(text: string): HostName {
  const name = parseHostName(text);
  if (name === undefined) {
    throw new InvalidArgumentError(
      'It must be letters, digits, dots, hyphens and underscores, at most 63, the first and last a letter or digit.',
    );
  }
  return name;
}
