/**
 * What the forge reads in .github fits its schemas as far as it is used here, and the sources: scripts, paths and
 * versions of Node. The schemas are of this test, as it loads nothing: they have the members that GitHub documents and
 * refuse any other.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import Type, { type Static, type TProperties, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { deployFile, dockerSteps } from '../support/deploy-files.ts';
import { docPage, readText } from '../support/doc-pages.ts';

const ROOT = join(import.meta.dirname, '../..');
const WORKFLOWS = '.github/workflows';
const FORMS = '.github/ISSUE_TEMPLATE';

const closed = <P extends TProperties>(properties: P) => Type.Object(properties, { additionalProperties: false });
const Text = Type.String({ minLength: 1 });
const Name = Type.String({ pattern: '^[a-zA-Z_][a-zA-Z0-9_-]*$' });
const Minutes = Type.Integer({ minimum: 1, maximum: 360 });
const Values = Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]));
const Right = Type.Union([Type.Literal('read'), Type.Literal('write'), Type.Literal('none')]);
const Permissions = closed({
  attestations: Type.Optional(Right),
  contents: Type.Optional(Right),
  'id-token': Type.Optional(Type.Union([Type.Literal('write'), Type.Literal('none')])),
  packages: Type.Optional(Right),
});
/** A commit of the action: 40 hexadecimal digits. A comment behind it says the release. */
const PinnedAction = Type.String({ pattern: '^[a-z0-9-]+/[a-z0-9-]+@[0-9a-f]{40}$' });

const stepMembers = { id: Type.Optional(Name), name: Type.Optional(Text), env: Type.Optional(Values) };
const Step = Type.Union([
  closed({ ...stepMembers, run: Text }),
  closed({ ...stepMembers, uses: PinnedAction, with: Type.Optional(Values) }),
]);
const jobMembers = {
  name: Type.Optional(Text),
  needs: Type.Optional(Type.Union([Name, Type.Array(Name, { minItems: 1 })])),
  permissions: Type.Optional(Permissions),
};
const Job = closed({
  ...jobMembers,
  'runs-on': Type.Union([Type.Literal('ubuntu-24.04'), Type.Literal('macos-15')]),
  'timeout-minutes': Minutes,
  environment: Type.Optional(Text),
  container: Type.Optional(closed({ image: Text, options: Type.Optional(Text) })),
  strategy: Type.Optional(
    closed({ 'fail-fast': Type.Boolean(), matrix: closed({ node: Type.Array(Type.Integer(), { minItems: 1 }) }) }),
  ),
  env: Type.Optional(Values),
  steps: Type.Array(Step, { minItems: 1 }),
});
const CallOfWorkflow = closed({
  ...jobMembers,
  uses: Type.String({ pattern: '^\\./\\.github/workflows/[a-z]+\\.yml$' }),
});
const Workflow = closed({
  name: Text,
  on: closed({
    push: Type.Union([
      closed({ branches: Type.Array(Text, { minItems: 1 }) }),
      closed({ tags: Type.Array(Text, { minItems: 1 }) }),
    ]),
    pull_request: Type.Optional(Type.Null()),
    workflow_call: Type.Optional(Type.Null()),
  }),
  permissions: Permissions,
  concurrency: closed({ group: Text, 'cancel-in-progress': Type.Union([Type.Boolean(), Text]) }),
  jobs: Type.Record(Name, Type.Union([Job, CallOfWorkflow])),
});

const Id = Type.String({ pattern: '^[a-zA-Z0-9_-]+$' });
const described = { label: Text, description: Type.Optional(Text) };
const required = Type.Optional(closed({ required: Type.Boolean() }));
const written = { ...described, placeholder: Type.Optional(Text), value: Type.Optional(Text) };
const question = <T extends string, P extends TProperties>(type: T, attributes: P) =>
  closed({ type: Type.Literal(type), id: Id, attributes: closed(attributes), validations: required });
const Form = closed({
  name: Text,
  description: Text,
  labels: Type.Array(Text, { uniqueItems: true }),
  title: Type.Optional(Text),
  body: Type.Array(
    Type.Union([
      closed({ type: Type.Literal('markdown'), attributes: closed({ value: Text }) }),
      question('input', written),
      question('textarea', { ...written, render: Type.Optional(Text) }),
      question('dropdown', { ...described, options: Type.Array(Text, { minItems: 1, uniqueItems: true }) }),
      question('checkboxes', {
        ...described,
        options: Type.Array(closed({ label: Text, required: Type.Optional(Type.Boolean()) }), { minItems: 1 }),
      }),
    ]),
    { minItems: 1 },
  ),
});
const Chooser = closed({
  blank_issues_enabled: Type.Boolean(),
  contact_links: Type.Array(closed({ name: Text, url: Type.String({ pattern: '^https://' }), about: Text })),
});
const Updates = closed({
  version: Type.Literal(2),
  updates: Type.Array(
    closed({
      'package-ecosystem': Type.Union([Type.Literal('github-actions'), Type.Literal('docker')]),
      directory: Type.String({ pattern: '^/' }),
      schedule: closed({ interval: Type.Union([Type.Literal('weekly'), Type.Literal('monthly')]) }),
    }),
  ),
});

/** What a document has that its schema does not know, or lacks: nothing. */
function faultsOf(schema: TSchema, document: unknown): string[] {
  return Compile(schema)
    .Errors(document)
    .map(({ instancePath, message }) => `${instancePath}: ${message}`);
}

const namesOf = (folder: string): string[] => readdirSync(join(ROOT, folder)).toSorted();

interface Written {
  path: string;
  text: string;
  workflow: Static<typeof Workflow>;
}

const workflows = namesOf(WORKFLOWS).map((name): Written => {
  const path = `${WORKFLOWS}/${name}`;
  const text = readText(path);
  return { path, text, workflow: parse(text) as Static<typeof Workflow> };
});
const jobs = workflows.flatMap(({ path, workflow }) =>
  Object.entries(workflow.jobs).map(([name, job]) => ({ place: `${path}: ${name}`, job, beside: workflow.jobs })),
);
const runs = jobs.flatMap(({ job }) =>
  'steps' in job ? job.steps.flatMap((step) => ('run' in step ? step.run : [])) : [],
);
const { scripts, engines } = JSON.parse(readText('package.json')) as {
  scripts: Record<string, string>;
  engines: { node: string };
};

describe('the workflows', () => {
  test.each(workflows)('$path fits the schema', ({ workflow }) => {
    expect(faultsOf(Workflow, workflow)).toEqual([]);
  });

  test('would be found wrong: a member that there is none of, a tag as a pin, a job without a limit', () => {
    const [{ text }] = workflows as [Written];
    const wrong = [
      text.replace('steps:', 'step:'),
      text.replace(/@[0-9a-f]{40} # (v\d)\S*/, '@$1'),
      text.replace(/ +timeout-minutes: \d+\n/, ''),
      text.replace('contents: read', 'contents: reads'),
    ];
    for (const each of wrong) expect(faultsOf(Workflow, parse(each))).not.toEqual([]);
  });

  test('name beside each pinned commit the release that it is, the same one everywhere', () => {
    const pins = workflows.flatMap(({ text }) => [...text.matchAll(/uses: (?<action>[^.@\s]+)@(?<pin>.+)$/gm)]);
    const releases = new Map(pins.map(({ groups }) => [groups?.['action'], groups?.['pin']]));
    expect(pins.filter(({ groups }) => releases.get(groups?.['action']) !== groups?.['pin'])).toEqual([]);
    for (const pin of releases.values()) expect(pin).toMatch(/^[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  test('may write only where a job says so, in the environment that a maintainer approves', () => {
    expect(workflows.filter(({ workflow }) => Object.values(workflow.permissions).includes('write'))).toEqual([]);
    const writes = jobs.filter(
      ({ job }) => job.permissions?.contents === 'write' || job.permissions?.packages === 'write',
    );
    expect(writes.length).toBeGreaterThan(1);
    expect(writes.filter(({ job }) => !('environment' in job))).toEqual([]);
    const published = jobs.filter(({ job }) => JSON.stringify(job).includes('npm publish'));
    expect(published.map(({ job }) => [job.permissions, 'environment' in job])).toEqual([
      [{ 'id-token': 'write' }, true],
    ]);
  });

  test('wait for jobs that there are, and put nothing that a stranger wrote into a command', () => {
    const missing = jobs.flatMap(({ job, beside }) => [job.needs ?? []].flat().filter((name) => !(name in beside)));
    expect(missing).toEqual([]);
    expect(runs.filter((run) => run.includes('${{'))).toEqual([]);
  });

  test('run scripts of package.json, parts of .ci/run and files that there are', () => {
    const words = runs.flatMap((run) => run.split(/\s+/));
    const asked = runs.flatMap((run) => [...run.matchAll(/npm run (?:--\S+ )*(?<name>[\w:-]+)/g)]);
    expect(asked.map(({ groups }) => groups?.['name'] ?? '').filter((name) => !(name in scripts))).toEqual([]);
    const paths = words.filter((word) => /^(?:\.ci|scripts|test|src)\//.test(word));
    expect(paths.length).toBeGreaterThan(4);
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
    const parts = runs.flatMap((run) => /^bash \.ci\/run (?<part>\w+)$/.exec(run)?.groups?.['part'] ?? []);
    const known = /case "\$part" in (?<parts>.+?)\)/.exec(readText('.ci/run'))?.groups?.['parts']?.split(' | ') ?? [];
    expect(parts.toSorted()).toEqual(known.filter((part) => part !== 'all').toSorted());
  });
});

describe('versions of Node', () => {
  const readme = /Node (?<first>\d+) or (?<second>\d+) \((?<least>[\d.]+) or newer works too\)/.exec(
    readText('README.md'),
  );
  const { first = '', second = '', least = '' } = readme?.groups ?? {};
  const named = [Number.parseInt(least), Number(first), Number(second)];

  test('are those of the README in package.json, in the scripts and in the image', () => {
    expect(engines.node).toBe(`>=${least}.0`);
    const tried = Object.keys(scripts).flatMap(
      (name) => /^test:node(?<major>\d+)$/.exec(name)?.groups?.['major'] ?? [],
    );
    expect(tried).toEqual([first, second]);
    for (const major of tried) expect(scripts[`test:node${major}`]).toContain(` node@${major} `);
    const images = dockerSteps(deployFile('Dockerfile')).filter(({ instruction }) => instruction === 'FROM');
    for (const { argument } of images)
      expect(named).toContain(Number(/^node:(?<major>\d+)/.exec(argument)?.groups?.['major']));
  });

  test('are those of the README in the workflows', () => {
    const matrices = jobs.flatMap(({ job }) => ('strategy' in job ? [job.strategy?.matrix.node] : []));
    expect(matrices).toEqual([named]);
    const alone = workflows.flatMap(({ text }) => text.match(/(?<=node-version: |image: node:)\d+/g) ?? []);
    expect(alone.length).toBeGreaterThan(2);
    for (const major of alone) expect(named.slice(1)).toContain(Number(major));
  });
});

describe('the templates', () => {
  const forms = namesOf(FORMS).filter((name) => name !== 'config.yml');

  test.each(forms)('%s fits the schema, and no id is there twice', (name) => {
    const form = parse(readText(`${FORMS}/${name}`)) as Static<typeof Form>;
    expect(faultsOf(Form, form)).toEqual([]);
    const ids = form.body.flatMap((element) => ('id' in element ? element.id : []));
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('would be found wrong: a kind of question that there is none of, one without a label', () => {
    const text = readText(`${FORMS}/fault.yml`);
    for (const wrong of [text.replace('type: input', 'type: line'), text.replace('label: Versions', 'title: Versions')])
      expect(faultsOf(Form, parse(wrong))).not.toEqual([]);
  });

  test('the chooser fits the schema, and its links lead to this repository', () => {
    const chooser = parse(readText(`${FORMS}/config.yml`)) as Static<typeof Chooser>;
    expect(faultsOf(Chooser, chooser)).toEqual([]);
    const { homepage } = JSON.parse(readText('package.json')) as { homepage: string };
    const [repository = ''] = homepage.split('#');
    const anchors = docPage('README.md').headings.map(({ anchor }) => `${repository}#${anchor}`);
    const known = new Set([...anchors, `${repository}/security/advisories/new`]);
    expect(chooser.contact_links.map(({ url }) => url).filter((url) => !known.has(url))).toEqual([]);
  });

  test('what watches the pins fits the schema, and its folders are there', () => {
    const updates = parse(readText('.github/dependabot.yml')) as Static<typeof Updates>;
    expect(faultsOf(Updates, updates)).toEqual([]);
    expect(updates.updates.filter(({ directory }) => !existsSync(join(ROOT, directory)))).toEqual([]);
  });
});

test('the first change of CONTRIBUTING breaks a line that is there, in a file whose test is there', () => {
  const change = /perl -pi -e 's\/(?<line>.+)\/.+\/' (?<path>\S+)$/m.exec(readText('CONTRIBUTING.md'))?.groups;
  const { line = '', path = '' } = change ?? {};
  expect(readText(path).split(line)).toHaveLength(2);
  expect(existsSync(join(ROOT, path.replace('src/', 'test/unit/').replace('.ts', '.test.ts')))).toBe(true);
});
