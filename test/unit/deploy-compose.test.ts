/** The compose file of scripts/deploy and what it mounts fit each other, the relay, and the image that is built. */
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parse as parseToml } from 'smol-toml';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { runHere } from '../support/command-run.ts';
import { deployFile, dockerSteps, repositoryPath } from '../support/deploy-files.ts';

interface Service {
  image?: string;
  build?: { context: string; dockerfile: string };
  command?: string[];
  healthcheck?: { test: string[] };
  ports?: string[];
  networks: string[];
  volumes: string[];
  depends_on?: Record<string, { condition: string }>;
  [setting: string]: unknown;
}

interface Compose {
  services: Record<string, Service>;
  networks: Record<string, { internal?: boolean }>;
  volumes: Record<string, object>;
}

const FOLDER = repositoryPath('scripts/deploy');
const { services, networks, volumes } = parse(deployFile('compose.yml')) as Compose;
const steps = dockerSteps(deployFile('Dockerfile'));

function service(name: string): Service {
  const found = services[name];
  if (!found) throw new Error(`no service ${name}`);
  return found;
}

/** Each mount of a service: what is mounted, where, and whether it may be written to. */
function mountsOf({ volumes: mounts }: Service): { source: string; target: string; isFile: boolean; mode: string }[] {
  return mounts.map((mount) => {
    const [source = '', target = '', mode = 'rw'] = mount.split(':');
    return { source, target, isFile: source.startsWith('.'), mode };
  });
}

/** The file of scripts/deploy that a service sees at that path. */
function mountedAt(name: string, path: string): string {
  const mount = mountsOf(service(name)).find(({ target }) => target === path);
  expect(mount?.isFile).toBe(true);
  return deployFile(mount?.source ?? '');
}

test('every file of scripts/deploy can be read as what its name says', () => {
  const read: Readonly<Record<string, (text: string) => unknown>> = {
    yml: (text) => parse(text, { strict: true, uniqueKeys: true }) as unknown,
    json: (text) => JSON.parse(text) as unknown,
    toml: (text) => parseToml(text),
  };
  const files = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter((name) =>
    statSync(join(FOLDER, name)).isFile(),
  );
  const structured = files.filter((name) => Object.hasOwn(read, name.split('.').at(-1) ?? ''));
  expect(structured.length).toBeGreaterThanOrEqual(8);
  for (const name of structured)
    expect(read[name.split('.').at(-1) ?? '']?.(readFileSync(join(FOLDER, name), 'utf8'))).toBeTypeOf('object');
});

test('every image is of one version, in the compose file and in the Dockerfile', () => {
  const bases = steps.filter(({ instruction }) => instruction === 'FROM').map(({ argument }) => argument.split(' ')[0]);
  const images = Object.values(services).flatMap(({ image }) => (image === undefined ? [] : [image]));
  expect([images.length, new Set(bases).size]).toEqual([2, 1]);
  for (const image of [...images, ...bases]) expect(image).toMatch(/^[a-z/]+:v?[0-9]+\.[0-9]+\.[0-9]+(?:-[a-z-]+)?$/);
});

describe('the compose file', () => {
  test('builds the relay from what there is', () => {
    const { build } = service('relay');
    const context = join(FOLDER, build?.context ?? '');
    expect(existsSync(join(context, 'package.json'))).toBe(true);
    expect(existsSync(join(context, build?.dockerfile ?? ''))).toBe(true);
  });

  test('mounts files that there are, read-only, and volumes and networks that it declares', () => {
    const mounts = Object.values(services).flatMap(mountsOf);
    const files = mounts.filter(({ isFile }) => isFile);
    expect(files.length).toBeGreaterThan(5);
    expect(files.filter(({ mode }) => mode !== 'ro')).toEqual([]);
    expect(files.filter(({ source }) => !statSync(join(FOLDER, source), { throwIfNoEntry: false })?.isFile())).toEqual(
      [],
    );
    const used = {
      volumes: new Set(mounts.filter(({ isFile }) => !isFile).map(({ source }) => source)),
      networks: new Set(Object.values(services).flatMap((one) => one.networks)),
    };
    expect([...used.volumes].toSorted()).toEqual(Object.keys(volumes).toSorted());
    expect([...used.networks].toSorted()).toEqual(Object.keys(networks).toSorted());
  });

  test('publishes on loopback alone, and lets nobody but the operator into the network of the metrics', () => {
    const published = Object.values(services).flatMap(({ ports = [] }) => ports);
    expect(published.filter((port) => !/^127\.0\.0\.1:(?<port>[0-9]+):\k<port>$/.test(port))).toEqual([]);
    expect(networks['operator']).toEqual({ internal: true });
    const inside = Object.keys(services).filter((name) => service(name).networks.includes('operator'));
    expect(inside).toEqual(['relay', 'prometheus', 'grafana']);
    expect(service('grafana').networks).not.toContain('hosts');
  });

  test('asks every service whether it is well, and starts each after the one that it needs', () => {
    const image = steps.some(({ instruction }) => instruction === 'HEALTHCHECK');
    for (const [name, { healthcheck }] of Object.entries(services))
      expect([name, healthcheck ? healthcheck.test[0] === 'CMD' : name === 'relay' && image]).toEqual([name, true]);
    expect(service('prometheus').depends_on).toEqual({ relay: { condition: 'service_healthy' } });
    expect(service('grafana').depends_on).toEqual({ prometheus: { condition: 'service_healthy' } });
  });

  test('takes away from the relay what the guide takes away, and gives it files and time', () => {
    expect(service('relay')).toMatchObject({
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges'],
      stop_grace_period: '40s',
      ulimits: { nofile: { soft: 65_536, hard: 65_536 } },
    });
  });
});

describe('what is mounted', () => {
  test('the relay understands its config, listens where published, and writes into volumes of its user', async () => {
    const { command = [], ports } = service('relay');
    const path = command[command.indexOf('--config') + 1] ?? '';
    const file = join(FOLDER, mountsOf(service('relay')).find(({ target }) => target === path)?.source ?? 'none');
    const { code, stdout, stderr } = await runHere(['relay', 'serve', '--config', file, '--print-config']);
    expect([code, stderr]).toEqual([0, '']);
    const config = parseToml(stdout) as Record<string, string>;
    const listened = [config['listen'], config['admin_listen']].map((address) => address?.split(':')[1]);
    expect(ports?.map((port) => port.split(':')[2])).toEqual(listened);
    const kept = mountsOf(service('relay')).filter(({ isFile }) => !isFile);
    const position = steps
      .findLast(({ instruction }) => instruction === 'ENV')
      ?.argument.replace('STATE_DIRECTORY=', '');
    expect(kept.map(({ target }) => target)).toEqual([config['store_dir'], position, config['backup_dir']]);
    const made = steps.map(({ argument }) => /install -d -o poste -g poste -m 0700 (?<folders>[^&]*)/.exec(argument));
    const folders = made.flatMap((found) => found?.groups?.['folders']?.trim().split(' ') ?? []);
    expect(folders).toEqual(kept.map(({ target }) => target));
  });

  test('Prometheus asks the relay where it shows its metrics, under the job of the alerts, and has the alerts', () => {
    const config = parse(mountedAt('prometheus', '/etc/prometheus/prometheus.yml')) as {
      rule_files: string[];
      scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[];
    };
    for (const file of config.rule_files) expect(mountedAt('prometheus', file)).toContain('alert: PosteRelayDown');
    const [{ job_name: job, static_configs: found } = { job_name: '', static_configs: [] }] = config.scrape_configs;
    const selected = [...deployFile('alerts.yml').matchAll(/job="(?<job>[^"]+)"/g)].map(
      ({ groups }) => groups?.['job'],
    );
    expect(new Set(selected)).toEqual(new Set([job]));
    const relay = parseToml(mountedAt('relay', '/etc/poste/relay.toml')) as Record<string, string>;
    expect(found.flatMap(({ targets }) => targets)).toEqual([`relay:${relay['admin_listen']?.split(':')[1]}`]);
  });

  test('Grafana has Prometheus as its data source, and the dashboard where it looks', () => {
    const { datasources } = parse(mountedAt('grafana', '/etc/grafana/provisioning/datasources/poste.yml')) as {
      datasources: { type: string; url: string; isDefault: boolean }[];
    };
    expect(datasources).toMatchObject([{ type: 'prometheus', url: 'http://prometheus:9090', isDefault: true }]);
    expect(service('prometheus').healthcheck?.test.at(-1)).toContain(':9090/');
    const { providers } = parse(mountedAt('grafana', '/etc/grafana/provisioning/dashboards/poste.yml')) as {
      providers: { options: { path: string } }[];
    };
    const dashboards = mountsOf(service('grafana')).filter(({ target }) => target.endsWith('.json'));
    expect(dashboards.map(({ target }) => dirname(target))).toEqual(providers.map(({ options }) => options.path));
    expect(JSON.parse(deployFile(dashboards[0]?.source ?? ''))).toMatchObject({ uid: 'poste-relay' });
  });
});
