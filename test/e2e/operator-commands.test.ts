/** Local commands of a relay where a process matters (unit/cli/relay/operator.test.ts: all else). */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { displayFingerprint } from '../../src/protocol/public-key.ts';
import { PREFIX, prefixRange } from '../../src/relay/store/keys.ts';
import { decodeRow, encodeRow } from '../../src/relay/store/row-codec.ts';
import { withRawLevel } from '../support/raw-level.ts';
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
    const refused = await run(serveArgs(storeDir));
    expect(refused.code).toBe(EXIT.conflict);
    expect(sentenceOf(refused)).toContain('another process is using the store');
    expect((await command('hosts')).code).toBe(EXIT.ok);
  });
});

describe('log verify --online', () => {
  test('checks a relay that goes on, and says what it looked at', async () => {
    const { relay, command } = await running();
    await clientOf(relay, alice).enrol();
    const ended = await command('log', 'verify', '--online', '--cpu-percent', '100');
    expect(ended).toMatchObject({ code: EXIT.ok });
    expect(ended.stdout).toMatch(/^Verified: \d+ rows against \d+ log records, replayed from 1 on \(/);
    const { stdout } = await command('log', 'verify', '--online', '--cpu-percent', '100', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ verified: true, found: 0, findings: [], replayed_from: 1 });
    expect((await command('hosts')).code).toBe(EXIT.ok);
  });

  test('finds a row with other contents under a right checksum, reports damage and begins a new epoch', async () => {
    const { relay, storeDir, command } = await running();
    await clientOf(relay, alice).enrol();
    relay.process.signal('SIGTERM');
    await relay.process.ended();
    await withRawLevel(storeDir, async (level) => {
      const [[key, value] = []] = await level.iterator(prefixRange(PREFIX.enrolment)).all();
      const row = decodeRow('enrolment', key!, value!);
      await level.put(key!, encodeRow('enrolment', key!, { ...row, enrolledAtMs: row.enrolledAtMs - 1 }));
    });
    const again = await relayProcess(storeDir, ['--admin-listen', '127.0.0.1:0']);
    const epoch = async () =>
      ((await (await fetch(`${again.start.url}/v2/relay/info`)).json()) as { epoch: string }).epoch;
    const before = await epoch();
    const ended = await command('log', 'verify', '--online', '--cpu-percent', '100');
    expect(ended.code).toBe(EXIT.failure);
    expect(ended.stdout).toContain(`ROW_DIFFERS: the enrolment row of ${displayFingerprint(alice.key)} differs`);
    expect(ended.stdout).toContain('run poste relay log verify, and then poste relay log rebuild');
    const health = await (await fetch(`${again.start.admin_url ?? ''}/healthz`)).json();
    expect(health).toMatchObject({ damaged_rows: 1, last_rows_check: { found: 1 } });
    const after = await epoch();
    expect(after).not.toBe(before);
    // A fault that stays begins no further epoch.
    expect((await command('log', 'verify', '--online', '--cpu-percent', '100', '--json')).code).toBe(EXIT.failure);
    expect(await epoch()).toBe(after);
  });

  test('of a relay that does not run, and with wrong arguments, is one sentence', async () => {
    const storeDir = await temporaryFolder();
    const verify = (...args: string[]) => run(['relay', 'log', 'verify', '--store-dir', storeDir, ...args]);
    const stopped = await verify('--online');
    expect(stopped.code).toBe(EXIT.failure);
    expect(sentenceOf(stopped)).toContain('no relay is running');
    for (const percent of ['0', '101', 'much', '1.5'])
      expect((await verify('--online', '--cpu-percent', percent)).code).toBe(EXIT.usage);
    expect((await verify('--online', '--backup', 'file')).code).toBe(EXIT.usage);
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
