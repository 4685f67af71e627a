/** A relay whose process may open few files, and a crowd that opens more connections than that. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ADAPTERS } from '../support/adapters.ts';
import { type StartDocument, poste, serveArgs } from '../support/poste-process.ts';
import { RawConnection, rawRequest, requestBytes } from '../support/raw-http.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const FILES = 500;

test.each(ADAPTERS)(
  '%s: more idle connections than files leave the store its files, and the relay answers',
  async (server) => {
    const storeDir = join(await temporaryFolder(), 'store');
    const args = serveArgs(storeDir, ['--admin-listen', '127.0.0.1:0', '--server', server, '--json']);
    const relay = poste(args, {}, { openFilesMax: FILES });
    await relay.printed('\n');
    const start = JSON.parse(relay.stdout) as StartDocument;
    expect(start.notices.join()).toContain(`this process may open ${FILES} files`);
    const port = Number(new URL(start.url).port);
    const crowd: RawConnection[] = [];
    for (let batch = 0; batch < 6; batch++) {
      crowd.push(...(await Promise.all(Array.from({ length: 100 }, () => RawConnection.open(port)))));
    }
    expect((await rawRequest(port, requestBytes('GET', '/v2/relay/info'))).status).toBe(200);
    const operator = Number(new URL(start.admin_url ?? '').port);
    const metrics = await rawRequest(operator, requestBytes('GET', '/metrics', { host: '127.0.0.1' }));
    const shown = (name: string): number =>
      Number(new RegExp(`^${name} (.*)$`, 'm').exec(metrics.body.toString())?.[1]);
    expect(shown('poste_relay_open_connections')).toBeLessThanOrEqual(FILES / 4);
    // Not every system shows how many files are open.
    expect(shown('process_open_fds') || 0).toBeLessThan(FILES / 2);
    for (const connection of crowd) connection.close();
    relay.signal('SIGTERM');
    expect((await relay.ended()).code).toBe(0);
  },
);

test('a relay that may open too few files does not start, and says what to do', async () => {
  const storeDir = join(await temporaryFolder(), 'store');
  const { code, stderr } = await poste(serveArgs(storeDir), {}, { openFilesMax: 300 }).ended();
  expect(code).toBe(5);
  expect(stderr).toContain('this process may open 300 files, which are too few for a store and connections');
  expect(stderr).toContain('LimitNOFILE=');
});
