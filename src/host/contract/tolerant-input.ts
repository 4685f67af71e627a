/**
 * Inputs of the mail operations as agents write them: what can mean only one thing is taken as that, by the schema of
 * the operation. Everything else stays as it is, for the schema to refuse.
 *
 *   - null is an absent member;
 *   - a text is the one item of a list of texts, a list written as JSON is that list, and an empty text no item;
 *   - "true" and "false" are truth values, and "20" is a number;
 *   - messageId and message_id are message_ids, thread_id is thread, and id is the one member that is an id.
 */
import type { TSchema } from 'typebox';

interface MemberSchema {
  type?: string;
  items?: { type?: string };
}

/** The input by the names and types of an object's schema. */
export function tolerantInput(schema: TSchema, given: object): object {
  const { properties = {} } = schema as { properties?: Readonly<Record<string, MemberSchema>> };
  const names = Object.keys(properties);
  const members = Object.entries(given).filter(([, value]) => value !== null);
  const taken = new Set(members.map(([name]) => name));
  return Object.fromEntries(
    members.map(([written, value]) => {
      const name = names.includes(written) ? written : meantName(written, names, taken);
      // The second of two other names for one member stays as it is, for the schema to refuse.
      taken.add(name);
      return [name, tolerantValue(properties[name], value)];
    }),
  );
}

/** The only member that a name may mean, unless that is given too; the name as it is otherwise. */
function meantName(written: string, names: readonly string[], taken: ReadonlySet<string>): string {
  const folded = foldedName(written);
  const isMeant = (name: string): boolean =>
    folded === ID ? foldedName(name).endsWith(ID) : foldedName(name) === folded;
  const meant = names.filter(isMeant);
  const [only, ...others] = meant.length > 0 ? meant : names.filter((name) => foldedName(name) + ID === folded);
  return only === undefined || others.length > 0 || taken.has(only) ? written : only;
}

const ID = 'id';

/** Takes case, hyphens, underscores and the ending of a plural out of a name. */
function foldedName(name: string): string {
  return name.replaceAll(/[_-]/g, '').toLowerCase().replace(/s$/, '');
}

function tolerantValue(schema: MemberSchema | undefined, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (schema?.type === 'array' && schema.items?.type === 'string') return listIn(value);
  if (schema?.type === 'boolean' && /^(?:true|false)$/i.test(value)) return value.toLowerCase() === 'true';
  if (schema?.type === 'integer' && /^\d{1,15}$/.test(value)) return Number(value);
  return value;
}

function listIn(text: string): unknown[] {
  if (text === '') return [];
  if (!text.startsWith('[')) return [text];
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) && list.every((item) => typeof item === 'string') ? list : [text];
  } catch {
    return [text];
  }
}
