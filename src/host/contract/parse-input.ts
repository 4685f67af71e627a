/** Validates the input of an operation by its schema: returns a typed value, or a refusal that names the member. */
import type { Static, TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { isObject } from '../../protocol/json.ts';
import { LAN_ADDRESS_PATTERN } from '../../protocol/lan.ts';
import { AGENT_NAME_PATTERN, HOST_NAME_PATTERN } from '../../protocol/names.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import { suggestions } from '../core/suggestions.ts';

/** Each schema is compiled at its first use: a command needs one of many. */
const validators = new WeakMap<TSchema, Validator>();

/**
 * `BAD_INPUT` with `details.field`, the wrong member. Characters are Unicode code points; a text that is not valid
 * Unicode (a lone surrogate) is refused, because it could not be stored, hashed or sealed unchanged.
 */
export function parseInput<T extends TSchema>(schema: T, value: unknown): Static<T> | Refusal {
  if (!validatorOf(schema).Check(value)) return refuse(schema, value);
  const broken = brokenText(value, '');
  if (broken !== undefined) return badInput(broken, 'holds a lone surrogate, which is no Unicode text');
  return value as Static<T>;
}

/** A refusal of one member, `path` as in `to[0]`. */
export function badInput(path: string, problem: string): Refusal {
  const field = path.split('[', 1)[0] ?? path;
  return refusal('BAD_INPUT', `${path} ${problem}`, { field, path });
}

function validatorOf(schema: TSchema): Validator {
  const known = validators.get(schema);
  if (known) return known;
  const validator: Validator = Compile(schema);
  validators.set(schema, validator);
  return validator;
}

function membersOf(schema: TSchema): string[] {
  return Object.keys((schema as { properties?: object }).properties ?? {});
}

/** `at` is the path of the value, where it is a part of the input. */
function refuse(schema: TSchema, value: unknown, at = ''): Refusal {
  const members = membersOf(schema);
  const owner = at || 'the input';
  const [error] = validatorOf(schema).Errors(value);
  if (!error) throw new Error('invariant: what does not pass has an error');
  const union = unionOf(error);
  if (union) {
    const { anyOf = [] } = schemaAt(schema, union.schemaPath);
    return refuseForms(anyOf, valueAt(value, union.pointer), joinPath(at, pathOf(union.pointer)));
  }
  const path = joinPath(at, pathOf(error.instancePath));
  const params = error.params as Record<string, unknown>;
  switch (error.keyword) {
    case 'required':
      return badInput(
        joinPath(path, firstOf(params['requiredProperties'])),
        `is missing${strangerIn(value, members, owner)}`,
      );
    // The library says so that a closed object has another member.
    case 'boolean':
      return badInput(path, unknownMember(pathOf(error.instancePath), members, owner));
    default:
      return badInput(path || 'input', `must be ${allowedText(schemaAt(schema, error.schemaPath))}`);
  }
}

/** The value that may have several forms, when the error is in one of them: the others have errors too. */
function unionOf({
  schemaPath,
  instancePath,
}: ReturnType<Validator['Errors']>[number]): { schemaPath: string; pointer: string } | undefined {
  const [outer = '', form] = schemaPath.split('/anyOf/');
  const depth = outer.match(/\/(?:properties\/[^/]+|items)/g)?.length ?? 0;
  const pointer = instancePath.split('/').slice(0, depth + 1);
  return form === undefined ? undefined : { schemaPath: outer, pointer: pointer.join('/') };
}

/** Says what is wrong in the form that the value has by its `type`, or else which forms there are. */
function refuseForms(forms: readonly ValueSchema[], value: unknown, path: string): Refusal {
  const types = forms.map(({ properties }) => properties?.['type']?.const);
  if (types.includes(undefined)) return badInput(path, `must be ${allowedText({ anyOf: forms })}`);
  const given = isObject(value) ? value['type'] : undefined;
  const form = forms[types.indexOf(given)];
  if (form) return refuse(form, value, path);
  const among = `one of ${types.join(', ')}`;
  return isObject(value)
    ? badInput(joinPath(path, 'type'), `must be ${among}`)
    : badInput(path, `must be an object whose type is ${among}`);
}

/** The parts of a schema that say what a value may be. */
interface ValueSchema {
  type?: string;
  enum?: readonly unknown[];
  const?: unknown;
  anyOf?: readonly ValueSchema[];
  properties?: Readonly<Record<string, ValueSchema>>;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
}

/** The schema at a path such as `#/properties/to/items`. */
function schemaAt(schema: TSchema, path: string): ValueSchema {
  const parts = path.split('/').slice(1);
  return parts.reduce<unknown>((outer, part) => (outer as Record<string, unknown>)[part], schema) as ValueSchema;
}

/** The patterns of the inputs, in words. */
export const PATTERN_TEXTS: Readonly<Record<string, string>> = {
  [AGENT_NAME_PATTERN]:
    'letters, digits, dots, hyphens and underscores, at most 64, and begin with a letter or a digit',
  [HOST_NAME_PATTERN]:
    'letters, digits, dots, hyphens and underscores, at most 63, and begin and end with a letter or a digit',
  [LAN_ADDRESS_PATTERN]: 'host:port, as in 192.168.1.7:8789 or [fd00::7]:8789',
  '^[A-Za-z0-9._-]+$': 'letters, digits, dots, hyphens and underscores',
  '^SHA256:[A-Za-z0-9+/]{43}$': 'SHA256: and 43 characters',
  '^/[^\\u0000]*$': 'an absolute path',
  '^[^\\u0000]*$': 'a text without NUL',
  '^%[0-9]{1,9}$': 'the id of a tmux pane, as in %3',
};

/** Says what a value may be, in words that need no knowledge of schemas: "a number from 1 to 100". */
function allowedText(schema: ValueSchema): string {
  const { type, pattern, minimum, maximum, minLength, maxLength, minItems, maxItems } = schema;
  if (schema.enum) return `one of ${schema.enum.join(', ')}`;
  if (schema.anyOf) return schema.anyOf.map(allowedText).join(', or ');
  switch (type) {
    case 'integer':
    case 'number':
      return `a ${type === 'integer' ? 'whole ' : ''}number${rangeText(minimum, maximum)}`;
    case 'array':
      return `a list${rangeText(minItems, maxItems, ' items')}`;
    case 'string':
      if (pattern === undefined) return `a text${rangeText(minLength, maxLength, ' characters')}`;
      return `${PATTERN_TEXTS[pattern]}${maxLength === undefined ? '' : `, at most ${maxLength} characters`}`;
    case 'boolean':
      return 'true or false';
    case 'null':
      return 'null';
    default:
      return 'an object';
  }
}

function rangeText(least: number | undefined, most = Infinity, unit = ''): string {
  // Nobody gives a number near the largest one there is.
  if (most >= Number.MAX_SAFE_INTEGER) return least === undefined ? '' : ` of at least ${least}${unit}`;
  if (least === undefined) return ` of at most ${most}${unit}`;
  return ` ${unit === '' ? 'from' : 'of'} ${least} to ${most}${unit}`;
}

/** The value that a pointer such as `/wake/0` leads to. */
function valueAt(value: unknown, pointer: string): unknown {
  const parts = pointer.split('/').slice(1);
  return parts.reduce<unknown>((outer, part) => (outer as Record<string, unknown>)[part], value);
}

/** Returns what may be meant by a member that `owner` has not. */
function unknownMember(name: string, members: readonly string[], owner: string): string {
  const [near] = suggestions(name, members);
  return near === undefined
    ? `is no member of ${owner}: it has ${members.join(', ')}`
    : `is no member of ${owner}: did you mean ${near}?`;
}

/** Beside a member that is missing often stands the wrong name of it. */
function strangerIn(value: unknown, members: readonly string[], owner: string): string {
  const stranger = isObject(value) ? Object.keys(value).find((name) => !members.includes(name)) : undefined;
  return stranger === undefined ? '' : `, and ${stranger} is no member of ${owner}`;
}

function firstOf(names: unknown): string {
  return Array.isArray(names) ? String(names[0]) : '';
}

function joinPath(path: string, member: string): string {
  return path === '' || member === '' || member.startsWith('[') ? path + member : `${path}.${member}`;
}

/** `/to/0` as `to[0]`. */
function pathOf(pointer: string): string {
  let path = '';
  for (const part of pointer.split('/').slice(1)) {
    if (/^\d+$/.test(part)) path += `[${part}]`;
    else path = joinPath(path, part.replaceAll('~1', '/').replaceAll('~0', '~'));
  }
  return path;
}

/** The path of the first text that is not valid Unicode. */
function brokenText(value: unknown, path: string): string | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : path;
  if (Array.isArray(value)) {
    for (const [at, element] of value.entries()) {
      const broken = brokenText(element, `${path}[${at}]`);
      if (broken !== undefined) return broken;
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      const broken = brokenText(member, joinPath(path, name));
      if (broken !== undefined) return broken;
    }
  }
  return undefined;
}
