/** Local commands of a relay where a process matters (unit/cli/relay/operator.test.ts: all else). */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { displayFingerprint } from '../../src/protocol/public-key.ts';
import { REBUILDING_FOLDER, cutOverToRebuilt } from '../../src/relay/store/cutover.ts';
import { alice } from '../support/hosts.ts';
import { type Ended, type RelayProcess, relayProcess, run, serveArgs } from '../support/poste-process.ts';
import { EXIT, clientOf, sentenceOf } from '../support/relay-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { NOON_MS } from '../support/test-clock.ts';

interface Running {
  relay: RelayProcess;
  storeDir: string;
  /** `poste relay <args> --store-dir <its own>`. */
  command: (...args: string[]) => Promise<Ended>;
}

async function running(...args: string[]): Promise<Running> {
  const storeDir = await temporaryFolder();
  const relay = await relayProcess(storeDir, args);
  return { relay, storeDir, command: (...words) => run(['relay', ...words, '--store-dir', storeDir]) };
}

describe('relay console', () => {
  test('prints a link alone, which opens the console of the built package once', async () => {
    const { relay, command } = await running('--admin-listen', '127.0.0.1:0');
    const printed = await command('console');
    expect(printed).toMatchObject({ code: EXIT.ok, stderr: 'The URL opens the console once, within a minute.\n' });
    const url = new URL(printed.stdout.trim());
    expect(url.origin).toBe(relay.start.admin_url);
    const page = await fetch(url);
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const [script = ''] = /\/console\/page\.js\?[0-9a-f]{16}/.exec(await page.text()) ?? [];
    const answer = await fetch(new URL(script, url));
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/javascript']);
    expect(answer.headers.get('cache-control')).toContain('immutable');
    const enter = (): Promise<Response> =>
      fetch(new URL('/console/session', url), {
        method: 'POST',
        headers: { origin: url.origin },
        body: JSON.stringify({ token: url.hash.replace('#token=', '') }),
      });
    expect([(await enter()).status, (await enter()).status]).toEqual([200, 403]);
    const { stdout } = await command('console', '--json');
    expect(JSON.parse(stdout)).toEqual({
      url: expect.any(String) as string,
      expires_at: expect.stringMatching(/^2\d{3}-.*Z$/) as string,
    });
  });
});

describe('the socket', () => {
  test('that a kill -9 left is no relay, and the next start replaces it', async () => {
    const { relay, storeDir, command } = await running();
    await clientOf(relay, alice).enrol();
    await relay.process.kill();
    expect(existsSync(join(storeDir, 'control.sock'))).toBe(true);
    const ended = await command('hosts');
    expect(ended.code).toBe(EXIT.failure);
    expect(sentenceOf(ended)).toContain('no relay is running');
    const again = await relayProcess(storeDir);
    expect(again.start.notices).toEqual([]);
    expect((await command('hosts')).stdout).toContain(displayFingerprint(alice.key));
    // A start that is refused takes nothing away from the one that runs.
    expect((await run(serveArgs(storeDir))).code).toBe(EXIT.conflict);
    expect((await command('hosts')).code).toBe(EXIT.ok);
  });
});

describe('a damaged store', () => {
  test('is left alone by the swap of a rebuild when a relay was started in the last moment', async () => {
    const { relay, storeDir, command } = await running();
    await mkdir(join(storeDir, REBUILDING_FOLDER));
    await expect(cutOverToRebuilt(storeDir, NOON_MS)).rejects.toMatchObject({ reason: 'locked' });
    relay.process.signal('SIGTERM');
    expect(await relay.process.ended()).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect((await command('log', 'verify')).code).toBe(EXIT.ok);
  });
});
