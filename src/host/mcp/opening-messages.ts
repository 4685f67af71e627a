/**
 * The form of the messages by which clients begin, of either kind of revision, and of plain calls of tools: told
 * without the schemas of the server, and narrower than those. A message that is not of this form may be a good one all
 * the same.
 */
import { isUtf8 } from 'node:buffer';
import { isObject } from '../../protocol/json.ts';

export type RequestId = string | number;

export interface OpeningMessage {
  /** A notification has none. */
  id: RequestId | undefined;
  method: string;
  /** Empty where the message has none. */
  params: Readonly<Record<string, unknown>>;
}

export function openingMessageOf(line: Buffer): OpeningMessage | undefined {
  return isUtf8(line) ? plainMessageOf(parseJson(line.toString('utf8'))) : undefined;
}

function plainMessageOf(document: unknown): OpeningMessage | undefined {
  if (!isObject(document) || !hasOnly(document, ['jsonrpc', 'id', 'method', 'params'])) return undefined;
  const { jsonrpc, id, method, params = {} } = document;
  if (jsonrpc !== '2.0' || typeof method !== 'string' || !isObject(params)) return undefined;
  return id === undefined || isId(id) ? { id, method, params } : undefined;
}

export interface PlainCall {
  id: RequestId;
  /** The name of the tool. */
  name: string;
  given: Readonly<Record<string, unknown>>;
  meta: { progressToken?: RequestId };
}

/** The call of a tool by a client that began with `initialize`, or `undefined`. */
export function plainCallOf(document: unknown): PlainCall | undefined {
  const { id, method, params = {} } = plainMessageOf(document) ?? {};
  const { name, arguments: given, _meta: meta } = params;
  if (id === undefined || method !== 'tools/call' || typeof name !== 'string' || !isObject(given)) return undefined;
  if (!hasOnly(params, ['name', 'arguments', '_meta']) || !isPlainMeta(meta)) return undefined;
  return { id, name, given, meta: meta ?? {} };
}

/** The parameters of a client that begins with `initialize`. */
export function isHandshake(params: OpeningMessage['params']): boolean {
  const { protocolVersion, capabilities, clientInfo, _meta } = params;
  if (!hasOnly(params, ['protocolVersion', 'capabilities', 'clientInfo', '_meta'])) return false;
  return isText(protocolVersion) && isCapabilities(capabilities) && isClient(clientInfo) && isPlainMeta(_meta);
}

/** The parameters name nothing that changes an answer, by a revision that begins with `initialize`. */
export function arePlain(params: OpeningMessage['params']): boolean {
  return hasOnly(params, ['_meta']) && isPlainMeta(params['_meta']);
}

/** The revision that the parameters name, where they name nothing else that changes an answer. */
export function revisionNamedBy(params: OpeningMessage['params']): string | undefined {
  const { _meta: meta } = params;
  if (!hasOnly(params, ['_meta']) || !isObject(meta)) return undefined;
  const {
    [`${RESERVED}protocolVersion`]: revision,
    [`${RESERVED}clientInfo`]: client,
    [`${RESERVED}clientCapabilities`]: capabilities,
    ...others
  } = meta;
  const isGood = isCapabilities(capabilities) && (client === undefined || isClient(client)) && isPlainMeta(others);
  return isGood && typeof revision === 'string' ? revision : undefined;
}

/** The members of `_meta` that the protocol keeps for itself begin so. */
const RESERVED = 'io.modelcontextprotocol/';

type Form = (value: unknown) => boolean;

const isText: Form = (value) => typeof value === 'string';
const isFlag: Form = (value) => typeof value === 'boolean';
const isSet: Form = (value) => isObject(value) && isJson(value);

function isId(value: unknown): value is RequestId {
  return typeof value === 'string' || Number.isSafeInteger(value);
}

/** No client nests its capabilities deeper. */
const DEPTH_MAX = 16;

/** False for a number that JSON has no place for: a text such as 1e999 is read as one. */
function isJson(value: unknown, depth = 0): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return true;
  return depth < DEPTH_MAX && Object.values(value).every((member) => isJson(member, depth + 1));
}

/** An object whose members are of these forms, where it has them. */
function members(forms: Readonly<Record<string, Form>>): Form {
  return (value) =>
    isObject(value) && Object.entries(forms).every(([name, form]) => !Object.hasOwn(value, name) || form(value[name]));
}

const isEachSet: Form = (value) => isObject(value) && Object.values(value).every(isSet);

function listOf(form: Form): Form {
  return (value) => Array.isArray(value) && value.every(form);
}

const hasIconForms = members({
  src: isText,
  mimeType: isText,
  sizes: listOf(isText),
  theme: (value) => value === 'light' || value === 'dark',
});

const hasClientForms = members({
  name: isText,
  version: isText,
  title: isText,
  websiteUrl: isText,
  description: isText,
  icons: listOf((icon) => hasIconForms(icon) && isObject(icon) && Object.hasOwn(icon, 'src')),
});

const isClient: Form = (value) =>
  isObject(value) && Object.hasOwn(value, 'name') && Object.hasOwn(value, 'version') && hasClientForms(value);

const hasElicitationForms = members({ form: members({ applyDefaults: isFlag }), url: isSet });

const isCapabilities = members({
  experimental: isEachSet,
  extensions: isEachSet,
  sampling: members({ context: isSet, tools: isSet }),
  elicitation: (value) => isSet(value) && hasElicitationForms(value),
  roots: members({ listChanged: isFlag }),
  tasks: members({
    list: isSet,
    cancel: isSet,
    requests: members({ sampling: members({ createMessage: isSet }), elicitation: members({ create: isSet }) }),
  }),
});

function isPlainMeta(meta: unknown): meta is PlainCall['meta'] | undefined {
  if (meta === undefined) return true;
  if (!isObject(meta) || Object.keys(meta).some((name) => name.startsWith(RESERVED))) return false;
  return !Object.hasOwn(meta, 'progressToken') || isId(meta['progressToken']);
}

function hasOnly(value: object, names: readonly string[]): boolean {
  return Object.keys(value).every((name) => names.includes(name));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
