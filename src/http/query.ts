/** The query of a request, parsed by the schema that documents it. */
import { IsInteger, type Static, type TObject, type TSchema } from 'typebox';
import { parserOf } from '../protocol/schemas.ts';

const DIGITS = /^[0-9]{1,16}$/;

/**
 * Compiles what parses a query: to its value, or to the words that refuse it. No parameter may be missing, repeated or
 * malformed; a whole number is digits alone. Parameters that the schema does not have are passed over.
 */
export function queryParserOf<Shape extends TObject>(shape: Shape): (query?: string) => Static<Shape> | string {
  const parameters = new Map(Object.entries(shape.properties).map(([name, schema]) => [name, parameterOf(schema)]));
  const required = new Set<string>(shape.required ?? []);
  return (query = '') => {
    const values: Record<string, unknown> = {};
    for (const part of query.split('&')) {
      const at = part.indexOf('=');
      const name = decode(at === -1 ? part : part.slice(0, at));
      const text = decode(at === -1 ? '' : part.slice(at + 1));
      if (name === undefined || text === undefined) return 'the query is not percent-encoded UTF-8';
      const parameter = parameters.get(name);
      if (!parameter) continue;
      if (Object.hasOwn(values, name)) return `${name} is repeated`;
      values[name] = parameter.parse(text);
      if (values[name] === undefined) return `${name} is malformed${parameter.said}`;
    }
    for (const name of required) {
      if (!Object.hasOwn(values, name)) return `${name} is missing${parameters.get(name)?.said}`;
    }
    return values as Static<Shape>;
  };
}

function parameterOf(schema: TSchema): { parse: (text: string) => unknown; said: string } {
  const check = parserOf(schema);
  const { description } = schema as { description?: string };
  const isNumber = IsInteger(schema);
  return {
    parse: (text) => check(isNumber && DIGITS.test(text) ? Number(text) : text),
    said: description === undefined ? '' : `: it is ${description}`,
  };
}

function decode(text: string): string | undefined {
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
