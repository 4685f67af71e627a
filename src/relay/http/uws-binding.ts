/**
 * Finds a uWebSockets.js that runs here. No one release runs everywhere: the current one has Node 22, 24 and 26 and
 * needs glibc 2.38, the older one Node 18 to 23 and glibc 2.27. Where neither loads, the plain node:http adapter
 * serves.
 *
 * A release is tried on its own Node versions only: elsewhere its loader finds the other release's binary.
 */
import { createRequire } from 'node:module';
import type uws from 'uws-current';
import type { ListenOptions } from 'uws-current';

export type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from 'uws-current';

/** The typings leave this constant out. */
type Uws = typeof uws & { LIBUS_LISTEN_EXCLUSIVE_PORT: ListenOptions };

export interface UwsBinding {
  uws: Uws;
  version: string;
}

const RELEASES = [
  { alias: 'uws-current', version: '20.69.0', nodeMajors: [22, 24, 26] },
  { alias: 'uws-compat', version: '20.51.4', nodeMajors: [18, 20, 22, 23] },
];

/** The release that runs here, and why those before it do not, in a clause for each. */
export function uwsHere(): { binding: UwsBinding | undefined; faults: string[] } {
  const require = createRequire(import.meta.url);
  const nodeMajor = Number(process.versions.node.split('.')[0]);
  const faults: string[] = [];
  for (const { alias, version, nodeMajors } of RELEASES) {
    if (!nodeMajors.includes(nodeMajor)) {
      faults.push(`${version} is for Node ${nodeMajors.join(', ')}, and this is ${nodeMajor}`);
      continue;
    }
    try {
      return { binding: { uws: require(alias) as Uws, version }, faults };
    } catch (error) {
      faults.push(`${version} ${whyNotLoaded((error as Error).message)}`);
    }
  }
  return { binding: undefined, faults };
}

/** Says why a release did not load. A blank line parts the cause from a sentence that the loader puts before it. */
export function whyNotLoaded(message: string): string {
  const [cause = ''] = message.split('\n\n').at(-1)?.split('\n', 1) ?? [];
  const { needed } = /`GLIBC_(?<needed>[0-9.]+)' not found/.exec(cause)?.groups ?? {};
  if (needed !== undefined) return `needs glibc ${needed}, and this system has an older one`;
  if (cause.includes('Cannot find module')) return `${NOT_INSTALLED} for this Node and machine`;
  return `does not load (${cause})`;
}

/** Another Node installed the packages, or there is no binary for the machine. */
export const NOT_INSTALLED = 'is not installed';
