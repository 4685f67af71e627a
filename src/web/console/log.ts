/** The log as a timeline, the newest first, filtered by kind, host, item and time; live while nothing is asked of the past. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ConsoleHosts, ConsoleLog, LoggedEvent } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { EVENTS_MAX, type Shown, lookBack, withNewer, withOlder } from './log-pages.ts';
import { EVENT_NAMES, eventName } from './event-names.ts';
import { Code, Time, Words } from '../shared/parts.ts';
import { failed } from '../shared/session.ts';
import { hostPlace, itemPlace, place, samples } from './state.ts';
import { count } from '../shared/text.ts';

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
  const [{ events, downTo, isAll }, setShown] = useState<Shown>({ events: [], downTo: 1, isAll: true });
  const [isLive, setLive] = useState(true);
  const [isCatchingUp, setCatchingUp] = useState(false);
  const [isLookingBack, setLookingBack] = useState(false);
  const [problem, setProblem] = useState('');
  /** Counts what was filtered by: an answer to an earlier one comes too late. */
  const run = useRef(0);
  const newest = useRef(0);
  const sampleAsked = useRef(0);

  const apply = async (): Promise<void> => {
    const mine = ++run.current;
    setLookingBack(true);
    try {
      const next = await queryOf(filters);
      const found = await lookBack(next, () => mine === run.current);
      if (mine !== run.current) return;
      newest.current = found.logPosition;
      setQuery(next);
      setShown(found);
      setProblem('');
    } catch (error) {
      const words = error instanceof NoSuchHost ? error.message : failed(error);
      if (mine === run.current) setProblem(words);
    }
    if (mine === run.current) setLookingBack(false);
  };
  const older = async (): Promise<void> => {
    const mine = run.current;
    setLookingBack(true);
    try {
      const found = await lookBack({ ...query, before: String(downTo) }, () => mine === run.current);
      if (mine === run.current) {
        // What somebody looks back for does not go when something new comes.
        if (events.length + found.events.length > EVENTS_MAX) setLive(false);
        setShown((before) => withOlder(before, found, downTo));
        setProblem('');
      }
    } catch (error) {
      setProblem(failed(error));
    }
    if (mine === run.current) setLookingBack(false);
  };
  useEffect(() => {
    void apply();
    // Nobody waits for an answer any more.
    return () => void run.current++;
  }, []);

  const sample = samples.value.at(-1);
  const catchUp = async (): Promise<void> => {
    const mine = run.current;
    const after = newest.current;
    setCatchingUp(true);
    try {
      const found = await read<ConsoleLog>('log', { ...query, after: String(after) });
      if (mine === run.current) {
        newest.current = found.log_position;
        setShown((before) => withNewer(before, found, after));
        setProblem('');
      }
    } catch (error) {
      setProblem(failed(error));
    }
    setCatchingUp(false);
  };
  useEffect(() => {
    if (!isLive || !query || isCatchingUp || !sample) return;
    // Once for each sample, so that what failed is asked again and nothing is asked all the time.
    if (sample.log_position <= newest.current || sample.at === sampleAsked.current) return;
    sampleAsked.current = sample.at;
    void catchUp();
  }, [sample, isLive, query, isCatchingUp]);

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
          ? html`<p class="none">${query ? noneFound(isAll, downTo) : problem === '' && 'Asking the relay…'}</p>`
          : html`<ol class="timeline">
              ${events.map((event) => html`<${Entry} key=${event.lsn} event=${event} />`)}
            </ol>`
      }
      ${isLookingBack && query && html`<p class="note" role="status">Looking through the log…</p>`}
      ${
        !isAll &&
        html`<p class="actions"><button type="button" disabled=${isLookingBack} onClick=${() => void older()}>Look further back</button></p>`
      }
    </section>`;
}

function noneFound(isAll: boolean, downTo: number): string {
  return `No event is like that${isAll ? '' : `, down to record ${count(downTo)}`}.`;
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
  const fitting = named.length > 0 ? named : hosts;
  // A key that was rotated is one of a host that has another by now.
  const current = fitting.filter(({ state }) => state !== 'rotated');
  const meant = current.length > 0 ? current : fitting;
  const [only, ...others] = meant;
  if (!only) throw new NoSuchHost('No host is like that.');
  if (others.length > 0) throw new NoSuchHost(`${count(meant.length)} hosts are like that: give the fingerprint.`);
  return only.host_pubkey;
}
