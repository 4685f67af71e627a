/** Validates the input of an operation by its schema: returns a typed value, or a refusal that names the member. */
import type { Static, TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { isObject } from '../../protocol/json.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import { suggestions } from '../core/suggestions.ts';

/** Each schema is compiled at its first use: a command needs one of many. */
const validators = new WeakMap<TSchema, Validator>();

/**
 * `BAD_INPUT` with `details.field`, the wrong member. Characters are Unicode code points; a text that is not valid
 * Unicode (a lone surrogate) is refused, because it could not be stored, hashed or sealed unchanged.
 */
export function parseInput<T extends TSchema>(schema: T, value: unknown): Static<T> | Refusal {
  const validator = validatorOf(schema);
  if (!validator.Check(value)) return refuse(validator, value, membersOf(schema));
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

function refuse(validator: Validator, value: unknown, members: readonly string[]): Refusal {
  const [error] = validator.Errors(value);
  if (!error) throw new Error('invariant: what does not pass has an error');
  const path = pathOf(error.instancePath);
  const params = error.params as Record<string, unknown>;
  switch (error.keyword) {
    case 'required':
      return badInput(joinPath(path, firstOf(params['requiredProperties'])), `is missing${strangerIn(value, members)}`);
    // The library says so that a closed object has another member.
    case 'boolean':
      return badInput(path, unknownMember(path, members));
    case 'enum':
      return badInput(path, `must be one of ${(params['allowedValues'] as unknown[]).join(', ')}`);
    default:
      return badInput(path || 'input', error.message);
  }
}

/** Returns what may be meant by a member that the input has not. */
function unknownMember(path: string, members: readonly string[]): string {
  const [near] = suggestions(path, members);
  return near === undefined
    ? `is no member of the input: it has ${members.join(', ')}`
    : `is no member of the input: did you mean ${near}?`;
}

/** Beside a member that is missing often stands the wrong name of it. */
function strangerIn(value: unknown, members: readonly string[]): string {
  const stranger = isObject(value) ? Object.keys(value).find((name) => !members.includes(name)) : undefined;
  return stranger === undefined ? '' : `, and ${stranger} is no member of the input`;
}

function firstOf(names: unknown): string {
  return Array.isArray(names) ? String(names[0]) : '';
}

function joinPath(path: string, member: string): string {
  return path === '' ? member : `${path}.${member}`;
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
