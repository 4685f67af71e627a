/**
 * Completes package-lock.json where the registry at hand does not carry the optional packages of other platforms.
 *
 * `npm ci` refuses a lock file that does not name every optional dependency, and a registry mirror of one platform
 * leaves the others out: their entries are added, with the platform that their names tell. Then every entry that has no
 * hash gets the one that the registry gives for its version. npm installs an entry without a hash unchecked, so what
 * the registry cannot answer for is printed, and `test/unit/lock-file.test.ts` knows it by name.
 *
 *   npx tsx scripts/complete-lock.ts
 */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

interface LockEntry {
  version?: string;
  /** The name of an alias in the registry. */
  name?: string;
  integrity?: string;
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
const FOLDER = 'node_modules/';
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
let pinned = 0;
for (const [path, entry] of Object.entries(lock.packages)) {
  const { version } = entry;
  if (path === '' || version === undefined || entry.integrity !== undefined) continue;
  const wanted = `${entry.name ?? path.slice(path.lastIndexOf(FOLDER) + FOLDER.length)}@${version}`;
  const integrity = await integrityOf(wanted);
  if (integrity === undefined) {
    console.log(`no hash: ${wanted} is not in the registry at hand`);
    continue;
  }
  lock.packages[path] = { version, integrity, ...entry };
  pinned++;
}
const sorted = Object.entries(lock.packages).toSorted(([a], [b]) => (a < b ? -1 : 1));
lock.packages = Object.fromEntries(sorted);
writeFileSync(PATH, `${JSON.stringify(lock, null, 2)}\n`);
console.log(`${added} entries added, ${pinned} pinned by hash`);

/** Returns what the registry says of the tarball of `wanted` (name@version), if it has one. */
async function integrityOf(wanted: string): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('npm', ['view', wanted, 'dist.integrity']);
    return stdout.trim() || undefined;
  } catch {
    return undefined;
  }
}

/** Says whether the package at `path` finds `name` in that version beside or above itself. */
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
