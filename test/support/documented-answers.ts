/**
 * Holds every answer that a test receives to the OpenAPI document: its status is documented for the operation, its
 * headers and its content type are, and its body is what the schema says.
 *
 * An answer with a request id is the relay's, unless the console was asked. One without is the operator's listener's,
 * or that of the HTTP server itself, which refuses what it cannot read as HTTP/1.1 in its own words; those are listed
 * here.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { BINARY_TYPE } from '../../src/protocol/message-pack.ts';
import { signedTarget } from '../../src/protocol/hop.ts';
import { type OpenApiDocument, noOperationName, openApiDocument } from '../../src/relay/http/openapi.ts';
import type { Listener, Operation } from '../../src/relay/http/operation.ts';
import { OPERATIONS } from '../../src/relay/serve/host-api.ts';
import { valueOf } from './binary-form.ts';
import type { SentRequest } from './sent-requests.ts';

export interface Answer {
  status: number;
  /** Names in lower case. */
  headers: ReadonlyMap<string, string>;
  /** `undefined` when it is an answer to HEAD. */
  body: Buffer | undefined;
}

/** Throws when `answer` is not what the document says of `asked`; `undefined` where what was asked cannot be told. */
export function expectDocumented(asked: SentRequest | undefined, answer: Answer): void {
  const fault = faultOfAnswer(asked, answer);
  if (fault === undefined) return;
  const what = asked ? `${asked.method} ${asked.target.slice(0, 200)}` : 'something that is no plain request';
  const said = `${answer.status} ${answer.body?.toString('utf8', 0, 500) ?? ''}`;
  throw new Error(`an answer to ${what} is not in the OpenAPI document: ${fault}\n${said}`);
}

/** Returns what is not documented; `undefined` when everything is. */
export function faultOfAnswer(asked: SentRequest | undefined, answer: Answer): string | undefined {
  // Of an altered request the answer says it: the console alone sends these headers.
  const isConsole = asked ? /^\/console(?:[/?]|$)/.test(asked.target) : answer.headers.has('content-security-policy');
  const listener: Listener = answer.headers.has('x-request-id') && !isConsole ? 'relay' : 'operator';
  if (listener === 'operator' && isServersOwn(answer)) return undefined;
  const faults: string[] = [];
  for (const place of placesOf(asked, listener, answer)) {
    const fault = faultByResponse(place, asked, answer);
    if (fault === undefined) return undefined;
    faults.push(fault);
  }
  return faults[0] ?? `${answer.status} is not documented`;
}

/** Answers of the HTTP servers themselves, word for word: node:http says nothing, uWebSockets.js a little. */
const SERVERS_OWN: readonly { status: number; body: string }[] = [
  { status: 400, body: '' },
  { status: 408, body: '' },
  { status: 431, body: '' },
  { status: 400, body: '<h1>Bad Request</h1><hr><i>uWebSockets/20 Server</i>' },
  { status: 431, body: '<h1>Request Header Fields Too Large</h1><hr><i>uWebSockets/20 Server</i>' },
  {
    status: 505,
    body:
      '<h1>HTTP Version Not Supported</h1><p>This server does not support ' +
      'HTTP/1.0.</p><hr><i>uWebSockets/20 Server</i>',
  },
];

function isServersOwn({ status, headers, body }: Answer): boolean {
  if (headers.get('connection') !== 'close' || headers.has('content-type')) return false;
  const text = body?.toString('utf8');
  return SERVERS_OWN.some((own) => own.status === status && (text === undefined || own.body === text));
}

/** Headers that HTTP itself needs; every other one is documented. */
const TRANSPORT_HEADERS = new Set([
  'connection',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'transfer-encoding',
  'uwebsockets',
]);

interface ResponseObject {
  /** By name, each by a reference to `components.headers`. */
  headers?: Record<string, object>;
  content?: Record<string, object>;
}

interface HeaderObject {
  required: boolean;
  schema: { type: string };
}

/** Names of members from the root of the document down. */
type Place = readonly string[];

/** Returns where in the document an answer of this status can stand. */
function placesOf(asked: SentRequest | undefined, listener: Listener, answer: Answer): Place[] {
  const status = String(answer.status);
  const isNamed = answer.headers.has('x-request-id');
  // Of what the operator is shown the console alone names its requests.
  const ofListener = OPERATIONS.filter(
    (operation) => operation.listener === listener && operation.access.startsWith('console') <= isNamed,
  );
  const asOperation = asked ? ofListener.filter((operation) => isAskedFor(operation, asked)) : ofListener;
  const places: Place[] = asOperation.map(({ path, method }) => [
    'paths',
    path,
    method.toLowerCase(),
    'responses',
    status,
  ]);
  const isMaybeNone = asked === undefined || asOperation.length === 0 || asOperation.some((one) => one.isHostedOnly);
  if (isMaybeNone)
    places.push([
      'components',
      'responses',
      noOperationName(isNamed && listener === 'operator' ? 'console' : listener, status),
    ]);
  return places.map(placeOfReference).filter((place) => at(place) !== undefined);
}

function isAskedFor({ method, path, listener }: Operation, asked: SentRequest): boolean {
  // Of what the operator is shown only the console takes a query.
  const isWithQuery = path.startsWith('/console');
  const operatorPath = isWithQuery ? asked.target.replace(/\?.*$/s, '') : asked.target;
  return method === asked.method && path === (listener === 'relay' ? relayPathOf(asked) : operatorPath);
}

/** Behind a path prefix, and without the query. */
function relayPathOf({ target }: SentRequest): string {
  return signedTarget(target).replace(/\?.*$/s, '');
}

function faultByResponse(place: Place, asked: SentRequest | undefined, answer: Answer): string | undefined {
  const { headers: documented = {}, content } = at(place) as ResponseObject;
  for (const name of Object.keys(documented)) {
    const header = placeOfReference([...place, 'headers', name]);
    const { required, schema } = at(header) as HeaderObject;
    const text = answer.headers.get(name);
    if (text === undefined && required) return `it has no ${name}`;
    if (text === undefined) continue;
    const fault = faultOfValue([...header, 'schema'], schema.type === 'integer' ? Number(text) : text);
    if (fault !== undefined) return `${name} ${fault}`;
  }
  for (const name of answer.headers.keys()) {
    if (!Object.hasOwn(documented, name) && !TRANSPORT_HEADERS.has(name)) return `the header ${name} is not documented`;
  }
  return faultOfMethods(asked, answer) ?? faultOfContent(place, content, answer);
}

/** `allow` names exactly the methods that are documented. */
function faultOfMethods(asked: SentRequest | undefined, { status, headers }: Answer): string | undefined {
  if (status !== 405 || !asked) return undefined;
  const methods = OPERATIONS.filter((one) => isAskedFor(one, { ...asked, method: one.method })).map(
    (one) => one.method,
  );
  const allowed = headers.get('allow')?.split(', ') ?? [];
  const isSame = methods.toSorted().join(', ') === allowed.toSorted().join(', ');
  return isSame ? undefined : `allow is ${allowed.join(', ')} and documented are ${methods.join(', ') || 'none'}`;
}

function faultOfContent(
  place: Place,
  content: ResponseObject['content'],
  { headers, body }: Answer,
): string | undefined {
  const type = headers.get('content-type');
  if (!content) return type === undefined && !body?.length ? undefined : 'it has content';
  // JSON has no parameters; texts say their characters there.
  const bare = type?.startsWith('application/') ? type : type?.replace(/;.*$/s, '');
  if (bare === undefined || !Object.hasOwn(content, bare)) return `the content type ${type} is not documented`;
  if (!body) return undefined;
  if (bare.startsWith('text/')) return faultOfValue([...place, 'content', bare, 'schema'], body.toString('utf8'));
  if (!bare.startsWith('application/')) return undefined;
  let value: unknown;
  try {
    value = bare === BINARY_TYPE ? asTexts(valueOf(body, place.includes('get'))) : JSON.parse(body.toString('utf8'));
  } catch (error) {
    return `its body is not of its type: ${(error as Error).message}`;
  }
  return faultOfValue([...place, 'content', bare, 'schema'], value);
}

/** In a schema, bytes are a text with one character for each. */
function asTexts(value: unknown): unknown {
  if (Buffer.isBuffer(value)) return value.toString('latin1');
  if (Array.isArray(value)) return value.map(asTexts);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, asTexts(member)]));
}

/** Returns the place that the value at `place` refers to; `place` itself where that is no reference. */
function placeOfReference(place: Place): Place {
  const { $ref } = (at(place) ?? {}) as { $ref?: string };
  return $ref?.split('/').slice(1) ?? place;
}

/** The document as it is served, and what was compiled of it: both when the first answer comes. */
let document: OpenApiDocument | undefined;
const ajv = new Ajv2020({ strict: false });
const compiled = new Map<string, ValidateFunction>();

/** Returns what lies there in the document; `undefined` where nothing does. */
function at(place: Place): unknown {
  if (!document) {
    const made = openApiDocument({ version: '0.0.0-test', operations: OPERATIONS });
    document = JSON.parse(JSON.stringify(made)) as OpenApiDocument;
    ajv.addSchema(document, 'document');
  }
  let value: unknown = document;
  for (const name of place) value = (value as Record<string, unknown> | undefined)?.[name];
  return value;
}

function faultOfValue(schemaPlace: Place, value: unknown): string | undefined {
  const pointer = schemaPlace.map((name) => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
  const validate = compiled.get(pointer) ?? ajv.compile({ $ref: `document#${encodeURI(pointer)}` });
  compiled.set(pointer, validate);
  return validate(value) ? undefined : ajv.errorsText(validate.errors, { dataVar: 'it' });
}
