import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { configOfToml, loadConfig, newConfigText } from '../../../../src/host/base/config.ts';
import { ConfigRefused } from '../../../../src/lib/config-file.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const LAN = { host: '10.0.0.1', port: 9000 };

/** The config of a file with this text. */
async function configOf(
  text: string,
  environment: Record<string, string> = {},
  flags: Parameters<typeof loadConfig>[0]['flags'] = {},
): Promise<ReturnType<typeof loadConfig>> {
  const file = join(await temporaryFolder(), 'config.toml');
  await writeFile(file, text);
  return loadConfig({ file, environment, flags });
}

describe('loadConfig', () => {
  test('a missing file is no fault', () => {
    expect(loadConfig({ file: '/nowhere/config.toml', environment: {} })).toEqual({
      lanListen: { host: '0.0.0.0', port: 8789 },
      lanAdvertise: undefined,
      webListen: undefined,
      retentionDays: 90,
      remindAfterHours: 24,
      logLevel: 'info',
      retryFirstSeconds: 5,
      retryLongestSeconds: 900,
      relayPollSeconds: 15,
      relayRetryElsewhereSeconds: 300,
      relaySecondCopySeconds: 3600,
    });
  });

  test('a reminder of an unanswered message may come never: 0 hours', async () => {
    expect(await configOf('remind_after_hours = 0')).toMatchObject({ remindAfterHours: 0 });
    expect(await configOf('', { POSTE_REMIND_AFTER_HOURS: '1.5' })).toMatchObject({ remindAfterHours: 1.5 });
    await expect(configOf('remind_after_hours = -1')).rejects.toThrow('must be a number from 0, at most 8760');
  });

  test('when what failed is tried again, and how often a relay is asked, may be shortened', async () => {
    const file = '[retry]\nfirst_seconds = 0.05\nlongest_seconds = 1\n[relay]\npoll_seconds = 0.1\n';
    expect(await configOf(file)).toMatchObject({
      retryFirstSeconds: 0.05,
      retryLongestSeconds: 1,
      relayPollSeconds: 0.1,
    });
    const environment = {
      POSTE_RETRY_FIRST_SECONDS: '2',
      POSTE_RETRY_LONGEST_SECONDS: '3',
      POSTE_RELAY_POLL_SECONDS: '4',
    };
    expect(await configOf(file, environment)).toMatchObject({
      retryFirstSeconds: 2,
      retryLongestSeconds: 3,
      relayPollSeconds: 4,
    });
    const why = 'retry.longest_seconds must be at least retry.first_seconds';
    await expect(configOf('retry.longest_seconds = 4')).rejects.toThrow(why);
  });

  test('a second copy may come sooner, or never', async () => {
    const file = '[relay]\nretry_elsewhere_s = 60\nsecond_copy_s = "off"\n';
    expect(await configOf(file)).toMatchObject({ relayRetryElsewhereSeconds: 60, relaySecondCopySeconds: 'off' });
    const environment = { POSTE_RELAY_SECOND_COPY_S: '90', POSTE_RELAY_RETRY_ELSEWHERE_S: '0.5' };
    expect(await configOf(file, environment)).toMatchObject({
      relayRetryElsewhereSeconds: 0.5,
      relaySecondCopySeconds: 90,
    });
    await expect(configOf('relay.second_copy_s = true')).rejects.toThrow('at most 86400, or "off"');
  });

  test('flags are before the environment, that before the file, that before the defaults', async () => {
    const file = 'retention_days = 1.5\nlog_level = "warn"\nlan.listen = "10.0.0.1:9000"\n';
    const environment = { POSTE_RETENTION_DAYS: '2.5', POSTE_LOG_LEVEL: 'error' };
    const config = await configOf(file, environment, { logLevel: 'debug' });
    expect(config).toMatchObject({ retentionDays: 2.5, logLevel: 'debug', lanListen: LAN });
    expect(config.webListen).toBeUndefined();
  });

  test('an empty variable says nothing', async () => {
    expect(await configOf('log_level = "warn"', { POSTE_LOG_LEVEL: '' })).toMatchObject({ logLevel: 'warn' });
  });

  test('every setting may stand in the file and in the environment', async () => {
    const file = '[lan]\nlisten = "[::1]:0"\nadvertise = "a:1"\n[web]\nlisten = "localhost:2"\n';
    expect(await configOf(file)).toMatchObject({
      lanListen: { host: '::1', port: 0 },
      lanAdvertise: { host: 'a', port: 1 },
      webListen: { host: 'localhost', port: 2 },
    });
    const environment = { POSTE_LAN_LISTEN: '10.0.0.1:9000', POSTE_LAN_ADVERTISE: 'b:3', POSTE_WEB_LISTEN: '[::1]:4' };
    expect(await configOf(file, environment)).toMatchObject({
      lanListen: LAN,
      lanAdvertise: { host: 'b', port: 3 },
      webListen: { host: '::1', port: 4 },
    });
  });

  test.each([
    ['POSTE_RETENTION_DAYS', '0'],
    ['POSTE_RETENTION_DAYS', '1e3'],
    ['POSTE_LOG_LEVEL', 'loud'],
    ['POSTE_LAN_LISTEN', '8789'],
    ['POSTE_WEB_LISTEN', '0.0.0.0:8790'],
    ['POSTE_RETRY_FIRST_SECONDS', '0'],
    ['POSTE_RETRY_LONGEST_SECONDS', '3601'],
    ['POSTE_RELAY_POLL_SECONDS', '-1'],
    ['POSTE_RELAY_RETRY_ELSEWHERE_S', 'off'],
    ['POSTE_RELAY_SECOND_COPY_S', 'never'],
  ])('%s=%s is refused with its name', async (name, value) => {
    await expect(configOf('', { [name]: value })).rejects.toThrow(new RegExp(`^${name} must be `));
  });

  test('a folder is refused: it is no config file', async () => {
    const file = await temporaryFolder();
    expect(() => loadConfig({ file, environment: {} })).toThrow(`${file} is a folder: name the config file in it`);
  });
});

describe('configOfToml: what cannot be is refused with its line', () => {
  test.each([
    ['retention_days = 3\n[lan]\nlistn = "x"', 3, /there is no setting lan\.listn; there are retention_days, /],
    ['# a\n\nretention = 3', 3, /there is no setting retention;/],
    ['[wbe]\nlisten = "x"', 1, /there is no setting wbe;/],
    ['lan = 3', 1, /there is no setting lan;/],
    ['[[lan]]\nlisten = "x"', 1, /there is no setting lan;/],
    ['lan.listen.x = 1', 1, /lan\.listen must be a text host:port/],
    ['log_level = "info"\nretention_days = "soon"', 2, /retention_days must be a number above 0/],
    ['retention_days = 0', 1, /retention_days must be/],
    ['retention_days = nan', 1, /retention_days must be/],
    ['retention_days = true', 1, /retention_days must be/],
    ['log_level = 1', 1, /log_level must be one of debug, info, warn, error, silent/],
    ['[lan]\nlisten = 8789', 2, /lan\.listen must be/],
    ['[lan]\nadvertise = "host:0"', 2, /lan\.advertise must be/],
    ['[web]\nlisten = "192.168.1.1:8790"', 2, /web\.listen must be an address of this machine only/],
    ['[web]\nlisten = """\n127.0.0.1:1\n"""', 4, /web\.listen must be/],
    ['__proto__ = 1', 1, /there is no setting __proto__;/],
    ['log_level = \n', 1, /./],
    ['log_level = "info"\nlog_level = "warn"', 2, /./],
    ['x = [', 1, /./],
  ])('%j', (text, line, why) => {
    let refused: unknown;
    try {
      configOfToml(text, 'config.toml');
    } catch (error) {
      refused = error;
    }
    expect(refused).toBeInstanceOf(ConfigRefused);
    const { message } = refused as ConfigRefused;
    expect(message).toMatch(new RegExp(`^config\\.toml, line ${line}: `));
    expect(message).toMatch(why);
    expect(message).not.toContain('\n');
  });
});

test('the file of a new host says what holds without it, also when every comment is taken away', () => {
  expect(configOfToml(newConfigText(), 'config.toml')).toEqual({});
  const uncommented = newConfigText().replaceAll(/^# (?=[a-z_]+ = )/gm, '');
  const { lanAdvertise, webListen, ...said } = configOfToml(uncommented, 'config.toml');
  expect(loadConfig({ file: '/nowhere', environment: {} })).toMatchObject(said);
  expect(Object.keys(said)).toHaveLength(9);
  expect(lanAdvertise).toBeDefined();
  expect(webListen).toEqual({ host: '127.0.0.1', port: 8790 });
});
