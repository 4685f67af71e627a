/**
 * Adds to package-lock.json the optional packages of other platforms that the registry at hand does not carry.
 *
 * `npm ci` refuses a lock file that does not name every optional dependency, and a registry mirror of one platform
 * leaves the others out. What this adds has a version, the platform that its name tells, and no hash: npm skips it on
 * every other platform, and checks it by the registry's word where it is wanted.
 *
 *   npx tsx scripts/complete-lock.ts
 */
import { readFileSync, writeFileSync } from 'node:fs';

interface LockEntry {
  version?: string;
  dev?: boolean;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
  optionalDependencies?: Record<string, string>;
}

interface Lock {
  packages: Record<string, LockEntry>;
}

const PATH = new URL('../package-lock.json', import.meta.url);
const SYSTEMS = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32'];
const PROCESSORS = ['arm64', 'arm', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64'];

const lock = JSON.parse(readFileSync(PATH, 'utf8')) as Lock;
let added = 0;
for (const [path, entry] of Object.entries(lock.packages)) {
  for (const [name, range] of Object.entries(entry.optionalDependencies ?? {})) {
    if (isFound(path, name, range)) continue;
    const top = `node_modules/${name}`;
    lock.packages[lock.packages[top] ? `${path}/${top}` : top] = entryOf(name, range, entry.dev);
    added++;
  }
}
const sorted = Object.entries(lock.packages).toSorted(([a], [b]) => (a < b ? -1 : 1));
lock.packages = Object.fromEntries(sorted);
writeFileSync(PATH, `${JSON.stringify(lock, null, 2)}\n`);
console.log(`${added} entries added`);

/** Whether the package at `path` finds `name` in that version beside or above itself. */
function isFound(path: string, name: string, range: string): boolean {
  const nested = lock.packages[`${path}/node_modules/${name}`];
  const found = nested ?? lock.packages[`node_modules/${name}`];
  if (!found) return false;
  // Platform packages are asked for by their exact version; for others npm has chosen already.
  return !/^[0-9.]+$/.test(range) || found.version === range;
}

function entryOf(name: string, range: string, dev: boolean | undefined): LockEntry {
  const words = name.toLowerCase().split(/[-/_]/);
  // The one such package whose name does not tell.
  const os = name === 'fsevents' ? ['darwin'] : SYSTEMS.filter((system) => words.includes(system));
  const cpu = PROCESSORS.filter((processor) => words.includes(processor));
  return {
    version: range.replace(/^[\^~]/, ''),
    ...(cpu.length > 0 && { cpu }),
    ...(dev && { dev }),
    ...(words.includes('musl') && { libc: ['musl'] }),
    optional: true,
    ...(os.length > 0 && { os }),
  };
}
