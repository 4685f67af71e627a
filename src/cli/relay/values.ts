/** Parses the text of flags and environment variables of the relay. Throws one sentence that says what is wrong. */
import { suggestions } from '../../host/core/suggestions.ts';
import {
  BODY_BYTES_MAX,
  DAY_MS,
  DEFAULT_LIMITS,
  INVITE_LABEL_CHARACTERS_MAX,
  INVITE_LIFETIME_MAX_MS as SPAN_MAX_MS,
  INVITE_LIFETIME_MIN_MS as SPAN_MIN_MS,
  type Limits,
} from '../../protocol/limits.ts';
import { isAcceptablePoint } from '../../protocol/acceptable-point.ts';
import { parseWitnessKey, type WitnessKey } from '../../protocol/cosignature.ts';
import { isObject, jsonIn } from '../../protocol/json.ts';
import { isPrintable } from '../../protocol/printable.ts';
import { parseHostReference } from '../../relay/operator/host-reference.ts';
import { isFingerprintStart } from '../lib/short-id.ts';
import { must } from '../lib/values.ts';
import { type ListenAddress, parseListenAddress } from '../../lib/listen-address.ts';
import { isHttpsOrLoopback } from '../../protocol/https-or-loopback.ts';

/** The most bytes of a request body. */
export function bodyBytes(text: string): number {
  const bytes = Number(text);
  const isRight = /^[0-9]+$/.test(text) && bytes >= 1 && bytes <= BODY_BYTES_MAX;
  must(isRight, `It must be a number of bytes from 1 to ${BODY_BYTES_MAX}.`);
  return bytes;
}

/** Seconds above zero, fractions allowed. */
export function seconds(text: string): number {
  const value = Number(text);
  const isRight = /^[0-9]+(?:\.[0-9]+)?$/.test(text) && value > 0 && value <= 86_400;
  must(isRight, 'It must be a number of seconds above 0, at most 86400.');
  return value;
}

const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: DAY_MS };

/** Takes a time from a minute to a year, such as `30m`, `12h` or `7d`, and gives milliseconds. */
export function span(examples: string): (text: string) => number {
  return (text) => {
    const { count, unit = '' } = /^(?<count>[0-9]{1,6})(?<unit>[mhd])$/.exec(text)?.groups ?? {};
    const ms = Number(count) * (UNIT_MS[unit] ?? Number.NaN);
    must(ms >= SPAN_MIN_MS && ms <= SPAN_MAX_MS, `It must be a time from 1m to 365d, for example ${examples}.`);
    return ms;
  };
}

export function inviteLabel(text: string): string {
  const isRight = text.length <= INVITE_LABEL_CHARACTERS_MAX && isPrintable(text);
  must(isRight, `It must be at most ${INVITE_LABEL_CHARACTERS_MAX} printable characters.`);
  return text;
}

/** A fingerprint or its first characters, a public key or a name, as it was written. */
export function hostReference(text: string): string {
  const isRight = parseHostReference(text) !== undefined || isFingerprintStart(text);
  must(isRight, 'It must be a fingerprint, a public key or a name.');
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
  const isRight = Number.isSafeInteger(timeMs) && isDay;
  must(isRight, 'It must be a time, for example 2025-11-20 or 2025-11-20T21:48Z.');
  return timeMs;
}

/** `host:port`, with an IPv6 host in brackets. */
export function listenAddress(text: string): ListenAddress {
  const address = parseListenAddress(text);
  must(address !== undefined, 'It must be host:port, as in 127.0.0.1:8787 or [::1]:8787.');
  return address;
}

/** Takes what `listenAddress` takes, or `off`. */
export function listenAddressOrOff(text: string): ListenAddress | undefined {
  return text === 'off' ? undefined : listenAddress(text);
}

/** An absolute http or https URL without user or fragment, as it was written: it is compared and not resolved. */
export function webUrl(text: string): string {
  const url = /^https?:\/\/[!-~]+$/.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  const isRight = url !== undefined && !url.username && !url.password && !text.includes('#');
  must(isRight, 'It must be an absolute URL, as in https://mail.example, without user or fragment.');
  return text;
}

/** The verifier key of a witness, as `poste relay witness` prints it. */
export function witnessKey(text: string): WitnessKey {
  const key = parseWitnessKey(text);
  must(
    key !== undefined && isAcceptablePoint(key.publicKey),
    'It must be the verifier key of a witness (Ed25519, cosignature v1), as poste relay witness prints it.',
  );
  return key;
}

/** Takes a `webUrl`; https unless it is of this machine, because keys that are trusted come from there. */
export function trustedUrl(text: string): string {
  const isRight = isHttpsOrLoopback(new URL(webUrl(text)));
  must(isRight, 'It must be https; plain http works on this machine only, as in http://127.0.0.1:9000.');
  return text;
}

/** Takes a `trustedUrl` without a query (RFC 8414). */
export function issuerUrl(text: string): string {
  must(!text.includes('?'), 'It must be a URL without a query.');
  return trustedUrl(text);
}

/** The documented limits with those of a JSON object put over them. */
export function limitsOverridden(text: string): Limits {
  const given = jsonIn(text);
  must(isObject(given), 'It must be a JSON object, for example \'{"retention_days": 0.5}\'.');
  const limits: Limits = { ...DEFAULT_LIMITS };
  for (const [name, value] of Object.entries(given)) {
    const known = Object.keys(DEFAULT_LIMITS);
    const near = suggestions(name, known);
    const others = near.length > 0 ? ` (did you mean ${near.join(' or ')}?)` : `; there are ${known.join(', ')}`;
    must(isLimitName(name), `There is no limit ${name}${others}.`);
    limits[name] = limitValue(name, value);
  }
  return limits;
}

function isLimitName(name: string): name is keyof Limits {
  return Object.hasOwn(DEFAULT_LIMITS, name);
}

function limitValue(name: keyof Limits, value: unknown): number {
  const isDays = name === 'retention_days';
  const isRight = typeof value === 'number' && value > 0 && value <= (isDays ? 3650 : Number.MAX_SAFE_INTEGER);
  must(isRight, `${name} must be a number above 0${isDays ? ' and at most 3650' : ''}.`);
  must(isDays || Number.isInteger(value), `${name} must be a whole number.`);
  return value;
}
