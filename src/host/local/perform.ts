/** From the bytes of a request to the answer of an operation, whoever brought them: the socket or the owner's page. */
import type { TSchema } from 'typebox';
import { type JsonBounds, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { isObject } from '../../protocol/items.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import { parseInput } from '../documents/parse-input.ts';
import type { Caller, Handlers } from './handlers.ts';
import { OPERATIONS, type OperationName } from './operations.ts';

const INPUT_JSON_BOUNDS: JsonBounds = { depthMax: 16, valuesMax: 10_000, membersMax: 200 };

/** The input of the operation, held to its schema; or `BAD_INPUT`. */
export function parseOperationInput(name: OperationName, bytes: Buffer): object | Refusal {
  const given = parseJsonBounded(bytes, INPUT_JSON_BOUNDS);
  if (!isObject(given)) return refusal('BAD_INPUT', 'the input must be a JSON object', { field: null });
  // Every operation takes an object.
  return parseInput<TSchema>(OPERATIONS[name].input, given) as object;
}

/** `input` is one that was parsed, `caller` one that the operation may have. */
export function perform(
  handlers: Handlers,
  name: OperationName,
  caller: Caller,
  input: object,
): Promise<object | Refusal> {
  // The table types each handler by its own input and caller.
  const handle = handlers[name] as (asker: Caller, value: object) => Promise<object>;
  return handle(caller, input);
}
