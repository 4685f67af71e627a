/** Parses the text of flags and environment variables of the relay. Throws one sentence that says what is wrong. */
import { suggestions } from '../../host/core/suggestions.ts';
import { InvalidArgumentError } from 'commander';
import {
  BODY_BYTES_MAX,
  DAY_MS,
  DEFAULT_LIMITS,
  INVITE_LABEL_CHARACTERS_MAX,
  INVITE_LIFETIME_MAX_MS,
  INVITE_LIFETIME_MIN_MS,
  type Limits,
} from '../../protocol/limits.ts';
import { isPrintable } from '../../protocol/printable.ts';
import { parseHostReference } from '../../relay/operator/host-reference.ts';
import { isFingerprintStart } from '../lib/short-id.ts';
import { type ListenAddress, parseListenAddress } from '../../lib/listen-address.ts';

/** How large a request body may be. */
export function bodyBytes(text: string): number {
  const bytes = Number(text);
  if (!/^[0-9]+$/.test(text) || bytes < 1 || bytes > BODY_BYTES_MAX) {
    throw new InvalidArgumentError(`It must be a number of bytes from 1 to ${BODY_BYTES_MAX}.`);
  }
  return bytes;
}

/** Seconds above zero, fractions allowed. */
export function seconds(text: string): number {
  const value = Number(text);
  if (!/^[0-9]+(?:\.[0-9]+)?$/.test(text) || !(value > 0) || value > 86_400) {
    throw new InvalidArgumentError('It must be a number of seconds above 0, at most 86400.');
  }
  return value;
}

const MINUTE_MS = 60_000;
const UNIT_MS: Readonly<Record<string, number>> = { m: MINUTE_MS, h: 3_600_000, d: DAY_MS };

/** How long an invite is valid, in milliseconds, from `30m`, `12h` or `7d`. */
export function inviteLifetimeMs(text: string): number {
  const lifetimeMs = spanMs(text);
  if (!(lifetimeMs >= INVITE_LIFETIME_MIN_MS && lifetimeMs <= INVITE_LIFETIME_MAX_MS)) {
    throw new InvalidArgumentError('It must be a time from 1m to 365d, for example 30m, 12h or 7d.');
  }
  return lifetimeMs;
}

/** How often something is done, in milliseconds. */
export function intervalMs(text: string): number {
  const everyMs = spanMs(text);
  if (!(everyMs >= MINUTE_MS && everyMs <= 365 * DAY_MS)) {
    throw new InvalidArgumentError('It must be a time from 1m to 365d, for example 90m, 24h or 7d.');
  }
  return everyMs;
}

function spanMs(text: string): number {
  const parts = /^(?<count>[0-9]{1,6})(?<unit>[mhd])$/.exec(text)?.groups;
  return Number(parts?.['count']) * (UNIT_MS[parts?.['unit'] ?? ''] ?? Number.NaN);
}

export function inviteLabel(text: string): string {
  if (text.length > INVITE_LABEL_CHARACTERS_MAX || !isPrintable(text)) {
    throw new InvalidArgumentError(`It must be at most ${INVITE_LABEL_CHARACTERS_MAX} printable characters.`);
  }
  return text;
}

/** A fingerprint or its first characters, a public key or a name, as it was written. */
export function hostReference(text: string): string {
  if (!parseHostReference(text) && !isFingerprintStart(text))
    throw new InvalidArgumentError('It must be a fingerprint, a public key or a name.');
  return text;
}

const DATE_AND_TIME =
  /^(?<date>\d{4}-\d{2}-\d{2})(?:[T ](?<time>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(?<zone>Z|[+-]\d{2}:\d{2})?)?$/;

/** A moment, in milliseconds since 1970: a date, or a date and time (UTC unless it says otherwise). */
export function moment(text: string): number {
  const { date, time = '00:00', zone = 'Z' } = DATE_AND_TIME.exec(text)?.groups ?? {};
  const timeMs = date === undefined ? Number.NaN : Date.parse(`${date}T${time}${zone}`);
  // The 30th of February would be taken for a day in March.
  const midnight = new Date(`${date}T00:00Z`);
  const isDay = Number.isSafeInteger(midnight.getTime()) && midnight.toISOString().startsWith(date ?? ' ');
  if (!Number.isSafeInteger(timeMs) || !isDay) {
    throw new InvalidArgumentError('It must be a time, for example 2025-11-20 or 2025-11-20T21:48Z.');
  }
  return timeMs;
}

/** `host:port`, with an IPv6 host in brackets. */
export function listenAddress(text: string): ListenAddress {
  const address = parseListenAddress(text);
  if (!address) throw new InvalidArgumentError('It must be host:port, as in 127.0.0.1:8787 or [::1]:8787.');
  return address;
}

/** As `listenAddress`, or `off`. */
export function listenAddressOrOff(text: string): ListenAddress | undefined {
  return text === 'off' ? undefined : listenAddress(text);
}

/** An absolute http or https URL without user or fragment, as it was written: it is compared and not resolved. */
export function webUrl(text: string): string {
  const url = /^https?:\/\/[!-~]+$/.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (!url || url.username || url.password || text.includes('#')) {
    throw new InvalidArgumentError('It must be an absolute URL, as in https://mail.example, without user or fragment.');
  }
  return text;
}

/** As `webUrl`; https unless it is of this machine, because keys that are trusted come from there. */
export function trustedUrl(text: string): string {
  if (!isTrustedTransport(new URL(webUrl(text)))) {
    throw new InvalidArgumentError(
      'It must be https; plain http works on this machine only, as in http://127.0.0.1:9000.',
    );
  }
  return text;
}

/** Whether the keys cannot be replaced on the way: https, or plain http to this machine. */
function isTrustedTransport({ protocol, hostname }: URL): boolean {
  if (protocol === 'https:') return true;
  return protocol === 'http:' && /^(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])$/.test(hostname);
}

/** As `trustedUrl`, without a query (RFC 8414). */
export function issuerUrl(text: string): string {
  if (text.includes('?')) throw new InvalidArgumentError('It must be a URL without a query.');
  return trustedUrl(text);
}

/** The documented limits with those of a JSON object put over them. */
export function limitsOverridden(text: string): Limits {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    throw new InvalidArgumentError('It must be a JSON object, for example \'{"retention_days": 0.5}\'.');
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new InvalidArgumentError('It must be a JSON object, for example \'{"retention_days": 0.5}\'.');
  }
  const limits: Limits = { ...DEFAULT_LIMITS };
  for (const [name, value] of Object.entries(given)) {
    if (!isLimitName(name)) {
      const known = Object.keys(DEFAULT_LIMITS);
      const near = suggestions(name, known);
      throw new InvalidArgumentError(
        near.length > 0
          ? `There is no limit ${name} (did you mean ${near.join(' or ')}?).`
          : `There is no limit ${name}; there are ${known.join(', ')}.`,
      );
    }
    limits[name] = limitValue(name, value);
  }
  return limits;
}

function isLimitName(name: string): name is keyof Limits {
  return Object.hasOwn(DEFAULT_LIMITS, name);
}

function limitValue(name: keyof Limits, value: unknown): number {
  const isDays = name === 'retention_days';
  if (typeof value !== 'number' || !(value > 0) || value > (isDays ? 3650 : Number.MAX_SAFE_INTEGER)) {
    throw new InvalidArgumentError(`${name} must be a number above 0${isDays ? ' and at most 3650' : ''}.`);
  }
  if (!isDays && !Number.isInteger(value)) throw new InvalidArgumentError(`${name} must be a whole number.`);
  return value;
}
