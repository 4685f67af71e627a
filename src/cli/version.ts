/** The software version: the one of package.json. */
import { readFileSync } from 'node:fs';

export function softwareVersion(): string {
  // From src/cli and from dist/cli alike.
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
