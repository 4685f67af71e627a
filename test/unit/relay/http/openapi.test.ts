import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, test } from 'vitest';
import { type PushedItem, parsePushedItem } from '../../../../src/protocol/items.ts';
import { DEFAULT_LIMITS, SMALL_BODY_BYTES_MAX } from '../../../../src/protocol/limits.ts';
import { PROBLEMS, type ProblemCode, problemDocument } from '../../../../src/protocol/problem.ts';
import { LimitsShape, problemSchema } from '../../../../src/protocol/responses.ts';
import { WellFormedPush, parserOf } from '../../../../src/protocol/schemas.ts';
import { openApiDocument } from '../../../../src/relay/http/openapi.ts';
import { OPERATIONS } from '../../../../src/relay/serve/host-api.ts';
import { type RelayParts, routeOf } from '../../../../src/relay/http/operation.ts';
import { RELAY_OPERATIONS } from '../../../../src/relay/http/operations.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { OPENAPI_FILE, openApiText } from '../../../../scripts/make-openapi.ts';
import { envelopeWire, itemTo, receiptId } from '../../../support/mail.ts';

test('docs/openapi.json is what the relay shows now: npm run docs:openapi writes it', () => {
  expect(readFileSync(OPENAPI_FILE, 'utf8') === openApiText()).toBe(true);
});

const document = openApiDocument({ version: '1.2.3', operations: OPERATIONS });
type Members = Record<string, unknown>;

/** Says whether `specification` is OpenAPI, and of which version. */
async function validated(specification: unknown): Promise<{ valid: boolean; version: string }> {
  const validator = new Validator();
  // The validator reads a text as a file name.
  const { valid } = await validator.validate(structuredClone(specification) as Members);
  return { valid, version: validator.version };
}

/** Every value of `value` under the member `name`, at any depth. */
function membersNamed(name: string, value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  const found = Object.hasOwn(value, name) ? [(value as Members)[name]] : [];
  return found.concat(...Object.values(value).map((inner) => membersNamed(name, inner)));
}

/** Says whether a header of a hop is required, by name. */
function hopHeadersOf(path: string, method: string): Record<string, unknown> {
  const { parameters } = (document.paths[path] as Record<string, { parameters: Members[] }>)[method] ?? {};
  const headers = (parameters ?? []).filter((parameter) => parameter['in'] === 'header');
  return Object.fromEntries(headers.map(({ name, required }) => [name, required]));
}

function parsed(item: unknown): PushedItem | undefined {
  return parsePushedItem(item, { targetsMax: 64, itemBytesMax: 1000 });
}

describe('the OpenAPI document', () => {
  test('is OpenAPI 3.1', async () => {
    expect(await validated(document)).toEqual({ valid: true, version: '3.1' });
    expect(document).toMatchObject({ openapi: '3.1.0', info: { version: '1.2.3' } });
  });

  test('would not be OpenAPI with an operation that answers nothing', async () => {
    const { paths } = document;
    const mute = { ...paths, '/x': { get: { summary: 'x', responses: { 'no status': {} } } } };
    expect((await validated({ ...document, paths: mute })).valid).toBe(false);
  });

  test('holds JSON Schemas of the dialect of OpenAPI 3.1, 2020-12', () => {
    const ajv = new Ajv2020();
    const schemas = [...Object.values(document.components.schemas), ...membersNamed('schema', document)];
    const wrong = schemas.filter((schema) => ajv.validateSchema(schema as Members) !== true);
    expect(wrong).toEqual([]);
    expect(ajv.validateSchema({ type: 'time' })).toBe(false);
  });

  test('is plain JSON: what is served is what was built', () => {
    expect(JSON.parse(JSON.stringify(document))).toEqual(document);
  });

  test('every $ref resolves, and everything there is referred to', () => {
    const references = new Set(membersNamed('$ref', document));
    const { schemas, headers } = document.components;
    // What answers a request that is no operation stands there alone.
    const responses = Object.fromEntries(
      Object.entries(document.components.responses).filter(([name]) => !name.includes('.noOperation.')),
    );
    expect(Object.keys(responses).length).toBeGreaterThan(5);
    const there = Object.entries({ schemas, headers, responses }).flatMap(([kind, objects]) =>
      Object.keys(objects).map((name) => `#/components/${kind}/${name}`),
    );
    expect(there.length).toBeGreaterThan(40);
    expect(references).toEqual(new Set(there));
  });

  test('says everything once: names, paths and shared values', () => {
    const ids = membersNamed('operationId', document);
    expect(ids).toHaveLength(OPERATIONS.length);
    expect(new Set(ids).size).toBe(ids.length);
    expect(new Set(OPERATIONS.map(({ method, path }) => `${method} ${path}`)).size).toBe(OPERATIONS.length);
    const refusals = membersNamed('responses', document.paths).flatMap((responses) =>
      Object.entries(responses as Members).filter(
        ([status, response]) => status >= '400' && !('$ref' in (response as Members)),
      ),
    );
    expect(refusals.length).toBeGreaterThan(5);
    expect(new Set(refusals.map(([, response]) => JSON.stringify(response))).size).toBe(refusals.length);
    const keyDescriptions = membersNamed('description', document).filter((text) => text === 'milliseconds since 1970');
    expect(keyDescriptions).toHaveLength(1);
  });

  test('every problem code is one that some answer has', () => {
    const codes = membersNamed('code', document.components.schemas).map((schema) => (schema as Members)['const']);
    // A host on the LAN alone answers this one.
    const ofTheRelay = Object.keys(PROBLEMS).filter((code) => code !== 'REPLAYED_HOP');
    expect(new Set(codes)).toEqual(new Set(ofTheRelay));
  });

  test('a hop needs a key on v2, a key or a name on v1, and nothing for info', () => {
    const signed = { 'x-mail-ts': true, 'x-mail-sig': true, 'x-mail-host': false };
    expect(hopHeadersOf('/v2/relay/items', 'get')).toEqual({ ...signed, 'x-mail-key': true });
    const pushed = { ...signed, 'x-mail-key': true, 'x-mail-receipts': false };
    expect(hopHeadersOf('/v2/relay/items', 'post')).toEqual(pushed);
    expect(hopHeadersOf('/v1/relay/messages', 'get')).toEqual({ ...signed, 'x-mail-key': false });
    const none = { 'x-mail-ts': false, 'x-mail-sig': false, 'x-mail-host': false, 'x-mail-key': false };
    expect(hopHeadersOf('/v2/relay/info', 'get')).toEqual(none);
  });

  test('of fewer operations it holds those alone, and no schema that nobody refers to', async () => {
    const operations = OPERATIONS.filter(({ id }) => id === 'ack');
    const small = openApiDocument({ version: '1.2.3', operations });
    expect(Object.keys(small.paths)).toEqual(['/v2/relay/ack']);
    expect(small.components.schemas).toHaveProperty('AckRequest');
    expect(small.components.schemas).not.toHaveProperty('PushResponse');
    expect((await validated(small)).valid).toBe(true);
  });
});

describe('the route of an operation', () => {
  const parts = { bodyBytesMax: 12_345 } as RelayParts;

  test.each(RELAY_OPERATIONS)('$id has its method, path, access and largest body', (operation) => {
    const { method, path, access, hasSmallBody } = operation;
    expect(routeOf(operation, parts)).toMatchObject({
      method,
      path,
      access: access.startsWith('hop') ? 'hop' : access,
      bodyBytesMax: hasSmallBody ? SMALL_BODY_BYTES_MAX : 12_345,
    });
  });

  test.each(RELAY_OPERATIONS.filter(({ access }) => access.startsWith('hop')))(
    '$id finds callers by name in the earlier protocol alone',
    ({ path, access }) => {
      expect(access).toBe(path.startsWith('/v1/') ? 'hop by key or name' : 'hop by key');
    },
  );
});

describe('schemas beside code', () => {
  test('the limits are those of the relay', () => {
    expect(Object.keys(LimitsShape.properties)).toEqual(Object.keys(DEFAULT_LIMITS));
  });

  const added: Partial<Record<ProblemCode, Members>> = {
    BAD_ACK: { head_seq: 1 },
    CLOCK_SKEW: { now: 1 },
    EPOCH_CHANGED: { epoch: 'E' },
  };

  test.each(Object.keys(PROBLEMS) as ProblemCode[])('%s is what problemDocument makes, and no more', (code) => {
    const members = added[code] ?? {};
    const parse = parserOf(problemSchema(code));
    expect(parse(problemDocument(code, 'a detail', members))).toBeDefined();
    expect(parse(problemDocument(code, 'a detail', { ...members, more: 1 }))).toBeUndefined();
    expect(parse({ ...problemDocument(code, 'a detail', members), status: 200 })).toBeUndefined();
  });

  test.each(Object.keys(added) as ProblemCode[])('%s is none without what it adds', (code) => {
    expect(parserOf(problemSchema(code))(problemDocument(code, 'a detail'))).toBeUndefined();
  });

  test('ENROL_REFUSED may have a reason', () => {
    const parse = parserOf(problemSchema('ENROL_REFUSED'));
    expect(parse(problemDocument('ENROL_REFUSED', 'a detail', { reason: 'bad key' }))).toBeDefined();
  });

  const wellFormed = parserOf(WellFormedPush);
  const item = itemTo([alice, bob], 'm1');
  const receipt = itemTo([alice], receiptId('m1', 'agent@bob', 7), envelopeWire('m1'));
  const [target] = item.targets;

  test.each([
    ['an envelope', item],
    ['a receipt', receipt],
    ['members that nobody knows', { ...item, more: 1 }],
  ])('%s is well-formed to the schema and to the relay', (_what, good) => {
    expect(wellFormed({ items: [good] })).toBeDefined();
    expect(parsed(good)).toBeDefined();
  });

  test.each([
    ['nothing', null],
    ['a list', []],
    ['another kind', { ...item, kind: 'expired' }],
    ['no kind', { ...item, kind: undefined }],
    ['an id that is a number', { ...item, item_id: 7 }],
    ['an empty id', { ...item, item_id: '' }],
    ['a long id', { ...item, item_id: 'm'.repeat(321) }],
    ['no targets', { ...item, targets: [] }],
    ['targets that are none', { ...item, targets: {} }],
    ['a target without a key', { ...item, targets: [{ ...target, host_pubkey: undefined }] }],
    ['a target with half a key', { ...item, targets: [{ ...target, host_pubkey: alice.key.slice(0, 40) }] }],
    ['a target without bytes', { ...item, targets: [{ ...target, wire_b64: undefined }] }],
  ])('%s is malformed to the schema and to the relay', (_what, bad) => {
    expect(wellFormed({ items: [bad] })).toBeUndefined();
    expect(parsed(bad)).toBeUndefined();
  });
});
