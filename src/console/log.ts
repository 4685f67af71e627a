/** The log as a timeline, the newest first, filtered by kind, host, item and time; live while nothing is asked of the past. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ConsoleHosts, ConsoleLog, LoggedEvent } from '../protocol/operator-documents.ts';
import { read } from './api.ts';
import { EVENT_NAMES, eventName } from './event-names.ts';
import { Code, Time, Words } from './parts.ts';
import { failed, hostPlace, itemPlace, place, samples } from './state.ts';
import { count } from './text.ts';

/** Events kept on the page while it is live. */
const EVENTS_MAX = 500;
const PUBLIC_KEY_CHARACTERS = 44;

interface Filters {
  type: string;
  /** A name, a fingerprint or a key. */
  host: string;
  item: string;
  /** As `datetime-local` says it. */
  since: string;
  until: string;
}

export function Log(): VNode {
  const asked = place.value.query;
  const [filters, setFilters] = useState<Filters>(() => ({
    type: asked.get('type') ?? '',
    host: asked.get('host') ?? '',
    item: asked.get('item') ?? '',
    since: '',
    until: '',
  }));
  const [query, setQuery] = useState<Record<string, string>>();
  const [events, setEvents] = useState<readonly LoggedEvent[]>([]);
  const [downTo, setDownTo] = useState(1);
  const [isLive, setLive] = useState(true);
  const [problem, setProblem] = useState('');
  const newest = useRef(0);
  const isAsking = useRef(false);

  const apply = async (): Promise<void> => {
    try {
      const next = await queryOf(filters);
      const found = await read<ConsoleLog>('log', next);
      newest.current = found.log_position;
      setQuery(next);
      setEvents(found.events);
      setDownTo(found.searched_down_to);
      setProblem('');
    } catch (error) {
      setProblem(error instanceof NoSuchHost ? error.message : failed(error));
    }
  };
  const older = async (): Promise<void> => {
    try {
      const found = await read<ConsoleLog>('log', { ...query, before: String(downTo) });
      setEvents([...events, ...found.events]);
      setDownTo(found.searched_down_to);
    } catch (error) {
      setProblem(failed(error));
    }
  };
  useEffect(() => void apply(), []);

  const position = samples.value.at(-1)?.log_position ?? 0;
  useEffect(() => {
    if (!isLive || !query || isAsking.current || position <= newest.current) return;
    isAsking.current = true;
    read<ConsoleLog>('log', { ...query, after: String(newest.current) })
      .then((found) => {
        // More came than one page: it begins anew, so that looking back leaves nothing out.
        const isWhole = found.searched_down_to <= newest.current + 1;
        newest.current = found.log_position;
        setEvents((before) => (isWhole ? [...found.events, ...before].slice(0, EVENTS_MAX) : found.events));
        if (!isWhole) setDownTo(found.searched_down_to);
        else if (events.length + found.events.length > EVENTS_MAX)
          setDownTo(events[EVENTS_MAX - found.events.length - 1]?.lsn ?? downTo);
      })
      .catch((error: unknown) => setProblem(failed(error)))
      .finally(() => {
        isAsking.current = false;
      });
  }, [position, isLive, query]);

  return html`<h1 tabindex="-1">Log</h1>
    <${FilterForm} filters=${filters} change=${setFilters} apply=${apply} />
    <label class="switch">
      <input type="checkbox" checked=${isLive} onChange=${() => setLive(!isLive)} />
      <span>Show new events as they come</span>
    </label>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    <section class="panel" aria-label="Events">
      ${
        events.length === 0
          ? html`<p class="none">No event is like that${downTo > 1 ? `, down to record ${count(downTo)}` : ''}.</p>`
          : html`<ol class="timeline">
              ${events.map((event) => html`<${Entry} key=${event.lsn} event=${event} />`)}
            </ol>`
      }
      ${
        downTo > 1 &&
        html`<p class="actions"><button type="button" onClick=${() => void older()}>Look further back</button></p>`
      }
    </section>`;
}

interface FilterFormProps {
  filters: Filters;
  change: (filters: Filters) => void;
  apply: () => Promise<void>;
}

function FilterForm({ filters, change, apply }: FilterFormProps): VNode {
  const field =
    (name: keyof Filters) =>
    ({ currentTarget }: { currentTarget: HTMLInputElement | HTMLSelectElement }): void =>
      change({ ...filters, [name]: currentTarget.value });
  const submit = (event: Event): void => {
    event.preventDefault();
    void apply();
  };
  return html`<form class="filters" role="search" onSubmit=${submit}>
    <label>
      <span>Kind</span>
      <select value=${filters.type} onChange=${field('type')}>
        <option value="">every kind</option>
        ${Object.entries(EVENT_NAMES).map(([type, name]) => html`<option value=${type}>${name}</option>`)}
      </select>
    </label>
    <label><span>Host</span><input maxlength="100" placeholder="name or key" value=${filters.host} onInput=${field('host')} /></label>
    <label><span>Item</span><input maxlength="320" placeholder="item id" value=${filters.item} onInput=${field('item')} /></label>
    <label><span>From</span><input type="datetime-local" step="1" value=${filters.since} onInput=${field('since')} /></label>
    <label><span>To</span><input type="datetime-local" step="1" value=${filters.until} onInput=${field('until')} /></label>
    <button type="submit">Filter</button>
  </form>`;
}

function Entry({ event }: { event: LoggedEvent }): VNode {
  const { lsn, type, at, hosts, item_id, facts } = event;
  const item = item_id !== null && html`<${Code} text=${item_id} />`;
  return html`<li class="event event-${type}">
    <span class="event-head">
      <span class="event-name">${eventName(type)}</span>
      <span class="event-when"><${Time} at=${at} /> · ${count(lsn)}</span>
    </span>
    <span class="event-body">
      ${item && (type === 'ItemAccepted' ? html`<a href=${itemPlace(lsn)} aria-label="Trace of item ${item_id}">${item}</a>` : item)}
      ${hosts.map(
        ({ role, host_pubkey, name }) =>
          html`<span class="event-host"
            >${role} <a href=${hostPlace(host_pubkey)}><${Words} text=${name ?? 'unknown host'} /></a
          ></span>`,
      )}
      ${facts.map(({ name, value }) => html`<span class="event-fact">${name} <${Words} text=${value} /></span>`)}
    </span>
  </li>`;
}

class NoSuchHost extends Error {}

async function queryOf({ type, host, item, since, until }: Filters): Promise<Record<string, string>> {
  const query: Record<string, string> = {};
  if (type) query['type'] = type;
  if (item.trim()) query['item'] = item.trim();
  if (host.trim()) query['host'] = await keyOf(host.trim());
  if (since) query['since'] = String(new Date(since).getTime());
  if (until) query['until'] = String(new Date(until).getTime() + 999);
  return query;
}

/** The key of the one host that is meant. Throws `NoSuchHost`. */
async function keyOf(text: string): Promise<string> {
  if (text.length === PUBLIC_KEY_CHARACTERS && text.endsWith('=')) return text;
  const { hosts } = await read<ConsoleHosts>('hosts', { search: text });
  const named = hosts.filter(({ host }) => host.toLowerCase() === text.toLowerCase());
  const meant = named.length > 0 ? named : hosts;
  const [only, ...others] = meant;
  if (!only) throw new NoSuchHost('No host is like that.');
  if (others.length > 0) throw new NoSuchHost(`${count(meant.length)} hosts are like that: give the fingerprint.`);
  return only.host_pubkey;
}
