/**
 * `poste relay serve` takes settings from flags, environment and files, and refuses what it cannot use: in one
 * sentence, with an exit code.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { RelayClient } from '../../../../src/host/relay/relay-client.ts';
import { callerTrusting } from '../../../../src/host/relay/relay-request.ts';
import { ITEM_ID_CHARACTERS_MAX } from '../../../../src/protocol/names.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { uwsHere } from '../../../../src/relay/http/uws-binding.ts';
import { SCHEMA_KEY } from '../../../../src/relay/store/keys.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { openStore } from '../../../../src/relay/store/open.ts';
import { enrolBody } from '../../../support/enrolments.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { freePort } from '../../../support/free-port.ts';
import { hopBytes } from '../../../support/hops.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { issuerForTest, proofOf } from '../../../support/local-issuer.ts';
import { CommandRun, type RelayHere, commandContext, relayHere, runHere } from '../../../support/command-run.ts';
import { type Ended, type Environment, type StartDocument, serveArgs } from '../../../support/poste-process.ts';
import { rawRequest, requestBytes } from '../../../support/raw-http.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { EXIT, clientOf, sentenceOf, terminate } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { SELF_SIGNED, SERVER } from '../../../support/test-authority.ts';

const OTHER_KEY = Buffer.from('0123456789abcdefghijklmnopqrstuv').toString('base64');
const ISSUER = 'https://accounts.example';
const { binding, faults } = uwsHere();
/** Says why no faster server serves on this machine. */
const SERVER_WHY = binding ? null : `no uWebSockets.js runs here: ${faults.join('; ')}`;
const KEY_PATTERN = /^[A-Za-z0-9+/]{43}=\n$/;

describe('relay serve', () => {
  test('says where it listens, where its store and its key are, its fingerprint and its epoch', async () => {
    const storeDir = join(await temporaryFolder(), 'store');
    const process = new CommandRun(serveArgs(storeDir), commandContext());
    await process.printed('server ');
    const lines = new Map(
      process.stdout.split('\n').map((line) => {
        const [name = '', ...words] = line.trim().split(/\s+/);
        return [name, words.join(' ')];
      }),
    );
    expect(lines.get('address')).toMatch(/^http:\/\/127\.0\.0\.1:[0-9]+$/);
    expect(lines.get('operator')).toBe('off');
    expect(lines.get('store')).toBe(`${join(storeDir, 'log')} (new)`);
    expect(lines.get('key')).toBe(join(storeDir, 'relay.key'));
    expect(lines.get('fingerprint')).toMatch(/^SHA256:[A-Za-z0-9+/]{43}$/);
    expect(lines.get('epoch')).toMatch(/^[0-9A-Z]{26}$/);
    const [server, ...why] = (lines.get('server') ?? '').split(', as ');
    expect(server).toMatch(SERVER_WHY ? /^node:http [0-9.]+$/ : /^uWebSockets\.js [0-9.]+$/);
    expect(why).toEqual(SERVER_WHY ? [SERVER_WHY] : []);
    expect(lines.get('authority')).toBe('host-key');
    const info = (await (await fetch(`${lines.get('address')}/v2/relay/info`)).json()) as Record<string, string>;
    expect(info['epoch']).toBe(lines.get('epoch'));
    const hash = createHash('sha256')
      .update(Buffer.from(info['relay_pubkey'] ?? '', 'base64'))
      .digest('base64');
    expect(lines.get('fingerprint')).toBe(`SHA256:${hash.replace(/=+$/, '')}`);
    process.signal('SIGTERM');
    expect(await process.ended()).toMatchObject({ code: EXIT.ok, stderr: '' });
  });

  test('--json prints one document', async () => {
    const storeDir = await temporaryFolder();
    const relay = await relayHere(storeDir, ['--admin-listen', '127.0.0.1:0']);
    const { start } = relay;
    expect(start).toEqual({
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:[0-9]+$/) as string,
      admin_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:[0-9]+$/) as string,
      store: join(storeDir, 'log'),
      key: join(storeDir, 'relay.key'),
      relay_pubkey: expect.any(String) as string,
      fingerprint: expect.stringMatching(/^SHA256:/) as string,
      epoch: expect.any(String) as string,
      server: expect.stringMatching(/^(?:uWebSockets\.js|node:http) [0-9.]+$/) as string,
      server_why: SERVER_WHY,
      authority: 'host-key',
      issuer: null,
      initialised: true,
      notices: [],
      pid: relay.process.pid,
    } satisfies StartDocument);
    expect(await (await fetch(`${start.admin_url}/readyz`)).json()).toEqual({ status: 'ready' });
    expect(await terminate(relay)).toMatchObject({ code: EXIT.ok, stdout: `${JSON.stringify(start)}\n` });
  });

  test('it says that anybody may enrol where more than this machine reaches it', async () => {
    const open = await relayHere(await temporaryFolder(), ['--trust-proxy', 'xff']);
    expect(open.start.notices).toEqual([expect.stringContaining('With --admission invite only') as string]);
    const closed = await relayHere(await temporaryFolder(), ['--trust-proxy', 'xff', '--admission', 'invite']);
    expect(closed.start.notices).toEqual([]);
  });

  test('its key is relay.key in the store folder, 0600, the base64 of 32 bytes and a newline', async () => {
    const storeDir = join(await temporaryFolder(), 'deep', 'store');
    const relay = await relayHere(storeDir);
    const path = join(storeDir, 'relay.key');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(storeDir)).mode & 0o777).toBe(0o700);
    const text = await readFile(path, 'utf8');
    expect(text).toMatch(KEY_PATTERN);
    await terminate(relay);
    expect(relay.process.stdout + relay.process.stderr).not.toContain(text.trim());
  });

  test('--limits overrides documented limits, days in fractions too; the others stay', async () => {
    const limits = JSON.stringify({ retention_days: 0.25, max_batch: 2, max_item_bytes: 1000 });
    const relay = await relayHere(await temporaryFolder(), ['--limits', limits]);
    const info = await clientOf(relay, alice).info();
    expect(info.limits).toMatchObject({ retention_days: 0.25, max_batch: 2, max_item_bytes: 1000, max_pull: 500 });
    expect(Object.keys(info.limits)).toHaveLength(12);
    const { version } = JSON.parse(
      await readFile(new URL('../../../../package.json', import.meta.url), 'utf8'),
    ) as typeof info;
    expect(info.version).toBe(version);
  });

  test('RELAY_MAX_BODY bounds request bodies', async () => {
    const limits = JSON.stringify({ max_item_bytes: 300 });
    const relay = await relayHere(await temporaryFolder(), ['--limits', limits], { RELAY_MAX_BODY: '1000' });
    await clientOf(relay, alice).enrol();
    const statuses: number[] = [];
    for (const bytes of [1000, 1001]) {
      const relayPubkey = relay.start.relay_pubkey as PublicKey;
      const body = '{"items":[]}'.padEnd(bytes);
      const hop = { host: alice, relayPubkey, method: 'POST', target: '/v2/relay/items', body, timestamp: Date.now() };
      statuses.push((await rawRequest(portOf(relay), hopBytes(hop))).status);
    }
    expect(statuses).toEqual([200, 413]);
  });

  test.each<[string, readonly string[], Environment, number[]]>([
    ['MAIL_RELAY_TRUST_PROXY=xff', [], { MAIL_RELAY_TRUST_PROXY: 'xff' }, [200, 200, 200, 429]],
    ['MAIL_RELAY_TRUST_PROXY=cloudflare', [], { MAIL_RELAY_TRUST_PROXY: 'cloudflare' }, [200, 429, 200, 200]],
    ['--trust-proxy', ['--trust-proxy'], { MAIL_RELAY_TRUST_PROXY: 'cloudflare' }, [200, 200, 200, 429]],
    ['no proxy', [], { MAIL_RELAY_TRUST_PROXY: '' }, [200, 429, 429, 429]],
  ])('%s says whom the client address is believed of', async (_what, args, environment, statuses) => {
    const relay = await relayHere(await temporaryFolder(), ['--enrol-rate', '1', ...args], environment);
    const answered: number[] = [];
    for (const header of ['x-forwarded-for', 'cf-connecting-ip']) {
      for (const address of ['1.1.1.1', '2.2.2.2']) {
        const body = JSON.stringify({ pubkey: bob.key });
        const bytes = requestBytes('POST', '/v1/relay/challenge', { [header]: address }, body);
        answered.push((await rawRequest(portOf(relay), bytes)).status);
      }
    }
    expect(answered).toEqual(statuses);
  });

  test('--authority account-token admits with tokens of the issuer, and SIGTERM ends it all the same', async () => {
    const issuer = await issuerForTest();
    const { issuer: url, relayUrl } = issuer.settings;
    const args = ['--authority', 'account-token', '--issuer', url, '--relay-url', relayUrl];
    const relay = await relayHere(await temporaryFolder(), args);
    expect(relay.start).toMatchObject({ authority: 'account-token', issuer: url });
    await expect(clientOf(relay, alice).enrol()).rejects.toMatchObject({ status: 403, code: 'ENROL_REFUSED' });
    const post = (path: string, body: unknown): Promise<Response> =>
      fetch(`${relay.start.url}${path}`, { method: 'POST', body: JSON.stringify(body) });
    const { challenge } = (await (await post('/v1/relay/challenge', { pubkey: alice.key })).json()) as {
      challenge: string;
    };
    const signed = { relay_pubkey: relay.start.relay_pubkey };
    const sent = { proof: await proofOf(url, alice, { nowMs: Date.now() }) };
    const response = await post('/v1/relay/enrol', enrolBody(alice, challenge, { signed, sent }));
    expect(await response.json()).toMatchObject({ authorized_by: 'account-token', account: 'acme' });
    expect(issuer.requests).toBe(1);
    expect(await terminate(relay)).toMatchObject({ code: EXIT.ok, signal: null, stderr: '' });
  });

  test('the start shows the issuer, which need not be there', async () => {
    const args = ['--authority', 'account-token', '--issuer', 'http://127.0.0.1:1', '--relay-url', 'https://m.example'];
    const process = new CommandRun(serveArgs(await temporaryFolder(), args), commandContext());
    await process.printed('authority    account-token of http://127.0.0.1:1\n');
    await expect.poll(() => process.stderr).toContain("the issuer's keys could not be fetched");
    process.signal('SIGTERM');
    expect(await process.ended()).toMatchObject({ code: EXIT.ok });
  });
});

async function stoppedEpoch(
  storeDir: string,
  environment: Environment = {},
): Promise<Pick<StartDocument, 'epoch' | 'notices'>> {
  const relay = await relayHere(storeDir, [], environment);
  await terminate(relay);
  const { epoch, notices } = relay.start;
  return { epoch, notices };
}

describe('the position of a relay that is told no file for it', () => {
  test('shows an older copy of the store folder that is put back at once: a new epoch begins', async () => {
    const folder = await temporaryFolder();
    const [storeDir, copy] = [join(folder, 'store'), join(folder, 'copy')];
    const { epoch } = await stoppedEpoch(storeDir);
    await cp(storeDir, copy, { recursive: true });
    const relay = await relayHere(storeDir);
    await clientOf(relay, alice).enrol();
    await terminate(relay);
    await rm(storeDir, { recursive: true });
    await cp(copy, storeDir, { recursive: true });
    const setBack = await stoppedEpoch(storeDir);
    expect(setBack.notices).toEqual([expect.stringMatching(/^The store ends before log record [0-9]+, which it had/)]);
    expect(setBack.epoch).not.toBe(epoch);
    expect(await stoppedEpoch(storeDir)).toEqual({ ...setBack, notices: [] });
  });

  test('is carried over from the store folder in the same epoch, into the folder of the unit if any', async () => {
    const folder = await temporaryFolder();
    const storeDir = join(folder, 'store');
    const none = { XDG_STATE_HOME: '/proc/none' };
    const before = await stoppedEpoch(storeDir, none);
    expect(await readdir(storeDir)).toContain('position');
    const ofUnit = join(folder, 'poste-position');
    const environment = { ...none, STATE_DIRECTORY: `${storeDir}:${ofUnit}` };
    expect(await stoppedEpoch(storeDir, environment)).toMatchObject({ epoch: before.epoch, notices: [] });
    expect(await readdir(storeDir)).not.toContain('position');
    expect(await readdir(ofUnit)).toEqual([expect.stringMatching(/^relay-position-/)]);
    // Whatever the environment of the next start, and of other commands, says.
    expect(await stoppedEpoch(storeDir)).toMatchObject({ epoch: before.epoch, notices: [] });
    expect((await runHere(['relay', 'log', 'verify', '--store-dir', storeDir])).code).toBe(EXIT.ok);
    const rotated = await runHere(['relay', 'rotate-epoch', '--store-dir', storeDir]);
    expect([rotated.code, rotated.stderr]).toEqual([EXIT.ok, expect.stringMatching(/^This is the epoch from now on/)]);
    expect(await readdir(storeDir)).not.toContain('position');
  });

  test('is missing when the state folder is lost: a new epoch begins, and the next start is as any', async () => {
    const folder = await temporaryFolder();
    const [storeDir, state] = [join(folder, 'store'), join(folder, 'state')];
    const environment = { XDG_STATE_HOME: state };
    const { epoch } = await stoppedEpoch(storeDir, environment);
    await rm(state, { recursive: true });
    const anew = await stoppedEpoch(storeDir, environment);
    expect(anew.notices).toEqual([expect.stringMatching(/^The position file is missing or unreadable/)]);
    expect(anew.epoch).not.toBe(epoch);
    expect(await stoppedEpoch(storeDir, environment)).toMatchObject({ epoch: anew.epoch, notices: [] });
  });
});

describe('relay keygen', () => {
  test('prints one base64 line of 32 bytes and nothing else, each time another', async () => {
    const [first, second] = [await run(['relay', 'keygen']), await run(['relay', 'keygen'])];
    for (const ended of [first, second]) {
      expect(ended).toMatchObject({ code: EXIT.ok, stderr: '' });
      expect(ended.stdout).toMatch(KEY_PATTERN);
      expect(Buffer.from(ended.stdout, 'base64')).toHaveLength(32);
    }
    expect(first.stdout).not.toBe(second.stdout);
  });

  test('its key is taken as MAIL_RELAY_KEY, and is not written to the store folder', async () => {
    const { stdout: key } = await run(['relay', 'keygen']);
    const storeDir = await temporaryFolder();
    const first = await relayHere(storeDir, [], { MAIL_RELAY_KEY: key.trim() });
    expect(first.start.key).toBe('MAIL_RELAY_KEY');
    expect(existsSync(join(storeDir, 'relay.key'))).toBe(false);
    await terminate(first);
    const second = await relayHere(storeDir, [], { MAIL_RELAY_KEY: key });
    expect(second.start).toMatchObject({ relay_pubkey: first.start.relay_pubkey, epoch: first.start.epoch });
    await terminate(second);
    expect(first.process.stdout + second.process.stdout + second.process.stderr).not.toContain(key.trim());
  });

  test.each<[string, (file: string) => { args: string[]; environment: Environment }]>([
    ['--key-file', (file) => ({ args: ['--key-file', file], environment: { MAIL_RELAY_KEY_FILE: '/nowhere' } })],
    ['MAIL_RELAY_KEY_FILE', (file) => ({ args: [], environment: { MAIL_RELAY_KEY_FILE: file } })],
  ])('its key is taken from the file that %s names, and is not written to the store folder', async (_how, named) => {
    const { file, key } = await keyFile(0o640);
    const { args, environment } = named(file);
    const storeDir = await temporaryFolder();
    const first = await relayHere(storeDir, args, environment);
    expect(first.start).toMatchObject({ key: file, notices: [] });
    expect(existsSync(join(storeDir, 'relay.key'))).toBe(false);
    await terminate(first);
    const second = await relayHere(storeDir, [], { MAIL_RELAY_KEY: key });
    expect(second.start).toMatchObject({ relay_pubkey: first.start.relay_pubkey, epoch: first.start.epoch });
    await terminate(second);
    expect(first.process.stdout + first.process.stderr).not.toContain(key);
  });

  test('a key file that every user may read is used, and told of', async () => {
    const { file } = await keyFile(0o644);
    const relay = await relayHere(await temporaryFolder(), ['--key-file', file]);
    const mend = `remove that permission (chmod o= ${file})`;
    const notice = `Every user of this machine may open the key file ${file}: ${mend}.`;
    expect(relay.start.notices).toEqual([notice]);
    const { stderr } = await terminate(relay);
    expect(JSON.parse(stderr)).toMatchObject({ msg: notice });
  });
});

describe('what goes wrong is one sentence, an exit code and no stack trace', () => {
  test.each<[Environment, RegExp]>([
    [{ MAIL_RELAY_TRUST_PROXY: 'nginx' }, /MAIL_RELAY_TRUST_PROXY must be xff, cloudflare or none/],
    [{ RELAY_MAX_BODY: '8388609' }, /RELAY_MAX_BODY must be a number of bytes from 1 to 8388608/],
  ])('the environment %j is a usage error', async (environment, said) => {
    const storeDir = join(await temporaryFolder(), 'store');
    const ended = await run(serveArgs(storeDir), environment);
    expect(ended.code).toBe(EXIT.usage);
    expect(sentenceOf(ended)).toMatch(said);
    expect(existsSync(storeDir)).toBe(false);
  });

  test('max_item_bytes that no request can carry is a usage error with the most that one can', async () => {
    const storeDir = join(await temporaryFolder(), 'store');
    const refused = async (limit: number, bodyBytes: string): Promise<string> => {
      const limits = ['--limits', JSON.stringify({ max_item_bytes: limit })];
      const ended = await run(serveArgs(storeDir, limits), { RELAY_MAX_BODY: bodyBytes });
      expect(ended.code).toBe(EXIT.usage);
      expect(existsSync(storeDir)).toBe(false);
      return sentenceOf(ended);
    };
    expect(await refused(8_388_608, '')).toMatch(/a request of 8388608 bytes carries an item of [0-9]+ at most/);
    const most = Number(/carries an item of (?<most>[0-9]+) at most/.exec(await refused(524_288, '10000'))?.[1]);
    expect(await refused(most + 1, '10000')).toContain('max_item_bytes');
    // And as much as that can be pushed.
    const limits = ['--limits', JSON.stringify({ max_item_bytes: most })];
    const relay = await relayHere(await temporaryFolder(), limits, { RELAY_MAX_BODY: '10000' });
    for (const host of [alice, bob]) await clientOf(relay, host).enrol();
    const id = 'x'.repeat(ITEM_ID_CHARACTERS_MAX);
    const wire_b64 = Buffer.alloc(most).toString('base64');
    const body = JSON.stringify({
      items: [{ kind: 'envelope', item_id: id, targets: [{ host_pubkey: bob.key, wire_b64 }] }],
    });
    expect(body.length).toBeLessThanOrEqual(10_000);
    const relayPubkey = relay.start.relay_pubkey as PublicKey;
    const hop = { host: alice, relayPubkey, method: 'POST', target: '/v2/relay/items', body, timestamp: Date.now() };
    expect((await rawRequest(portOf(relay), hopBytes(hop))).status).toBe(200);
  });

  test('a hosted relay takes backups by itself, another says it takes none, and off is the last word', async () => {
    const hosted = [
      '--authority',
      'account-token',
      '--issuer',
      ISSUER,
      '--relay-url',
      'https://mail.example',
      '--jwks-url',
      'http://127.0.0.1:9/',
    ];
    const storeDir = join(await temporaryFolder(), 'deep', 'store');
    const own = await started(serve(storeDir, ...hosted));
    expect(own.notices).toEqual([expect.stringContaining(`Daily backups are written to ${join(storeDir, 'backups')}`)]);
    expect((await stat(join(storeDir, 'backups'))).mode & 0o777).toBe(0o700);
    const plain = await started(serve(await temporaryFolder()));
    expect(plain.notices).toEqual([expect.stringContaining('No regular backups are taken')]);
    for (const args of [[], hosted]) {
      const folder = await temporaryFolder();
      expect((await started(serve(folder, ...args, '--backup-dir', 'off'))).notices).toEqual([]);
      expect(existsSync(join(folder, 'backups'))).toBe(false);
    }
  });

  test('a relay.key that every user may open is refused with the command that mends it', async () => {
    const { storeDir } = await usedStore();
    const path = join(storeDir, 'relay.key');
    await chmod(path, 0o644);
    const refused = await run(serveArgs(storeDir));
    expect(refused.code).toBe(EXIT.refused);
    expect(sentenceOf(refused)).toContain(
      `every user of this machine may open ${path} (mode 0644): run chmod 600 ${path}`,
    );
    await chmod(path, 0o600);
    const relay = await relayHere(storeDir);
    expect(relay.start.initialised).toBe(false);
  });

  test("an operator's port that is taken is a conflict, which names it", async () => {
    const taken = await relayHere(await temporaryFolder(), ['--listen', `127.0.0.1:${await freePort()}`]);
    const address = `127.0.0.1:${portOf(taken)}`;
    const ended = await run(serveArgs(await temporaryFolder(), ['--admin-listen', address]));
    expect(ended.code).toBe(EXIT.conflict);
    expect(sentenceOf(ended)).toContain(address);
    expect((await clientOf(taken, alice).info()).v).toBe(2);
  });

  describe('with a store that has run', () => {
    test('another key, from the environment or in relay.key, is refused', async () => {
      const { storeDir, key } = await usedStore();
      const ofEnvironment = await run(serveArgs(storeDir), { MAIL_RELAY_KEY: OTHER_KEY });
      expect(refusalOf(ofEnvironment, key)).toMatch(/not the one of the store .* fingerprint SHA256:/);
      await writeFile(join(storeDir, 'relay.key'), `${OTHER_KEY}\n`);
      expect(refusalOf(await run(serveArgs(storeDir)), key)).toMatch(/not the one of the store/);
      const json = await run([...serveArgs(storeDir), '--json']);
      expect(json).toMatchObject({ code: EXIT.refused, stdout: '' });
      expect(JSON.parse(json.stderr)).toMatchObject({ code: 'STORE_FOREIGN_KEY', details: {} });
      const again = await relayHere(storeDir, [], { MAIL_RELAY_KEY: key });
      expect((await terminate(again)).code).toBe(EXIT.ok);
    });

    test('a key that is none is refused, and not repeated', async () => {
      const { storeDir, key } = await usedStore();
      const none = OTHER_KEY.slice(0, 40);
      const ofEnvironment = await run(serveArgs(storeDir), { MAIL_RELAY_KEY: none });
      expect(refusalOf(ofEnvironment, key)).toMatch(/MAIL_RELAY_KEY does not hold a relay key/);
      await writeFile(join(storeDir, 'relay.key'), none);
      expect(refusalOf(await run(serveArgs(storeDir)), key)).toMatch(/relay\.key does not hold a relay key/);
    });

    test('a key file with another key or none is refused, and one that is not there is not found', async () => {
      const { storeDir, key } = await usedStore();
      const { file } = await keyFile(0o600, OTHER_KEY);
      const args = [...serveArgs(storeDir), '--key-file', file];
      expect(refusalOf(await run(args), key)).toMatch(/not the one of the store/);
      await writeFile(file, OTHER_KEY.slice(0, 40));
      expect(refusalOf(await run(args), key)).toContain(`${file} does not hold a relay key`);
      await writeFile(file, `${key}\n`.padEnd(100_000, 'x'));
      expect(refusalOf(await run(args), key)).toContain(`${file} does not hold a relay key`);
      await rm(file);
      const gone = await run(args);
      expect(gone.code).toBe(EXIT.notFound);
      expect(sentenceOf(gone)).toContain(`there is no key file at ${file}`);
      await mkdir(file);
      expect(refusalOf(await run(args), key)).toContain(`${file} is a folder, and no key file`);
    });

    test('two keys at once are refused', async () => {
      const { storeDir, key } = await usedStore();
      const { file } = await keyFile(0o600, key);
      const ended = await run([...serveArgs(storeDir), '--key-file', file], { MAIL_RELAY_KEY: key });
      expect(ended.code).toBe(EXIT.usage);
      expect(sentenceOf(ended)).toMatch(/set only one of them/);
      expect(ended.stderr).not.toContain(key);
    });

    test('a key that is gone, or cannot be read, is refused', async () => {
      const { storeDir, key } = await usedStore();
      await rm(join(storeDir, 'relay.key'));
      expect(refusalOf(await run(serveArgs(storeDir)), key)).toMatch(/has no relay\.key/);
      await mkdir(join(storeDir, 'relay.key'));
      expect(refusalOf(await run(serveArgs(storeDir)), key)).toMatch(/relay\.key is a folder, and no key file/);
    });

    test('a newer schema is refused, and says which software would do', async () => {
      const { storeDir, key } = await usedStore();
      await withRawLevel(storeDir, (level) => level.put(SCHEMA_KEY, Buffer.of(0, 0, 0, SCHEMA_VERSION + 1)));
      const ended = await run(serveArgs(storeDir));
      const known = `this software knows schemas up to ${SCHEMA_VERSION}`;
      const newer = `schema ${SCHEMA_VERSION + 1} and ${known}: start the newer`;
      expect(refusalOf(ended, key)).toContain(newer);
    });

    test('a store that lost its database is damaged, and says what to do', async () => {
      const { storeDir } = await usedStore();
      await rm(join(storeDir, 'log', 'CURRENT'));
      const ended = await run(serveArgs(storeDir));
      expect(ended.code).toBe(EXIT.failure);
      expect(sentenceOf(ended)).toMatch(/restore a backup/);
    });
  });

  test('errors of --json are one document with code, message and details, those of usage too', async () => {
    const usage = await run([...serveArgs('nowhere', ['--listen', 'x']), '--json']);
    expect(usage).toMatchObject({ code: EXIT.usage, stdout: '' });
    const message = expect.stringContaining('It must be host:port') as string;
    expect(JSON.parse(usage.stderr)).toEqual({ code: 'USAGE', message, details: {} });
    const path = join(await temporaryFolder(), 'file');
    await writeFile(path, '');
    const ended = await run([...serveArgs(path), '--json']);
    expect(ended).toMatchObject({ code: EXIT.failure, stdout: '' });
    expect(JSON.parse(ended.stderr)).toEqual({
      code: 'STORE_UNUSABLE',
      message: expect.stringContaining(path) as string,
      details: {},
    });
  });
});

/** `poste` in this process. */
function run(args: readonly string[], environment: Environment = {}): Promise<Ended> {
  return runHere(args, { environment });
}

function portOf({ start }: RelayHere): number {
  return Number(new URL(start.url).port);
}

/** The sentence of a relay that refuses its key or its store; no key may be in it. */
function refusalOf(ended: Ended, key: string): string {
  expect(ended.code).toBe(EXIT.refused);
  for (const secret of [key, OTHER_KEY]) expect(ended.stderr).not.toContain(secret.slice(0, 12));
  return sentenceOf(ended);
}

/** The arguments of a relay that is told nothing of backups. */
const serve = (storeDir: string, ...args: string[]): string[] => [
  'relay',
  'serve',
  '--store-dir',
  storeDir,
  ...'--listen 127.0.0.1:0 --admin-listen off --log-level silent'.split(' '),
  ...args,
];

/** The document of its start; it is stopped at once. */
const started = async (args: string[]): Promise<StartDocument> => {
  const relay = new CommandRun([...args, '--json'], commandContext());
  await relay.printed('}\n');
  relay.signal('SIGTERM');
  expect((await relay.ended()).code).toBe(EXIT.ok);
  return JSON.parse(relay.stdout) as StartDocument;
};

/** A store as a first start leaves it, and its key. */
async function usedStore(): Promise<{ storeDir: string; key: string }> {
  const storeDir = await temporaryFolder();
  const { store } = await openStore({ folder: storeDir, nowMs: Date.now(), newEpoch: () => epochNumbered(1) });
  await store.close();
  return { storeDir, key: (await readFile(join(storeDir, 'relay.key'), 'utf8')).trim() };
}

/** A key file outside every store; a new key when none is given. */
async function keyFile(mode: number, key?: string): Promise<{ file: string; key: string }> {
  const written = key ?? (await run(['relay', 'keygen'])).stdout.trim();
  const file = join(await temporaryFolder(), 'deploy.key');
  await writeFile(file, `${written}\n`);
  // Whatever the umask is.
  await chmod(file, mode);
  return { file, key: written };
}

test('relay serve with a certificate says its https address, and hosts with the certificate reach it', async () => {
  const folder = await temporaryFolder();
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  await writeFile(cert, SELF_SIGNED.cert);
  await writeFile(key, SELF_SIGNED.key);
  const { start } = await relayHere(join(folder, 'relay'), ['--tls-cert', cert, '--tls-key', key]);
  expect(start.url).toMatch(/^https:\/\/127\.0\.0\.1:/);
  const caller = callerTrusting({ pem: SELF_SIGNED.cert });
  const client = new RelayClient({
    url: start.url,
    signer: alice.signer,
    hostName: alice.name,
    nowMs: Date.now,
    caller,
  });
  expect((await client.info()).relay_pubkey).toBe(start.relay_pubkey);
});

test('relay serve refuses a key that is not that of the certificate, and says so', async () => {
  const folder = await temporaryFolder();
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  await writeFile(cert, SELF_SIGNED.cert);
  await writeFile(key, SERVER.key);
  const ended = await run(serveArgs(join(folder, 'relay'), ['--tls-cert', cert, '--tls-key', key]));
  expect(ended.code).toBe(EXIT.refused);
  expect(ended.stderr).toMatch(/the key in .*tls\.key is not that of the certificate in .*tls\.crt/);
});
