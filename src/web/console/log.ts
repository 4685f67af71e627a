/**
 * The log as a timeline, the newest event first, filtered by kind, host, item and time. Earlier events are loaded when
 * the user asks, and new ones as they come.
 */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ConsoleHosts, ConsoleLog, LoggedEvent } from '../../protocol/operator-documents.ts';
import type { RelayEvent } from '../../relay/core/event.ts';
import { Code, Time, Untrusted, Warning } from '../shared/components.ts';
import { SelectField, onValue } from '../shared/fields.ts';
import { hostHref, itemHref, route, samples } from './state.ts';
import { ANY_TIME, LOG_RANGES, type Range, RangeField, rangeQuery } from './range.ts';
import { read } from '../shared/api.ts';
import { countText } from '../shared/format.ts';
import { failureText } from '../shared/session.ts';
import { useKept } from '../shared/use-loaded.ts';

export function Log(): VNode {
  const { query } = route.value;
  const view = `#/log?${query.toString()}`;
  const [filters, setFilters] = useKept<Filters>(view, 'filters', {
    type: query.get('type') ?? '',
    host: query.get('host') ?? '',
    item: query.get('item') ?? '',
    range: ANY_TIME,
  });
  const [isLive, setLive] = useKept(view, 'live', true);
  const log = useLog(view, filters, isLive, () => setLive(false));
  const { events, isAll, isLoaded, isLookingBack, problem } = log;
  return html`<h1 tabindex="-1">Log</h1>
    <${FilterForm} filters=${filters} change=${setFilters} apply=${log.apply} />
    <label class="switch">
      <input type="checkbox" checked=${isLive} onChange=${() => setLive(!isLive)} />
      <span>Show new events as they come</span>
    </label>
    <${Warning} text=${problem} />
    <section class="panel" aria-label="Events">
      ${
        events.length === 0
          ? html`<p class="none">
              ${isLoaded ? html`<${NoneFound} log=${log} />` : problem === '' && 'Asking the relay…'}
            </p>`
          : html`<ol class="timeline">
              ${events.map((event) => html`<${Entry} key=${event.lsn} event=${event} />`)}
            </ol>`
      }
      ${isLookingBack && isLoaded && html`<p class="note" role="status">Searching the log…</p>`}
      ${
        !isAll &&
        html`<p class="actions">
          <button type="button" disabled=${isLookingBack} onClick=${() => void log.lookFurtherBack()}>
            Look further back
          </button>
        </p>`
      }
    </section>`;
}

function NoneFound({ log }: { log: LogState }): VNode {
  const { isAll, downAt } = log;
  return html`No event matches${!isAll && downAt !== null && html` back to <${Time} at=${downAt} />`}.`;
}

interface FilterFormProps {
  filters: Filters;
  change: (filters: Filters) => void;
  apply: () => Promise<void>;
}

function FilterForm({ filters, change, apply }: FilterFormProps): VNode {
  const field =
    (name: 'type' | 'host' | 'item') =>
    (value: string): void =>
      change({ ...filters, [name]: value });
  const submit = (event: Event): void => {
    event.preventDefault();
    void apply();
  };
  return html`<form class="filters" role="search" onSubmit=${submit}>
    <${SelectField} label="Kind" value=${filters.type} options=${KINDS} change=${field('type')} />
    <label>
      <span>Host</span>
      <input maxlength="100" placeholder="name or key" value=${filters.host} onInput=${onValue(field('host'))} />
    </label>
    <label>
      <span>Item</span>
      <input maxlength="320" placeholder="item id" value=${filters.item} onInput=${onValue(field('item'))} />
    </label>
    <${RangeField} range=${filters.range} kinds=${LOG_RANGES}
      change=${(range: Range) => change({ ...filters, range })} />
    <button type="submit">Filter</button>
  </form>`;
}

function Entry({ event }: { event: LoggedEvent }): VNode {
  const { lsn, type, at, hosts, item_id, facts } = event;
  const item = item_id !== null && html`<${Code} text=${item_id} />`;
  return html`<li class="event event-${type}" data-item=${lsn}>
    <span class="event-head">
      <span class="event-name">${eventName(type)}</span>
      <span class="event-when"><${Time} at=${at} /> · record ${lsn}</span>
    </span>
    <span class="event-body">
      ${
        item && type === 'ItemAccepted'
          ? html`<a href=${itemHref(lsn)} aria-label="Trace of item ${item_id}">${item}</a>`
          : item
      }
      ${hosts.map(
        ({ role, host_pubkey, name }) =>
          html`<span class="event-host"
            >${role} <a href=${hostHref(host_pubkey)}><${Untrusted} text=${name ?? 'unknown host'} /></a
          ></span>`,
      )}
      ${facts.map(({ name, value }) => html`<span class="event-fact">${name} <${Untrusted} text=${value} /></span>`)}
    </span>
  </li>`;
}

/** The page's names for events. Events of a newer relay that are not here keep their own name. */
const EVENT_NAMES: Record<RelayEvent['type'], string> = {
  ItemAccepted: 'item accepted',
  ItemsAcked: 'items acked',
  ItemsExpired: 'items expired',
  ItemLost: 'item lost',
  ItemsMoved: 'items moved',
  DedupExtended: 'dedup records extended',
  DedupPurged: 'dedup records deleted',
  HostEnrolled: 'host enrolled',
  HostSeen: 'host seen',
  V2HopMade: 'first v2 request',
  HostRevoked: 'host revoked',
  KeyRotated: 'key rotated',
  EnrolmentLapsed: 'enrolment lapsed',
  SendersPublished: 'senders published',
  SendersRenewed: 'same senders published again',
  SendersDated: 'same senders published again',
  EncKeyPublished: 'encryption key published',
  InviteIssued: 'invite issued',
  InviteSpent: 'invite spent',
  DenyEntryAdded: 'deny entry added',
  AdmissionsLapsed: 'admissions lapsed',
  EpochRotated: 'epoch began',
  RelayRestored: 'restored from a backup',
  SeqFloorsRaised: 'sequence numbers raised',
  CheckpointTaken: 'row checkpoint taken',
  SchemaMigrated: 'store migrated to a newer schema',
  RelayInitialised: 'relay initialised',
};

const KINDS = [['', 'every kind'], ...Object.entries(EVENT_NAMES)];

function eventName(type: string): string {
  return (EVENT_NAMES as Readonly<Record<string, string>>)[type] ?? type;
}

/** The page keeps this number of events while it shows new ones. */
const EVENTS_MAX = 500;
/** One click goes through this number of answers without an event. */
const ANSWERS_MAX = 25;
const PUBLIC_KEY_CHARACTERS = 44;

interface Filters {
  type: string;
  /** A name, a fingerprint or a key. */
  host: string;
  item: string;
  range: Range;
}

interface ShownEvents {
  /** The newest first. */
  events: readonly LoggedEvent[];
  /** The log was searched up to this record. */
  upTo: number;
  /** The log was searched down to this record. */
  downTo: number;
  /** The time of that record. */
  downAt: number | null;
  /** Says whether there are no earlier records. */
  isAll: boolean;
}

interface LogState extends ShownEvents {
  /** Says whether the first answer has come. */
  isLoaded: boolean;
  isLookingBack: boolean;
  problem: string;
  /** Shows the events that match the filters. */
  apply: () => Promise<void>;
  /** Adds earlier events. */
  lookFurtherBack: () => Promise<void>;
}

const NOTHING_SHOWN: ShownEvents = { events: [], upTo: 0, downTo: 1, downAt: null, isAll: true };

/** `view` names what it keeps. `stopLive` is called when earlier events would push out new ones. */
function useLog(view: string, filters: Filters, isLive: boolean, stopLive: () => void): LogState {
  const [query, setQuery] = useKept<Record<string, string> | undefined>(view, 'query', undefined);
  const [shown, setShown] = useKept(view, 'events', NOTHING_SHOWN);
  const [isCatchingUp, setCatchingUp] = useState(false);
  const [isLookingBack, setLookingBack] = useState(false);
  const [problem, setProblem] = useState('');
  /** Counts the uses of `apply`: answers for earlier filters are dropped. */
  const run = useRef(0);
  const sampleUsed = useRef(0);

  /** Calls `load`, and then what it returns; both only as long as the filters stay. Returns whether they stayed. */
  const request = async (load: (isWanted: () => boolean) => Promise<() => void>): Promise<boolean> => {
    const mine = run.current;
    const isWanted = (): boolean => mine === run.current;
    try {
      const show = await load(isWanted);
      if (!isWanted()) return false;
      show();
      setProblem('');
    } catch (error) {
      const text = error instanceof NoSuchHost ? error.message : failureText(error);
      if (isWanted()) setProblem(text);
    }
    return isWanted();
  };
  const lookBack = async (load: Parameters<typeof request>[0]): Promise<void> => {
    setLookingBack(true);
    if (await request(load)) setLookingBack(false);
  };
  const apply = (): Promise<void> => {
    run.current++;
    return lookBack(async (isWanted) => {
      const asked = await queryOf(filters);
      const found = await findBack(asked, isWanted);
      return () => {
        setQuery(asked);
        setShown(found);
      };
    });
  };
  const lookFurtherBack = (): Promise<void> =>
    lookBack(async (isWanted) => {
      const { events, downTo } = shown;
      const found = await findBack({ ...query, before: String(downTo) }, isWanted);
      return () => {
        if (events.length + found.events.length > EVENTS_MAX) stopLive();
        setShown((before) => withOlder(before, found, downTo));
      };
    });
  const catchUp = async (): Promise<void> => {
    setCatchingUp(true);
    await request(async () => {
      const after = shown.upTo;
      const found = await read<ConsoleLog>('log', { ...query, after: String(after) });
      return () => setShown((before) => withNewer(before, found, after));
    });
    setCatchingUp(false);
  };
  useEffect(() => {
    if (!query) void apply();
    return () => void run.current++;
  }, []);
  const sample = samples.value.at(-1);
  useEffect(() => {
    if (!isLive || !query || isCatchingUp || !sample) return;
    // One request for each sample: a failed one is repeated with the next sample, and not at once.
    if (sample.log_position <= shown.upTo || sample.at === sampleUsed.current) return;
    sampleUsed.current = sample.at;
    void catchUp();
  }, [sample, isLive, query, isCatchingUp]);
  return { ...shown, isLoaded: query !== undefined, isLookingBack, problem, apply, lookFurtherBack };
}

/**
 * Goes back until it finds an event. One answer covers only a part of a long log, and with narrow filters the user
 * would have to ask a hundred times. Stops when `isWanted` returns false.
 */
async function findBack(query: Record<string, string>, isWanted: () => boolean): Promise<ShownEvents> {
  let found = await read<ConsoleLog>('log', query);
  const { log_position: upTo } = found;
  let askedFrom = Number(query['before'] ?? Number.POSITIVE_INFINITY);
  for (let answers = 1; answers < ANSWERS_MAX; answers++) {
    if (found.events.length > 0 || isStart(found, askedFrom) || !isWanted()) break;
    askedFrom = found.searched_down_to;
    found = await read<ConsoleLog>('log', { ...query, before: String(askedFrom) });
  }
  const { events, searched_down_to: downTo, searched_down_at: downAt } = found;
  return { events, downTo, downAt, isAll: isStart(found, askedFrom), upTo };
}

/**
 * Says whether the log begins here. When its first records were pruned, an answer goes no further back than its
 * request.
 */
function isStart({ searched_down_to: downTo }: ConsoleLog, askedFrom: number): boolean {
  return downTo <= 1 || downTo >= askedFrom;
}

/** Adds nothing when the shown events changed during the request. */
function withOlder(
  before: ShownEvents,
  { events, downTo, downAt, isAll }: ShownEvents,
  askedFrom: number,
): ShownEvents {
  if (before.downTo !== askedFrom) return before;
  return { ...before, events: [...before.events, ...events], downTo, downAt, isAll };
}

/** If there are more new events than one answer holds, starts over with the newest, so that no event is left out. */
function withNewer(before: ShownEvents, found: ConsoleLog, after: number): ShownEvents {
  const upTo = found.log_position;
  if (found.searched_down_to > after + 1) {
    const { events, searched_down_to: downTo, searched_down_at: downAt } = found;
    return { events, upTo, downTo, downAt, isAll: false };
  }
  const events = [...found.events, ...before.events];
  const last = events[EVENTS_MAX - 1];
  if (events.length <= EVENTS_MAX || !last) return { ...before, events, upTo };
  return { events: events.slice(0, EVENTS_MAX), upTo, downTo: last.lsn, downAt: last.at, isAll: false };
}

class NoSuchHost extends Error {}

async function queryOf({ type, host, item, range }: Filters): Promise<Record<string, string>> {
  const query: Record<string, string> = {};
  if (type) query['type'] = type;
  if (item.trim()) query['item'] = item.trim();
  if (host.trim()) query['host'] = await keyOf(host.trim());
  return { ...query, ...rangeQuery(range) };
}

/** The key of the one host that matches. Throws `NoSuchHost`. */
async function keyOf(text: string): Promise<string> {
  if (text.length === PUBLIC_KEY_CHARACTERS && text.endsWith('=')) return text;
  const { hosts } = await read<ConsoleHosts>('hosts', { search: text });
  const named = hosts.filter(({ host }) => host.toLowerCase() === text.toLowerCase());
  const fitting = named.length > 0 ? named : hosts;
  // A rotated key belongs to a host that now has another key.
  const current = fitting.filter(({ state }) => state !== 'rotated');
  const matches = current.length > 0 ? current : fitting;
  const [only, ...others] = matches;
  if (!only) throw new NoSuchHost('No host matches.');
  if (others.length > 0) throw new NoSuchHost(`${countText(matches.length, 'host')} match: enter the fingerprint.`);
  return only.host_pubkey;
}
