/** What `npm ci` installs is what was looked at: package-lock.json pins every package by its hash. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

interface LockEntry {
  version?: string;
  resolved?: string;
  integrity?: string;
  optional?: boolean;
  hasInstallScript?: boolean;
  os?: string[];
}

interface Manifest extends Record<'dependencies' | 'devDependencies' | 'optionalDependencies', Record<string, string>> {
  allowScripts: Record<string, boolean>;
}

const MANIFEST = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as Manifest;
const TEXT = readFileSync(join(import.meta.dirname, '../../package-lock.json'), 'utf8');
const PACKAGES = Object.entries((JSON.parse(TEXT) as { packages: Record<string, LockEntry> }).packages).filter(
  ([path]) => path !== '',
);

/**
 * Binaries that the registry which wrote this lock file did not carry, so that nobody has seen their hash. Where the
 * registry carries them, `npx tsx scripts/complete-lock.ts` pins them, and they leave this list.
 */
const WITHOUT_HASH = [
  ...['darwin-arm64', 'darwin-x64', 'linux-arm', 'linux-arm64', 'win32-x64'].flatMap((platform) =>
    [18, 20, 22, 23].map((node) => `@uwsjs/${platform}-${node}@20.51.4`),
  ),
  ...['darwin-arm64', 'darwin-x64', 'linux-arm64', 'win32-x64'].flatMap((platform) =>
    [22, 24, 26].map((node) => `@uwsjs/${platform}-${node}@20.69.0`),
  ),
];

function packageOf(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

function nameOf(path: string, entry: LockEntry): string {
  return `${packageOf(path)}@${entry.version}`;
}

test('every package is pinned by a SHA-512, but for the binaries of other platforms that are listed here', () => {
  const unpinned = PACKAGES.filter(([, { integrity }]) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ''));
  const names = unpinned.map(([path, entry]) => nameOf(path, entry));
  expect(names.toSorted()).toEqual(WITHOUT_HASH.toSorted());
});

test('what has no hash is optional, and for one system alone', () => {
  const unpinned = PACKAGES.filter(([, { integrity }]) => integrity === undefined);
  for (const [path, { optional, os }] of unpinned) {
    expect({ path, optional, os }).toEqual({ path, optional: true, os: [expect.any(String)] });
  }
});

test('every package comes from the default registry', () => {
  const elsewhere = PACKAGES.filter(
    ([, { resolved }]) => resolved !== undefined && !resolved.startsWith('https://registry.npmjs.org/'),
  );
  expect(elsewhere).toEqual([]);
});

test('every direct dependency has one version, no range', () => {
  const ranges = Object.values({
    ...MANIFEST.dependencies,
    ...MANIFEST.optionalDependencies,
    ...MANIFEST.devDependencies,
  });
  for (const range of ranges) expect(range).toMatch(/^(?:npm:@uwsjs\/core@)?\d+\.\d+\.\d+$/);
});

test('package.json says of every package with an install script whether it may run, by name alone', () => {
  const withScript = PACKAGES.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => packageOf(path));
  const decided = Object.keys(MANIFEST.allowScripts);
  expect(withScript.filter((name) => !decided.includes(name))).toEqual([]);
  // An entry with a version matches no package of a lock file that says no registry's address.
  const installed = new Set(PACKAGES.map(([path]) => packageOf(path)));
  expect(decided.filter((name) => !installed.has(name))).toEqual([]);
});
