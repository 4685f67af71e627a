/**
 * A registry of npm on 127.0.0.1 that holds what the lock file names and this checkout has installed, so that npm
 * installs the package as it does for a user, without the network.
 */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { type Server, createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { atTestEnd } from './test-end.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

interface Locked {
  version: string;
  /** Its own name, where the lock file has it under another. */
  name?: string;
  dev?: boolean;
}

/** What is installed below a folder of the checkout, by `name@version`. */
function installed(): Map<string, { folder: string; locked: Locked }> {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>;
  };
  const found = Object.entries(packages).filter(([folder, { dev }]) => folder !== '' && dev !== true);
  return new Map(
    found.map(([folder, locked]) => {
      const name = locked.name ?? folder.split('node_modules/').at(-1) ?? '';
      return [`${name}@${locked.version}`, { folder: join(ROOT, folder), locked: { ...locked, name } }];
    }),
  );
}

/** Returns its address. A version that is not installed, as those for other systems, is listed and cannot be had. */
export async function localRegistry(): Promise<string> {
  const packages = installed();
  const server: Server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '').slice(1);
    const { folder } = packages.get(path.replace(/\.tgz$/, '')) ?? { folder: '' };
    if (path.endsWith('.tgz') && existsSync(folder)) {
      const name = basename(folder);
      const words = ['-czf', '-', '--exclude', `${name}/node_modules`, '-C', dirname(folder), name];
      const options = { encoding: 'buffer', maxBuffer: 2 ** 28 } as const;
      void run('tar', words, options).then(({ stdout }) => response.end(stdout));
      return;
    }
    const named = [...packages.values()].filter(({ locked }) => locked.name === path);
    const versions = named.map(({ locked }) => {
      const tarball = `${address}/${encodeURIComponent(path)}@${locked.version}.tgz`;
      return [locked.version, { ...locked, name: path, dist: { tarball } }];
    });
    if (versions.length === 0) response.statusCode = 404;
    response.end(JSON.stringify({ name: path, 'dist-tags': {}, versions: Object.fromEntries(versions) as unknown }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  atTestEnd(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return address;
}
