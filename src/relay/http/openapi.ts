/**
 * The OpenAPI 3.1 document: a pure function of the table of operations. Every schema that protocol/ exports is a
 * component under its own name, so that generated clients have the names that we use.
 */
import { IsSchema, type TObject, type TSchema } from 'typebox';
import { BINARY_TYPE } from '../../protocol/message-pack.ts';
import * as parameters from '../../protocol/parameters.ts';
import * as operatorDocuments from '../../protocol/operator-documents.ts';
import { PROBLEMS, type ProblemCode } from '../../protocol/problem.ts';
import * as requests from '../../protocol/schemas.ts';
import * as responses from '../../protocol/responses.ts';
import * as shapes from '../../protocol/shapes.ts';
import type { Access, Listener, Operation } from './operation.ts';

type Json = null | boolean | number | string | Json[] | { [member: string]: Json };
type JsonObject = { [member: string]: Json };

export interface OpenApiDocument {
  openapi: '3.1.0';
  info: JsonObject;
  servers: Json[];
  tags: Json[];
  paths: JsonObject;
  components: { schemas: JsonObject; responses: JsonObject; headers: JsonObject };
}

type OperationObject = JsonObject & { operationId: string; responses: JsonObject };

interface OpenApiOptions {
  version: string;
  operations: readonly Operation[];
}

const DESCRIPTION = `An untrusted store-and-forward relay for sealed mail.

Every answer that is no success is an RFC 9457 problem document with a stable \`code\`, except where the HTTP server
itself refuses bytes that it cannot read as HTTP/1.1 (400, 431 or 505 in its own words). A path that is no operation is
answered 404, another method 405 with \`allow\`: see \`components.responses\`.

A hop is signed with the host key over the method, the path from \`/v1\` or \`/v2\` on, the time, the SHA-256 of the
body and, beside \`x-mail-key\`, the query and the key of the relay.`;

/** The problems of every operation of the relay: framing, size, and a relay that stops. */
const OF_ANY_OPERATION: readonly ProblemCode[] = ['BAD_REQUEST', 'LENGTH_REQUIRED', 'BODY_TOO_LARGE', 'UNAVAILABLE'];
const OF_ANY_HOP: readonly ProblemCode[] = ['NOT_ENROLLED', 'BAD_SIGNATURE', 'CLOCK_SKEW'];
/** The part that answers: a listener, or the console on that of the operator. */
type Answering = Listener | 'console';

/** The problems with which a request that is no operation is answered. */
const OF_NO_OPERATION: Readonly<Record<Answering, readonly ProblemCode[]>> = {
  relay: ['BAD_REQUEST', 'NOT_FOUND', 'METHOD_NOT_ALLOWED', 'UNAVAILABLE'],
  operator: ['BAD_REQUEST', 'NOT_FOUND', 'METHOD_NOT_ALLOWED'],
  console: ['BAD_REQUEST', 'NOT_FOUND', 'METHOD_NOT_ALLOWED', 'UNAVAILABLE'],
};

const HOP_PARAMETERS: Readonly<Record<Access, TObject | undefined>> = {
  open: undefined,
  'optional hop': parameters.OptionalHop,
  'hop by key': parameters.HopByKey,
  'hop by key or name': parameters.HopByKeyOrName,
  'console page': undefined,
  'console entry': undefined,
  'console read': parameters.ConsoleSession,
  'console action': parameters.ConsoleSession,
};

export function openApiDocument({ version, operations }: OpenApiOptions): OpenApiDocument {
  const components = new Components();
  const paths: Record<string, JsonObject> = {};
  const made: OperationObject[] = [];
  for (const operation of operations) {
    const { path, method, listener } = operation;
    paths[path] ??= listener === 'operator' ? { servers: [OPERATOR_SERVER] } : {};
    const object = operationObject(operation, components);
    paths[path][method.toLowerCase()] = object;
    made.push(object);
  }
  const ofNoOperation: JsonObject = {};
  for (const answering of ['relay', 'operator', 'console'] as const) {
    const asked: HeaderMembers =
      answering === 'console'
        ? { listener: 'operator', access: 'console page', successes: [] }
        : { listener: answering, successes: [], isNeverStored: answering === 'relay' };
    const answers = responseObjects(asked, OF_NO_OPERATION[answering], components);
    for (const [status, answer] of Object.entries(answers)) ofNoOperation[noOperationName(answering, status)] = answer;
  }
  const shared = shareRefusals(made);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Poste relay',
      version,
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [RELAY_SERVER],
    tags: [
      { name: 'relay', description: 'for hosts' },
      { name: 'operator', description: 'for the operator of the relay, on a listener that is never public' },
    ],
    paths,
    components: { schemas: components.usedSchemas(), responses: { ...shared, ...ofNoOperation }, headers: HEADERS },
  };
}

/**
 * Writes each refusal that several operations answer alike once: returns it under the name of the first of them, as a
 * member of `components.responses`, and puts a reference in its place.
 */
function shareRefusals(made: readonly OperationObject[]): JsonObject {
  const refusals = made.flatMap(({ operationId, responses }) =>
    Object.entries(responses)
      .filter(([status]) => status >= '400')
      .map(([status, response]) => {
        return { responses, status, response, text: JSON.stringify(response), name: `${operationId}.${status}` };
      }),
  );
  const shared: JsonObject = {};
  for (const { responses, status, response, text } of refusals) {
    const [first, second] = refusals.filter((one) => one.text === text);
    if (!first || !second) continue;
    shared[first.name] ??= response;
    responses[status] = { $ref: `#/components/responses/${first.name}` };
  }
  return shared;
}

/** The name in `components.responses` of the answer to a request that is no operation. */
export function noOperationName(answering: Answering, status: string): string {
  return `${answering}.noOperation.${status}`;
}

const RELAY_SERVER = {
  url: '{relay_url}',
  description: 'where hosts connect; a path prefix is allowed',
  variables: { relay_url: { default: 'http://127.0.0.1:8787' } },
};
const OPERATOR_SERVER = { url: '/', description: 'the listener of the operator, where this document is' };

/** The headers of answers, besides those that HTTP itself needs. */
const HEADERS = {
  'x-request-id': {
    required: true,
    description: 'by which the operator finds the request in the log',
    schema: { type: 'string', pattern: '^[0-9a-f]{16}$' },
  },
  'retry-after': { required: true, description: 'seconds', schema: { type: 'integer', minimum: 1 } },
  allow: {
    required: true,
    description: 'the methods that the path takes',
    schema: { type: 'string', pattern: '^[A-Z]+(?:, [A-Z]+)*$' },
  },
  vary: {
    required: true,
    description: 'the request header by which there are two forms',
    schema: { type: 'string', pattern: '^accept$' },
  },
  location: { required: true, description: 'where it is', schema: { type: 'string' } },
  'set-cookie': { required: false, description: 'the session', schema: { type: 'string' } },
  'cache-control': { required: false, description: 'no-store, but for the named files', schema: { type: 'string' } },
  'content-security-policy': { required: false, description: 'nothing from elsewhere', schema: { type: 'string' } },
  'cross-origin-opener-policy': { required: false, description: 'same-origin', schema: { type: 'string' } },
  'cross-origin-resource-policy': { required: false, description: 'same-origin', schema: { type: 'string' } },
  'referrer-policy': { required: false, description: 'no-referrer', schema: { type: 'string' } },
  'x-content-type-options': { required: false, description: 'nosniff', schema: { type: 'string' } },
  'x-frame-options': { required: false, description: 'DENY', schema: { type: 'string' } },
};

/** The headers that keep the page of the console to itself; a refusal of a framing has none of them. */
const SAFETY_HEADERS = [
  'cache-control',
  'content-security-policy',
  'cross-origin-opener-policy',
  'cross-origin-resource-policy',
  'referrer-policy',
  'x-content-type-options',
  'x-frame-options',
] as const;

function operationObject(operation: Operation, components: Components): OperationObject {
  const { id, listener, access, summary, query, headers, request, problems } = operation;
  const hop = HOP_PARAMETERS[access];
  const all = [
    ...(query ? parameterObjects('query', query, components) : []),
    ...(headers ? parameterObjects('header', headers, components) : []),
    ...(hop ? parameterObjects('header', hop, components) : []),
  ];
  const codes = new Set([
    ...(isHandled(operation) ? OF_ANY_OPERATION : []),
    ...(access.startsWith('hop') ? OF_ANY_HOP : []),
    ...problems,
  ]);
  return {
    operationId: id,
    tags: [listener],
    summary,
    ...(all.length > 0 && { parameters: all }),
    ...(request && {
      requestBody: {
        required: true,
        content: {
          [request.contentType ?? 'application/json']: { schema: components.schema(request.schema) },
          ...(request.inBinary && { [BINARY_TYPE]: { schema: components.schema(request.inBinary) } }),
        },
      },
    }),
    responses: responseObjects(operation, [...codes], components),
  };
}

function parameterObjects(place: 'query' | 'header', shape: TObject, components: Components): JsonObject[] {
  const required: readonly string[] = shape.required ?? [];
  return Object.entries(shape.properties).map(([name, schema]) => ({
    name,
    in: place,
    required: required.includes(name),
    schema: components.schema(schema),
  }));
}

/** The responses by status. A problem and a success may share one: their content types differ. */
function responseObjects(operation: HeaderMembers, codes: readonly ProblemCode[], components: Components): JsonObject {
  const { successes } = operation;
  const statuses = [...successes, ...codes.map((code) => PROBLEMS[code])].map(({ status }) => status);
  const objects: JsonObject = {};
  for (const status of new Set(statuses)) {
    const ofStatus = codes.filter((code) => PROBLEMS[code].status === status);
    const contents = new Map<string, Json[]>();
    const fitting = successes.filter((one) => one.status === status);
    for (const { contentType = 'application/json', schema } of fitting) {
      if (schema) contents.set(contentType, [...(contents.get(contentType) ?? []), components.schema(schema)]);
    }
    if (ofStatus.length > 0) {
      const problems = contents.get('application/problem+json') ?? [];
      contents.set('application/problem+json', [...problems, components.problems(ofStatus)]);
    }
    const content: JsonObject = {};
    for (const [type, schemas] of contents) {
      content[type] = { schema: schemas.length === 1 ? (schemas[0] ?? {}) : { anyOf: schemas } };
    }
    const words = [...fitting.map(({ description }) => description), ...ofStatus.map((code) => PROBLEMS[code].title)];
    objects[status] = {
      description: words.join('; '),
      ...headersMember(status, operation),
      ...(Object.keys(content).length > 0 && { content }),
    };
  }
  return objects;
}

/** The members of an operation that say which headers its answers have. */
type HeaderMembers = Pick<Operation, 'listener' | 'successes' | 'isNeverStored'> & Partial<Pick<Operation, 'access'>>;

/** True when the request goes the way of handler.ts, as those of hosts do. */
function isHandled({ listener, access }: HeaderMembers): boolean {
  return listener === 'relay' || (access?.startsWith('console') ?? false);
}

function headersMember(status: number, operation: HeaderMembers): { headers?: JsonObject } {
  const names: (keyof typeof HEADERS)[] = isHandled(operation) ? ['x-request-id'] : [];
  if (operation.listener === 'operator' && isHandled(operation)) names.push(...SAFETY_HEADERS);
  if (operation.isNeverStored) names.push('cache-control');
  if (operation.access === 'console entry' || operation.access === 'console action') names.push('set-cookie');
  if (status === 308) names.push('location');
  if (operation.successes.some((one) => one.status === status && one.contentType === BINARY_TYPE)) names.push('vary');
  const isNoStream = operation.successes.every((one) => one.status !== status);
  if (status === PROBLEMS.RATE_LIMITED.status || (status === PROBLEMS.UNAVAILABLE.status && isNoStream)) {
    names.push('retry-after');
  }
  if (status === PROBLEMS.METHOD_NOT_ALLOWED.status) names.push('allow');
  if (names.length === 0) return {};
  return { headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])) };
}

/** The schemas of the document: a named one is written once and referred to. */
class Components {
  readonly #names = new Map<unknown, string>();
  readonly #used = new Map<string, Json>();

  constructor() {
    for (const exported of [shapes, parameters, requests, responses, operatorDocuments]) {
      for (const [name, value] of Object.entries(exported)) if (IsSchema(value)) this.#names.set(value, name);
    }
  }

  schema(value: TSchema): Json {
    return this.#json(value as Json);
  }

  problems(codes: readonly ProblemCode[]): Json {
    const references = codes.map((code) => {
      const name = problemName(code);
      if (!this.#used.has(name)) this.#used.set(name, this.schema(responses.problemSchema(code)));
      return reference(name);
    });
    return references.length === 1 ? (references[0] ?? {}) : { oneOf: references };
  }

  /** The schemas that are referred to, in the order of their names. */
  usedSchemas(): JsonObject {
    return Object.fromEntries([...this.#used].toSorted(([one], [other]) => (one < other ? -1 : 1)));
  }

  #json(value: Json): Json {
    if (typeof value !== 'object' || value === null) return value;
    const name = this.#names.get(value);
    if (name === undefined) return this.#members(value);
    if (!this.#used.has(name)) this.#used.set(name, this.#members(value));
    return reference(name);
  }

  #members(value: Json[] | JsonObject): Json {
    if (Array.isArray(value)) return value.map((element) => this.#json(element));
    return Object.fromEntries(Object.entries(value).map(([member, inner]) => [member, this.#json(inner)]));
  }
}

function reference(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

/** `BAD_ACK` is `BadAckProblem`. */
function problemName(code: ProblemCode): string {
  const words = code.split('_').map((word) => word.charAt(0) + word.slice(1).toLowerCase());
  return `${words.join('')}Problem`;
}
