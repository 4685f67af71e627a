import { expect, test } from 'vitest';
import { loadUws } from '../../../../src/relay/http/uws-binding.ts';

interface ReportHeader {
  glibcVersionRuntime?: string;
}

/** The version of glibc, as a number like 236; 0 where there is none. */
function glibc(): number {
  const { header } = process.report.getReport() as { header: ReportHeader };
  const [major = 0, minor = 0] = (header.glibcVersionRuntime ?? '0.0').split('.').map(Number);
  return major * 100 + minor;
}

/** Which release must load on this machine; `undefined` where none was built for it. */
function expectedVersion(): string | undefined {
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) return loadUws()?.version;
  const node = Number(process.versions.node.split('.')[0]);
  if ([22, 24, 26].includes(node) && glibc() >= 238) return '20.69.0';
  return [18, 20, 22, 23].includes(node) && glibc() >= 227 ? '20.51.4' : undefined;
}

test('the newest release of uWebSockets.js that was built for this machine is the one that loads', () => {
  expect(loadUws()?.version).toBe(expectedVersion());
});
