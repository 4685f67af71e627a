/**
 * The two forms of push, pull and ack, by the headers of a request: JSON, and the binary form where `content-type`
 * names it for the body or `accept` for the answer. Problems are JSON in both.
 */
import type { Static, TSchema } from 'typebox';
import { BINARY_TYPE } from '../../protocol/binary-form.ts';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/json.ts';
import { type Packable, packedBytes, readMessagePack } from '../../protocol/message-pack.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { Exchange, Reply } from '../../http/exchange.ts';
import type { Body } from '../../http/framing.ts';

interface FormRequest {
  exchange: Exchange;
  body: Body;
}

export function hasBinaryBody({ exchange }: FormRequest): boolean {
  const type = exchange.head.headers.findLast(([name]) => name === 'content-type')?.[1];
  return type?.trim().toLowerCase() === BINARY_TYPE;
}

/** Says whether `accept` names the binary form itself, and not with a weight of 0. */
export function takesBinary({ exchange }: Pick<FormRequest, 'exchange'>): boolean {
  const ranges = exchange.head.headers.flatMap(([name, value]) => (name === 'accept' ? value.split(',') : []));
  return ranges.some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    // The form itself has no parameters, so each is a weight.
    return type === BINARY_TYPE && parameters.every((one) => one.startsWith('q=') && Number(one.slice(2)) > 0);
  });
}

/** Compiles a parser of bodies in both forms; it returns `undefined` for a body that is not in the schema. */
export function formParserOf<Shape extends TSchema>(
  shape: Shape,
  readBinary = (bytes: Buffer): unknown => readMessagePack(bytes, REQUEST_JSON_BOUNDS),
): (request: FormRequest) => Static<Shape> | undefined {
  const parse = parserOf(shape);
  return (request) => {
    const { bytes } = request.body;
    return parse(hasBinaryBody(request) ? readBinary(bytes) : parseJsonBounded(bytes, REQUEST_JSON_BOUNDS));
  };
}

export function formHeaders(isBinary: boolean): Readonly<Record<string, string>> {
  return { 'content-type': isBinary ? BINARY_TYPE : 'application/json', vary: 'accept' };
}

/** Answers with a value that both forms have alike. */
export function formReply(request: FormRequest, value: Packable): Reply {
  const isBinary = takesBinary(request);
  const body = isBinary ? packedBytes(value) : JSON.stringify(value);
  return { status: 200, headers: formHeaders(isBinary), body };
}
