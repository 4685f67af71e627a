/**
 * The forms of an address ("What the service does", 2): an agent name; `agent@host`; `role:<role>`; `*`; `owner`.
 *
 * Names, roles and hosts are compared without case. `owner@host` is a form of `agent@host`.
 */
import { type HostName, foldHostName, isAgentName, parseHostName } from '../../protocol/names.ts';
import type { Address } from './rows.ts';

export const OWNER_NAME = 'owner';
/** The sender of the host's own reports; mail to it is read by nobody. */
export const HOST_VOICE = 'poste';

export type AddressForm =
  | { type: 'agent'; text: string; name: string; host: HostName | null }
  | { type: 'role'; text: string; role: string }
  | { type: 'everyone'; text: string };

/** Parses an address; `undefined` when it has no valid form. Nothing is trimmed or guessed. */
export function parseAddress(text: string): AddressForm | undefined {
  if (text === '*') return { type: 'everyone', text };
  if (text.startsWith('role:')) {
    const role = text.slice('role:'.length);
    return isAgentName(role) ? { type: 'role', text, role } : undefined;
  }
  const at = text.indexOf('@');
  const name = at < 0 ? text : text.slice(0, at);
  if (!isAgentName(name)) return undefined;
  if (at < 0) return { type: 'agent', text, name, host: null };
  const host = parseHostName(text.slice(at + 1));
  return host === undefined ? undefined : { type: 'agent', text, name, host };
}

/** A concrete sender or recipient. */
export function addressOf(name: string, host: HostName): Address {
  return `${name}@${host}` as Address;
}

/** The parts of a concrete address; `undefined` when it has no valid form. */
export function partsOfAddress(address: string): { name: string; host: HostName } | undefined {
  const form = parseAddress(address);
  return form?.type === 'agent' && form.host !== null ? { name: form.name, host: form.host } : undefined;
}

/** The name in a concrete address; empty when it has no valid form. */
export function nameIn(address: string): string {
  return partsOfAddress(address)?.name ?? '';
}

/** Names of agents and roles are compared lowercased. */
export function foldName(name: string): string {
  return name.toLowerCase();
}

export function isSameName(a: string, b: string): boolean {
  return foldName(a) === foldName(b);
}

export function isSameHost(a: string, b: string): boolean {
  return foldHostName(a) === foldHostName(b);
}
