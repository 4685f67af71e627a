/** The description of one operation, for the OpenAPI document and for the tests that hold each answer to it. */
import Type, { type TObject, type TSchema } from 'typebox';
import type { ProblemCode } from '../../protocol/problem.ts';

/** Where an operation is answered: to hosts, or to the operator alone. */
export type Listener = 'relay' | 'operator';

/**
 * `hop by key or name`: the earlier protocol finds callers by name too. Of the console: its page needs the address of the
 * listener, the entry a one-time token, the rest a session.
 */
export type Access =
  | 'open'
  | 'optional hop'
  | 'hop by key'
  | 'hop by key or name'
  | 'console page'
  | 'console entry'
  | 'console read'
  | 'console action';

/** An answer that is no problem document of the protocol. */
export interface Success {
  status: 200 | 202 | 308 | 401 | 403 | 404 | 409 | 429 | 500 | 503;
  /** Of the body; absent when the answer has none. */
  schema?: TSchema;
  /** JSON unless it says otherwise. */
  contentType?: string;
  description: string;
}

export interface Operation {
  /** The name of the operation, for generated clients. */
  id: string;
  method: 'GET' | 'POST';
  path: string;
  listener: Listener;
  access: Access;
  summary: string;
  query?: TObject;
  /** JSON unless a content type says otherwise. */
  request?: { schema: TSchema; contentType?: string };
  /** The answers that are no problem documents. */
  successes: readonly Success[];
  /** The problems of this operation, besides those that every operation of its access may answer. */
  problems: readonly ProblemCode[];
  /** Only a relay whose authority is an account service has it. */
  isHostedOnly?: true;
}

/** 200 with JSON. */
export function ok(schema: TSchema, description: string): Success {
  return { status: 200, schema, description };
}

/** 200 with text. */
export function text(contentType: string, description: string): Success {
  return { status: 200, contentType, schema: Type.String(), description };
}
