import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { NOT_INSTALLED, uwsHere, whyNotLoaded } from '../../../../src/relay/http/uws-binding.ts';

interface ReportHeader {
  glibcVersionRuntime?: string;
}

/** The version of glibc, as a number like 236; 0 where there is none. */
function glibc(): number {
  const { header } = process.report.getReport() as { header: ReportHeader };
  const [major = 0, minor = 0] = (header.glibcVersionRuntime ?? '0.0').split('.').map(Number);
  return major * 100 + minor;
}

/** npm installs the build for the Node that it ran on: a later run on another Node finds only that one. */
function isInstalledForOthers(node: number): boolean {
  const builds = readdirSync(new URL('../../../../node_modules/@uwsjs', import.meta.url));
  return builds.length > 0 && !builds.some((name) => name.endsWith(`-${node}`));
}

/** Returns which release must load on this machine; `undefined` where none was built for it. */
function expectedVersion(): string | undefined {
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) return uwsHere().binding?.version;
  const node = Number(process.versions.node.split('.')[0]);
  if (isInstalledForOthers(node)) return undefined;
  if ([22, 24, 26].includes(node) && glibc() >= 238) return '20.69.0';
  return [18, 20, 22, 23].includes(node) && glibc() >= 227 ? '20.51.4' : undefined;
}

test('the newest release of uWebSockets.js that was built for this machine is the one that loads', () => {
  expect(uwsHere().binding?.version).toBe(expectedVersion());
});

test('a release that does not load says why: what its loader says of itself is not the cause', () => {
  const loader =
    'This version of uWS.js (v20.67.0) supports only Node.js versions 22, 24 and 26 on (glibc) Linux.\n\nError: ';
  const glibc = "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /x/uws.node)";
  expect(whyNotLoaded(loader + glibc)).toBe('needs glibc 2.38, and this system has an older one');
  const absent = "Cannot find module '@uwsjs/linux-x64-24'\nRequire stack:\n- /x/uws.js";
  for (const message of [loader + absent, absent]) expect(whyNotLoaded(message)).toContain(NOT_INSTALLED);
  expect(whyNotLoaded(`${loader}wrong ELF class: ELFCLASS32\n  at x`)).toBe(
    'does not load (Error: wrong ELF class: ELFCLASS32)',
  );
});
