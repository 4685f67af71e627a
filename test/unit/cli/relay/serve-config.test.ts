/** The config file of `poste relay serve`, and `--print-config`. */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as fc from 'fast-check';
import { parse, stringify } from 'smol-toml';
import { describe, expect, test } from 'vitest';
import { effectiveSettings, printedConfig } from '../../../../src/cli/relay/serve-config.ts';
import { CommandDraft } from '../../../../src/cli/lib/command-draft.ts';
import { ALL_SETTINGS, SETTINGS, configOption, serveOptions } from '../../../../src/cli/relay/settings.ts';
import { serveCommand } from '../../../../src/cli/relay/serve.ts';
import { DEFAULT_LIMITS } from '../../../../src/protocol/limits.ts';
import { commandContext, relayHere, runHere } from '../../../support/command-run.ts';
import { alice } from '../../../support/hosts.ts';
import type { Ended, Environment } from '../../../support/poste-process.ts';
import { EXIT, clientOf, sentenceOf } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { share } from '../../../support/thorough.ts';

/** Flags that are about what the command does, and no settings of a relay. */
const KEYS = ALL_SETTINGS.map(({ key }) => key);
const NO_SETTINGS = new Set(['config', 'printConfig', 'json']);

/** A config file with this text, in a folder of its own. */
async function fileWith(text: string): Promise<string> {
  const file = join(await temporaryFolder(), 'relay.toml');
  await writeFile(file, text);
  return file;
}

function serve(args: readonly string[], environment: Environment = {}): Promise<Ended> {
  return runHere(['relay', 'serve', ...args], { environment });
}

/** The text that `--print-config` prints, and each setting in it. */
async function printed(
  args: readonly string[],
  environment: Environment = {},
): Promise<{ text: string; settings: Record<string, unknown> }> {
  const { code, stdout, stderr } = await serve([...args, '--print-config'], environment);
  expect([code, stderr]).toEqual([EXIT.ok, '']);
  return { text: stdout, settings: parse(stdout) };
}

describe('flags and keys', () => {
  test('every flag of relay serve is a setting of the table, and each has a key', () => {
    const flags = serveCommand(commandContext()).options.map((option) => option.attributeName());
    const settings = flags.filter((name) => !NO_SETTINGS.has(name));
    expect(settings.toSorted()).toEqual(Object.keys(SETTINGS).toSorted());
    const keys = settings
      .filter((name) => name !== 'limits')
      .map((name) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
    const limits = Object.keys(DEFAULT_LIMITS).map((name) => `limits.${name}`);
    expect(KEYS.toSorted()).toEqual([...keys, ...limits].toSorted());
  });

  test('every key is printed, set or not', async () => {
    const { text } = await printed(['--config', await fileWith('')]);
    for (const key of KEYS) {
      const name = key.replace('limits.', '');
      expect(text).toMatch(new RegExp(`^(?:# )?${name}(?: = |: )`, 'm'));
    }
  });
});

describe('where a setting comes from', () => {
  test('flags win over the environment, that over the file, that over the defaults', async () => {
    const config = ['--config', await fileWith('trust_proxy = "xff"\nenrol_rate = 5\n')];
    const environment = { MAIL_RELAY_TRUST_PROXY: 'cloudflare', RELAY_MAX_BODY: '9000000' };
    const small = { ...environment, RELAY_MAX_BODY: '8000000' };
    expect((await printed(config)).settings).toMatchObject({ trust_proxy: 'xff', enrol_rate: 5 });
    expect((await printed(config, small)).settings).toMatchObject({ trust_proxy: 'cloudflare', max_body: 8_000_000 });
    const flags = ['--trust-proxy', 'none', '--max-body', '7000000', '--enrol-rate', '6'];
    const { settings, text } = await printed([...config, ...flags], small);
    expect(settings).toMatchObject({ trust_proxy: 'none', max_body: 7_000_000, enrol_rate: 6, max_enrolments: 10_000 });
    expect(text).toMatch(/^trust_proxy = "none" {2}# --trust-proxy$/m);
    expect((await printed(config, small)).text).toMatch(/^max_body = 8000000 {2}# RELAY_MAX_BODY$/m);
    expect((await printed(config)).text).toMatch(/^enrol_rate = 5 {2}# \/.*relay\.toml, line 2$/m);
    expect((await printed(config)).text).toMatch(/^max_enrolments = 10000 {2}# default$/m);
  });

  test('each limit by itself', async () => {
    const config = await fileWith('[limits]\nmax_batch = 3\nretention_days = 2\n');
    const { settings, text } = await printed(['--config', config, '--limits', '{"retention_days": 0.5}']);
    expect(settings['limits']).toEqual({ ...DEFAULT_LIMITS, max_batch: 3, retention_days: 0.5 });
    expect(text).toMatch(/^max_batch = 3 {2}# .*line 2$/m);
    expect(text).toMatch(/^retention_days = 0\.5 {2}# --limits$/m);
  });

  test('paths start at the folder of the file, and elsewhere at the working folder', async () => {
    const config = await fileWith('store_dir = "store"\nbackup_dir = "off"\ntls_cert = "/etc/tls.crt"\n');
    const { settings } = await printed(['--config', config, '--tls-key', 'tls.key']);
    expect(settings).toMatchObject({
      store_dir: join(dirname(config), 'store'),
      backup_dir: 'off',
      tls_cert: '/etc/tls.crt',
      tls_key: join(process.cwd(), 'tls.key'),
    });
  });

  test('without --config the file is relay.toml beside the config of a host, if it is there', async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, 'poste'));
    await writeFile(join(folder, 'relay.toml'), 'enrol_rate = 7\n');
    await writeFile(join(folder, 'poste', 'relay.toml'), 'enrol_rate = 8\n');
    expect((await printed([], { POSTE_HOME: folder })).settings).toMatchObject({ enrol_rate: 7 });
    expect((await printed([], { XDG_CONFIG_HOME: folder })).settings).toMatchObject({ enrol_rate: 8 });
    const none = await printed([], { POSTE_HOME: join(folder, 'none') });
    expect(none.settings).toMatchObject({ enrol_rate: 30 });
  });

  test('a relay serves with what the file says', async () => {
    const config = await fileWith('admission = "invite"\nbackup_dir = "off"\n[limits]\nmax_batch = 2\n');
    const relay = await relayHere(join(dirname(config), 'store'), ['--config', config]);
    expect((await clientOf(relay, alice).info()).limits).toMatchObject({ max_batch: 2, max_pull: 500 });
    await expect(clientOf(relay, alice).enrol()).rejects.toMatchObject({ status: 403 });
  });
});

describe('what cannot be is refused, with its line', () => {
  test.each<[string, string]>([
    ['\nadmision = "open"', 'line 2: there is no setting admision (did you mean admission?): poste relay serve'],
    ['backup-dir = "/b"', 'line 1: there is no setting backup-dir (did you mean backup_dir?)'],
    ['xyzzyplugh = 1', 'line 1: there is no setting xyzzyplugh: poste relay serve --print-config shows all'],
    ['[limits]\nmax_batsh = 1', 'line 2: there is no setting limits.max_batsh (did you mean limits.max_batch'],
    ['[retry]\nfirst = 1', 'line 1: there is no setting retry'],
    ['[listen]\nhost = "x"', 'line 1: listen must be a text, in quotes'],
    ['listen = 8787', 'line 1: listen must be a text, in quotes'],
    ['listen = "8787"', 'line 1: listen must be host:port, as in'],
    ['enrol_rate = "5"', 'line 1: enrol_rate must be a number, without quotes'],
    ['enrol_rate = 0', 'line 1: enrol_rate must be a whole number, at least 1'],
    ['accept_settings = "yes"', 'line 1: accept_settings must be true or false, without quotes'],
    ['admission = "all"', 'line 1: admission must be open or invite'],
    ['limits = 3', 'line 1: limits must be a table'],
    ['[limits]\nmax_batch = 1.5', 'line 2: max_batch must be a whole number'],
    ['[limits]\nmax_batch = "1"', 'line 2: limits.max_batch must be a number, without quotes'],
    ['backup_every = "1y"', 'line 1: backup_every must be a time from 1m to 365d'],
    ['log_level =', 'line 1: '],
  ])('%j', async (text, said) => {
    const config = await fileWith(text);
    const ended = await serve(['--config', config, '--store-dir', join(dirname(config), 'store')]);
    expect(ended.code).toBe(EXIT.usage);
    expect(sentenceOf(ended)).toContain(`${config}, ${said}`);
  });

  test('a file that is named and not there, or cannot be read', async () => {
    const folder = await temporaryFolder();
    const none = await serve(['--config', join(folder, 'none.toml')]);
    expect(none.code).toBe(EXIT.notFound);
    expect(sentenceOf(none)).toContain(`there is no config file at ${folder}/none.toml`);
    const unreadable = await serve(['--config', folder, '--json']);
    expect(unreadable.code).toBe(EXIT.usage);
    expect(JSON.parse(unreadable.stderr)).toMatchObject({ code: 'BAD_CONFIG' });
  });
});

describe('--print-config', () => {
  test('starts nothing and makes nothing', async () => {
    const folder = await temporaryFolder();
    const storeDir = join(folder, 'store');
    await printed(['--store-dir', storeDir, '--backup-dir', join(folder, 'backups')]);
    await expect(mkdir(storeDir)).resolves.toBeUndefined();
    await expect(mkdir(join(folder, 'backups'))).resolves.toBeUndefined();
  });

  test.each([
    ['postgres://me:geheim@db.example/mail?sslmode=verify-full', 'postgres://me@db.example/mail?sslmode=verify-full'],
    ['postgres://me:geheim@one,two:6000/mail?sslpassword=geheim', 'postgres://me@one,two:6000/mail'],
    ['postgres://me@db.example/mail', 'postgres://me@db.example/mail'],
  ])('shows the log %s without a password, and says so', async (address, shown) => {
    for (const [args, environment] of [
      [['--log', address], {}],
      [[], { MAIL_RELAY_LOG: address }],
    ] as const) {
      const { text, settings } = await printed(args, environment);
      expect(settings['log']).toBe(shown);
      expect(text).not.toContain('geheim');
      expect(text.includes('without its password')).toBe(address !== shown);
    }
  });

  test('shows nothing of an address that is none, and says that the key is left out', async () => {
    const { text, settings } = await printed(['--log', 'postgres://me:geh@eim@db/mail'], { MAIL_RELAY_KEY: 'geheim' });
    expect(settings['log']).toBeUndefined();
    expect(text).not.toMatch(/geh/);
    expect(text).toContain('The key of the relay comes from MAIL_RELAY_KEY, which is not shown');
    expect(text).toContain('# log is set (--log), and is no address of a log: it is not shown');
  });

  test('gives the same settings when it is read back', async () => {
    const folder = await temporaryFolder();
    const [first, second] = [join(folder, 'first', 'relay.toml'), join(folder, 'second', 'relay.toml')];
    for (const file of [first, second]) await mkdir(dirname(file));
    await fc.assert(
      fc.asyncProperty(
        fc.record(VALUES, { requiredKeys: [] }),
        fc.dictionary(LIMIT, LIMIT_VALUE),
        async (values, limits) => {
          await writeFile(first, stringify({ ...values, limits }));
          const before = effectiveOf(first);
          await writeFile(second, printedConfig(commandContext(), before));
          const after = effectiveOf(second);
          expect(after.settings).toEqual(before.settings);
          const others = Object.fromEntries(Object.entries(values).filter(([key]) => !PATHS.has(key)));
          expect(parse(printedConfig(commandContext(), after))).toMatchObject(others);
        },
      ),
      { numRuns: share(160) },
    );
  });
});

function effectiveOf(config: string): ReturnType<typeof effectiveSettings> {
  const { command } = new CommandDraft(commandContext(), 'serve').takes(...serveOptions(), configOption());
  command.parse(['--config', config], { from: 'user' });
  return effectiveSettings(commandContext(), command);
}

/** The settings whose texts are neither paths nor choices. */
const TEXTS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  log: fc.constantFrom('postgres://relay@db.example/mail', 'postgres://a,b:6000/mail?sslmode=verify-ca'),
  listen: fc.constantFrom('127.0.0.1:1', '[::1]:8787', 'mail.example:0'),
  admin_listen: fc.constantFrom('off', '127.0.0.1:8788'),
  issuer: fc.constantFrom('https://accounts.example', 'https://accounts.example/"a"'),
  relay_url: fc.constantFrom('https://mail.example', 'http://mail.example/x?y=z'),
  jwks_url: fc.constantFrom('https://accounts.example/keys'),
  backup_every: fc.constantFrom('90m', '24h', '7d'),
  witness: fc.constantFrom('https://w.example', 'http://127.0.0.1:8789 https://w.example/prefix'),
  witness_key: fc.constantFrom('remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2'),
};

const PATHS = new Set<string>();

/** A value for every key but those of limits. */
const VALUES = Object.fromEntries(
  ALL_SETTINGS.flatMap((setting): [string, fc.Arbitrary<unknown>][] => {
    const { key } = setting;
    const text = setting.choices ? fc.constantFrom(...setting.choices) : TEXTS[key];
    switch (setting.kind) {
      case 'limits':
        return [];
      case 'yes':
        return [[key, fc.boolean()]];
      case 'number':
        return [[key, fc.integer({ min: 2, max: 86_400 })]];
      case 'text':
      case 'texts':
        return [[key, text ?? fc.string()]];
      default:
        PATHS.add(key);
        // Every character that a path may hold, but the end of a text.
        return [[key, fc.string({ unit: 'grapheme', minLength: 1 }).filter((path) => !path.includes('\0'))]];
    }
  }),
);
const LIMIT = fc.constantFrom(...Object.keys(DEFAULT_LIMITS));
const LIMIT_VALUE = fc.integer({ min: 1, max: 3650 });
