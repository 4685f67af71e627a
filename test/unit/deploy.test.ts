/**
 * What scripts/deploy hands to operators fits the relay that it deploys: flags that exist, limits that agree, metrics
 * that are exported, and a word in the guide for every alarm.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse as parseToml } from 'smol-toml';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { serveCommand } from '../../src/cli/relay/serve.ts';
import { IDLE_TIMEOUT_MS } from '../../src/http/exchange.ts';
import { ITEM_REJECTIONS } from '../../src/protocol/items.ts';
import { BODY_BYTES_MAX, DEFAULT_LIMITS, WAIT_SECONDS_MAX } from '../../src/protocol/limits.ts';
import { PROBLEMS } from '../../src/protocol/problem.ts';
import { type Gauges, RelayMetrics } from '../../src/relay/operator/metrics.ts';
import { OPERATIONS } from '../../src/relay/serve/host-api.ts';
import { STOP_WITHIN_MS } from '../../src/relay/relay.ts';
import { commandContext, runHere } from '../support/command-run.ts';
import { FIRST_EPOCH } from '../support/commands.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import {
  deployFile,
  dockerSteps,
  metricsOf,
  operatorsGuide,
  repositoryPath,
  unitSettings,
} from '../support/deploy-files.ts';

const SERVE_FLAGS = new Set(serveCommand(commandContext()).options.map(({ long }) => long));
/** A relay shows this at its first start. */
const NOTHING_YET: Gauges = {
  queue_items: 0,
  queue_bytes: 0,
  oldest_item_age_seconds: 0,
  log_position: 1,
  log_first_position: 1,
  hosts: 0,
  waiting_pulls: 0,
  broken_queues: 0,
  open_connections: 0,
  rows_check_found: 0,
  damaged_rows: 0,
  disk_free_bytes: 1,
  disk_low: 0,
  last_backup_timestamp_seconds: 0,
  ready: 1,
};
const ENVIRONMENT = ['MAIL_RELAY_KEY', 'MAIL_RELAY_KEY_FILE', 'MAIL_RELAY_TRUST_PROXY', 'RELAY_MAX_BODY'];

interface AlertRule {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; runbook_url: string };
}

interface Panel {
  title: string;
  type: string;
  description?: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { expr: string }[];
}

const rules = (parse(deployFile('alerts.yml')) as { groups: { rules: AlertRule[] }[] }).groups.flatMap(
  (group) => group.rules,
);
const dashboard = JSON.parse(deployFile('grafana-dashboard.json')) as { panels: Panel[] };

describe('the systemd unit', () => {
  const settings = unitSettings(deployFile('poste-relay.service'));
  const [start = ''] = settings.get('Service.ExecStart') ?? [];

  test('serves with flags that there are, and with its config file', () => {
    expect(flagsOf(start).filter((flag) => !SERVE_FLAGS.has(flag))).toEqual([]);
    expect(start).toContain(' --config /etc/poste/relay.toml ');
  });

  test('hands the key over as a credential, and on no command line or in the environment', () => {
    const [credential = ''] = settings.get('Service.LoadCredential') ?? [];
    const [name = ''] = credential.split(':');
    expect(start).toContain(`--key-file \${CREDENTIALS_DIRECTORY}/${name}`);
    expect([start, ...(settings.get('Service.Environment') ?? [])].join(' ')).not.toContain('MAIL_RELAY_KEY');
  });

  test('stores where its state is, and may write nowhere else', () => {
    const folders = (settings.get('Service.StateDirectory')?.[0] ?? '').split(' ').map((name) => `/var/lib/${name}`);
    const config = parseToml(uncommented(deployFile('relay.toml')));
    const position = '/var/lib/poste-position';
    expect([config['store_dir'], position, config['backup_dir'], config['log_archive_dir']]).toEqual(folders);
    expect(settings.get('Service.ProtectSystem')).toEqual(['strict']);
    expect(settings.has('Service.ReadWritePaths')).toBe(false);
  });

  test('has files for LevelDB, and time for a stop', () => {
    expect(Number(settings.get('Service.LimitNOFILE'))).toBeGreaterThanOrEqual(65_536);
    const seconds = /^(?<count>[0-9]+)s$/.exec(settings.get('Service.TimeoutStopSec')?.[0] ?? '')?.groups?.['count'];
    expect(Number(seconds) * 1000).toBeGreaterThanOrEqual(STOP_WITHIN_MS + 10_000);
  });

  test('leaves V8 its executable memory and takes the rest', () => {
    expect(settings.has('Service.MemoryDenyWriteExecute')).toBe(false);
    expect(settings.get('Service.NoNewPrivileges')).toEqual(['yes']);
    expect(settings.get('Service.CapabilityBoundingSet')).toEqual(['']);
    expect(settings.get('Service.RestrictAddressFamilies')).toEqual(['AF_INET AF_INET6 AF_UNIX']);
    expect(settings.get('Service.SystemCallFilter')?.[0]).toContain('@system-service');
  });
});

describe('the config file', () => {
  test.each<[string, (text: string) => string]>([
    ['as it is', (text) => text],
    ['with every line that is commented out', uncommented],
  ])('%s, is understood, on loopback alone and with backups', async (_how, edited) => {
    const file = join(await temporaryFolder(), 'relay.toml');
    await writeFile(file, edited(deployFile('relay.toml')));
    const { code, stdout, stderr } = await runHere(['relay', 'serve', '--config', file, '--print-config']);
    expect([code, stderr]).toEqual([0, '']);
    expect(parseToml(stdout)).toMatchObject({
      listen: '127.0.0.1:8787',
      admin_listen: '127.0.0.1:8788',
      backup_dir: '/var/lib/poste-backups',
    });
  });
});

describe('the Dockerfile', () => {
  const steps = dockerSteps(deployFile('Dockerfile'));
  const argumentsOf = (wanted: string): string[] =>
    steps.filter(({ instruction }) => instruction === wanted).map(({ argument }) => argument);

  test('copies what there is, and .dockerignore lets it through', () => {
    const ignored = readFileSync(repositoryPath('.dockerignore'), 'utf8').split('\n');
    const copied = argumentsOf('COPY')
      .filter((argument) => !argument.includes('--from='))
      .flatMap((argument) => argument.split(' ').slice(0, -1));
    expect(copied.length).toBeGreaterThan(5);
    expect(copied.filter((path) => !existsSync(repositoryPath(path)))).toEqual([]);
    expect(copied.filter((path) => !ignored.includes(`!${path}`))).toEqual([]);
    expect(ignored).toContain('*');
  });

  test('copies every settings file that the build reads', () => {
    const scripts = readdirSync(repositoryPath('scripts')).filter((name) => /^build-.*\.ts$/.test(name));
    const read = scripts.flatMap((name) =>
      Array.from(readFileSync(repositoryPath(`scripts/${name}`), 'utf8').matchAll(/tsconfig[a-z.]*\.json/g), String),
    );
    expect(read).not.toEqual([]);
    const copied = new Set(argumentsOf('COPY').flatMap((argument) => argument.split(' ')));
    expect(read.filter((name) => !copied.has(name))).toEqual([]);
  });

  test('runs scripts that package.json has', () => {
    const { scripts } = JSON.parse(readFileSync(repositoryPath('package.json'), 'utf8')) as { scripts: object };
    const run = [
      ...argumentsOf('RUN')
        .join('\n')
        .matchAll(/npm run (?<name>[a-z:-]+)/g),
    ];
    expect(run.length).toBeGreaterThan(0);
    for (const { groups } of run) expect(Object.keys(scripts)).toContain(groups?.['name']);
  });

  test('serves with flags that there are, and shows the operator listener to nobody outside', () => {
    const command = JSON.parse(argumentsOf('CMD').at(-1) ?? '') as string[];
    expect(command.slice(0, 2)).toEqual(['relay', 'serve']);
    expect(command.filter((word) => word.startsWith('--') && !SERVE_FLAGS.has(word))).toEqual([]);
    expect(command[command.indexOf('--admin-listen') + 1]).toBe('127.0.0.1:8788');
    expect(argumentsOf('EXPOSE')).toEqual(['8787']);
    expect(argumentsOf('VOLUME')).toEqual([command[command.indexOf('--store-dir') + 1]]);
    expect(argumentsOf('ENV').at(-1)).toBe('STATE_DIRECTORY=/var/lib/poste-position');
    expect(argumentsOf('USER').at(-1)).toMatch(/^[1-9][0-9]*:[1-9][0-9]*$/);
  });

  test.each([
    [200, 0],
    [503, 1],
    [undefined, 1],
  ])('its health check of an answer %s exits with %s', async (status, code) => {
    const server = createServer((_request, response) => response.writeHead(status ?? 500).end());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const closed = (): Promise<void> => new Promise((done) => void server.close(() => done()));
    if (status === undefined) await closed();
    else onTestFinished(closed);
    const [, check = ''] = /CMD (?<command>\[.*\])$/.exec(argumentsOf('HEALTHCHECK')[0] ?? '') ?? [];
    const [program, ...args] = JSON.parse(check.replace('127.0.0.1:8788', `127.0.0.1:${port}`)) as string[];
    expect(program).toBe('node');
    const child = spawn(process.execPath, args, { stdio: 'ignore' });
    onTestFinished(() => void child.kill('SIGKILL'));
    expect(await once(child, 'exit')).toEqual([code, null]);
  });
});

describe('the proxies', () => {
  const nginx = deployFile('nginx.conf');
  const caddy = deployFile('Caddyfile');
  const nginxSetting = (name: string): string =>
    new RegExp(`^\\s*${name} (?<value>.*);$`, 'm').exec(nginx)?.groups?.['value'] ?? '';

  test('let as large a body through as the relay takes', () => {
    expect(nginxSetting('client_max_body_size')).toBe(`${BODY_BYTES_MAX / 1_048_576}m`);
    expect(caddy).toContain(`"${BODY_BYTES_MAX}"`);
    expect(caddy).toContain(`> ${String(BODY_BYTES_MAX).length} ||`);
  });

  test('Caddy refuses a larger one with a text, and keeps the connection: an empty answer is lost over HTTP/2', () => {
    expect(caddy).toMatch(/^\t+respond @tooLarge "[^"]+" 413$/m);
    expect(caddy).not.toMatch(/^\t+close$/m);
  });

  test('nginx speaks HTTP/1.1, waits longer than a long poll, and sends the path as it came', () => {
    expect(nginxSetting('proxy_http_version')).toBe('1.1');
    expect(Number.parseInt(nginxSetting('proxy_read_timeout'), 10)).toBeGreaterThan(WAIT_SECONDS_MAX);
    expect(nginxSetting('proxy_pass')).toMatch(/^http:\/\/[a-z_]+$/);
    expect(nginxSetting('proxy_set_header X-Forwarded-For')).toBe('$remote_addr');
  });

  test('drop idle connections well before the relay does, as the guide says that every proxy must', () => {
    const nginxS = Number(/^(?<count>[0-9]+)s$/.exec(nginxSetting('keepalive_timeout'))?.groups?.['count']);
    const caddyS = Number(/^\s+keepalive (?<count>[0-9]+)s$/m.exec(caddy)?.groups?.['count']);
    const guideS = Number(/drop idle connections to the relay before (?<count>[0-9]+) s/.exec(operatorsGuide())?.[1]);
    for (const seconds of [nginxS, caddyS, guideS]) expect(seconds * 1000).toBeLessThanOrEqual(IDLE_TIMEOUT_MS - 2_000);
  });

  test('pass every public route on, and nothing of the operator', () => {
    const location = new RegExp(/location ~ (?<pattern>\S+)/.exec(nginx)?.groups?.['pattern'] ?? '$^');
    expect(['/v1/relay/enrol', '/v2/relay/items'].every((path) => location.test(path))).toBe(true);
    expect(['/metrics', '/console', '/v1/hosts', '/x/v1/relay/enrol'].some((path) => location.test(path))).toBe(false);
    expect(caddy).toContain('path /v1/relay/* /v2/relay/*');
  });
});

describe('alerts and dashboard', () => {
  test('name only metrics that the relay exports, or Prometheus itself', async () => {
    const exported = await exportedMetrics();
    const expressions = [...rules.map(({ expr }) => expr), ...panelExpressions()];
    expect(expressions.filter((expression) => metricsOf(expression).length === 0)).toEqual([]);
    expect(expressions.flatMap(metricsOf).filter((name) => !exported.has(name))).toEqual([]);
  });

  test('select codes and reasons that exist', () => {
    const codes = new Set<string>([...Object.keys(PROBLEMS), ...ITEM_REJECTIONS]);
    for (const { expr } of rules) {
      for (const { groups } of expr.matchAll(/refused_total\{code=~?"(?<codes>[^"]+)"/g)) {
        for (const code of groups?.['codes']?.split('|') ?? []) expect(codes).toContain(code);
      }
    }
  });

  test('select and group by labels that the metrics have, and routes that there are', async () => {
    const labels = await exportedLabels();
    const ofEvery = ['instance', 'job'];
    const unknown: string[] = [];
    for (const expression of [...rules.map(({ expr }) => expr), ...panelExpressions()]) {
      const grouped = [...expression.matchAll(/\bby \((?<names>[^)]*)\)/g)].flatMap(
        ({ groups }) => groups?.['names']?.split(', ') ?? [],
      );
      const ofThese = metricsOf(expression).flatMap((name) => Array.from(labels.get(name) ?? []));
      const known = new Set([...ofEvery, ...ofThese]);
      unknown.push(...grouped.filter((label) => !known.has(label)));
      for (const { groups } of expression.matchAll(/(?<metric>[a-z0-9_]+)\{(?<selectors>[^}]*)\}/g)) {
        const own = new Set([...ofEvery, ...(labels.get(groups?.['metric'] ?? '') ?? [])]);
        const selected = [...(groups?.['selectors'] ?? '').matchAll(/(?<label>[a-z]+)(?:=~?|!=|!~)"/g)];
        unknown.push(...selected.map((one) => one.groups?.['label'] ?? '').filter((label) => !own.has(label)));
      }
      for (const { groups } of expression.matchAll(/route="(?<path>[^"]*)"/g)) {
        if (!OPERATIONS.some(({ path }) => path === groups?.['path'])) unknown.push(groups?.['path'] ?? '');
      }
    }
    expect(unknown).toEqual([]);
    const named = rules.flatMap(({ expr, annotations: { summary } }) =>
      [...summary.matchAll(/\$labels\.(?<label>[a-z]+)/g)]
        .map(({ groups }) => groups?.['label'] ?? '')
        .filter((label) => !ofEvery.includes(label) && !metricsOf(expr).some((name) => labels.get(name)?.has(label))),
    );
    expect(named).toEqual([]);
  });

  test('every alert has a severity, a summary and a name of its own', () => {
    expect(rules.length).toBeGreaterThan(10);
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
    for (const { alert, labels, annotations } of rules) {
      expect(alert).toMatch(/^PosteRelay[A-Za-z]+$/);
      expect(['critical', 'warning', 'info']).toContain(labels.severity);
      expect(annotations.summary).toContain('{{ $labels.instance }}');
    }
  });

  test('mail that is about to expire is told of before the default retention ends', () => {
    const rule = rules.find(({ alert }) => alert === 'PosteRelayMailAboutToExpire');
    const days = Number(/> (?<days>[0-9]+) \* 86400/.exec(rule?.expr ?? '')?.groups?.['days']);
    expect(days).toBeLessThan(DEFAULT_LIMITS.retention_days);
  });

  test('panels say what they show and do not cover each other', () => {
    const panels = dashboard.panels.filter(({ type }) => type !== 'row');
    expect(panels.filter(({ description = '' }) => !description.endsWith('.'))).toEqual([]);
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
  });
});

describe("the operator's guide", () => {
  const guide = operatorsGuide();

  test('says what every alert means, and of no other', () => {
    const told = [...guide.matchAll(/^\| <a id="[a-z]+"><\/a>`(?<alert>PosteRelay[A-Za-z]+)`/gm)];
    expect(told.map((match) => match.groups?.['alert'])).toEqual(rules.map(({ alert }) => alert));
  });

  test('has the anchor that the runbook_url of each alert leads to, at the row of that alert', () => {
    const { repository } = JSON.parse(readFileSync(repositoryPath('package.json'), 'utf8')) as {
      repository: { url: string };
    };
    const page = `${repository.url.replace(/^git\+|\.git$/g, '')}/blob/main/docs/operating.md`;
    for (const { alert, annotations } of rules) {
      const [address, anchor] = annotations.runbook_url.split('#');
      expect(address).toBe(page);
      expect(guide.split('\n').filter((line) => line.includes(`<a id="${anchor}"></a>`))).toEqual([
        expect.stringContaining(`</a>\`${alert}\` |`),
      ]);
    }
  });

  test('lists every metric of the relay, and no other', async () => {
    const listed = [...guide.matchAll(/^\| `(?<metric>poste_relay_[a-z_]+)/gm)].map(
      (match) => match.groups?.['metric'],
    );
    const own = [...(await exportedMetrics())].filter((name) => name.startsWith('poste_relay_'));
    const families = own.filter((name) => !/_(?:bucket|sum|count)$/.test(name));
    expect(listed).toHaveLength(families.length);
    expect(new Set(listed)).toEqual(new Set(families));
  });

  test('explains messages as the relay says them', () => {
    const rows = guide.slice(guide.indexOf('| message begins')).match(/^\| `.*?` \|/gm) ?? [];
    const fragments = [...rows.join('\n').matchAll(/`(?<words>[^`]+)`/g)].flatMap(
      ({ groups }) => groups?.['words']?.split('…').map((part) => part.trim()) ?? [],
    );
    expect(fragments.length).toBeGreaterThan(15);
    const said = sources();
    // A sentence may be made of a clause, whose first letter becomes a capital.
    const isSaid = (words: string): boolean =>
      said.includes(words) || said.includes(words.slice(0, 1).toLowerCase() + words.slice(1));
    expect(fragments.filter((words) => !isSaid(words))).toEqual([]);
  });

  test('leads a new operator from the installation to the alerts, in this order', () => {
    const titles = [...guide.matchAll(/^## (?<title>.*)$/gm)].map(({ groups }) => groups?.['title']);
    const way = ['In five minutes', 'Settings', 'Proxy and TLS', 'Who may enrol', 'Is everything well?', 'Keys'];
    expect(titles.slice(0, 8)).toEqual([...way, 'Backup and restore', 'What to watch']);
  });

  test('installs the unit, the config file that it names and the key that it hands over', () => {
    const unit = deployFile('poste-relay.service');
    for (const path of ['/etc/poste/relay.toml', '/etc/poste/relay.key']) {
      expect(unit).toContain(path);
      expect(guide).toMatch(new RegExp(`^install -o root -g poste -m 0640 .* ${path}$`, 'm'));
    }
    expect(guide).toMatch(/^install .* scripts\/deploy\/relay\.toml /m);
    expect(guide).toMatch(/^cp scripts\/deploy\/poste-relay\.service /m);
  });

  test('names variables that there are', () => {
    for (const [name] of guide.matchAll(/\b(?:MAIL_RELAY|RELAY_)[A-Z_]+\b/g)) expect(ENVIRONMENT).toContain(name);
  });
});

/** A config file with the settings that it shows as comments. */
function uncommented(text: string): string {
  return text.replaceAll(/^# (?=[a-z_]+ = )/gm, '');
}

/** Long flags on a command line. */
function flagsOf(line: string): string[] {
  return line.split(' ').filter((word) => word.startsWith('--'));
}

/** Every source of the relay and the command line, as text. */
function sources(): string {
  const folders = ['src/relay', 'src/cli'].map(repositoryPath);
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(folder, name)),
  );
  return files.map((file) => readFileSync(file, 'utf8')).join('\n');
}

function panelExpressions(): string[] {
  return dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}

/** Returns the labels of every series that has some, when each metric was counted once. */
async function exportedLabels(): Promise<Map<string, Set<string>>> {
  const metrics = new RelayMetrics('0', { sharesLog: true });
  metrics.unread('unknown target', 1);
  metrics.finished({ id: '', method: 'GET', route: '/', status: 429, code: 'RATE_LIMITED', durationMs: 1 });
  const event = { type: 'EpochRotated', epoch: FIRST_EPOCH, reason: 'reset', atMs: 0 } as const;
  metrics.committed({ entries: [{ lsn: 1, event }], changes: [], payloads: [], durationMs: 1 });
  const { body } = await metrics.reply(NOTHING_YET);
  const labels = new Map<string, Set<string>>();
  for (const { groups } of String(body).matchAll(/^(?<name>[a-z0-9_]+)\{(?<pairs>.*)\} /gm)) {
    const names = [...(groups?.['pairs'] ?? '').matchAll(/(?<label>[a-z]+)="/g)].map(
      (one) => one.groups?.['label'] ?? '',
    );
    labels.set(groups?.['name'] ?? '', new Set(names));
  }
  return labels;
}

/** As Prometheus knows them: a histogram also with its three series. `up` is its own. */
async function exportedMetrics(): Promise<Set<string>> {
  const { body } = await new RelayMetrics('0', { sharesLog: true }).reply(NOTHING_YET);
  const names = new Set(['up']);
  for (const { groups } of String(body).matchAll(/^# TYPE (?<name>\S+) (?<type>\S+)$/gm)) {
    const { name = '', type = '' } = groups ?? {};
    names.add(name);
    if (type === 'histogram') for (const part of ['bucket', 'sum', 'count']) names.add(`${name}_${part}`);
  }
  return names;
}
