/** Holds what came to the schema of its operation, and says which member is wrong. */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { type Refusal, refusal } from '../core/refusal.ts';

type Check = (value: unknown) => Refusal | undefined;

/** Compiled once for a schema, when it is first asked for: a command needs one of many. */
const checks = new WeakMap<TSchema, Check>();

/** `undefined` when the value is what the schema says; else `BAD_INPUT` with the member as `details.field`. */
export function inputFault(schema: TSchema, value: unknown): Refusal | undefined {
  const known = checks.get(schema);
  if (known) return known(value);
  const compiled = Compile(schema);
  const check: Check = (input) => (compiled.Check(input) ? undefined : refusalOf(compiled.Errors(input)[0]));
  checks.set(schema, check);
  return check(value);
}

interface Fault {
  keyword: string;
  instancePath: string;
  params: object;
  message: string;
}

function refusalOf(fault: Fault | undefined): Refusal {
  if (!fault) throw new Error('invariant: a value that is refused has a fault');
  const { requiredProperties: [missing] = [] } = fault.params as { requiredProperties?: string[] };
  const member = fieldOf(fault.instancePath);
  if (missing !== undefined) {
    const field = member === '' ? missing : `${member}.${missing}`;
    return refusal('BAD_INPUT', `${field} is missing`, { field });
  }
  const subject = member === '' ? 'the input' : member;
  const { allowedValues } = fault.params as { allowedValues?: unknown[] };
  const said = allowedValues ? `must be one of ${allowedValues.join(', ')}` : fault.message;
  return refusal('BAD_INPUT', `${subject} ${said}`, { field: member === '' ? null : member });
}

/** `to[0]` of the JSON pointer `/to/0`. */
function fieldOf(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, part) => (/^[0-9]+$/.test(part) ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`), '');
}
