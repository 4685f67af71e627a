/**
 * The log as a timeline, the newest event first, filtered by kind, host, item and time; it can show new events live.
 */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import type { LoggedEvent } from '../../protocol/operator-documents.ts';
import type { RelayEvent } from '../../relay/core/event.ts';
import { Code, Time, Untrusted, Warning } from '../shared/components.ts';
import { SelectField, onValue } from '../shared/fields.ts';
import { hostHref, itemHref, route } from './state.ts';
import { ANY_TIME, LOG_RANGES, type Range, RangeField } from './range.ts';
import { type Filters, type LogState, useLog } from './use-log.ts';

export function Log(): VNode {
  const { query } = route.value;
  const [filters, setFilters] = useState<Filters>(() => ({
    type: query.get('type') ?? '',
    host: query.get('host') ?? '',
    item: query.get('item') ?? '',
    range: ANY_TIME,
  }));
  const [isLive, setLive] = useState(true);
  const log = useLog(filters, isLive, () => setLive(false));
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
          ? html`<p class="none">${isLoaded ? html`<${NoneFound} log=${log} />` : problem === '' && 'Asking the relay…'}</p>`
          : html`<ol class="timeline">
              ${events.map((event) => html`<${Entry} key=${event.lsn} event=${event} />`)}
            </ol>`
      }
      ${isLookingBack && isLoaded && html`<p class="note" role="status">Searching the log…</p>`}
      ${
        !isAll &&
        html`<p class="actions"><button type="button" disabled=${isLookingBack} onClick=${() => void log.lookFurtherBack()}>Look further back</button></p>`
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
    <label><span>Host</span><input maxlength="100" placeholder="name or key" value=${filters.host} onInput=${onValue(field('host'))} /></label>
    <label><span>Item</span><input maxlength="320" placeholder="item id" value=${filters.item} onInput=${onValue(field('item'))} /></label>
    <${RangeField} range=${filters.range} change=${(range: Range) => change({ ...filters, range })} kinds=${LOG_RANGES} />
    <button type="submit">Filter</button>
  </form>`;
}

function Entry({ event }: { event: LoggedEvent }): VNode {
  const { lsn, type, at, hosts, item_id, facts } = event;
  const item = item_id !== null && html`<${Code} text=${item_id} />`;
  return html`<li class="event event-${type}">
    <span class="event-head">
      <span class="event-name">${eventName(type)}</span>
      <span class="event-when"><${Time} at=${at} /> · record ${lsn}</span>
    </span>
    <span class="event-body">
      ${item && (type === 'ItemAccepted' ? html`<a href=${itemHref(lsn)} aria-label="Trace of item ${item_id}">${item}</a>` : item)}
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
