/**
 * Components of several views. All untrusted text goes through `Untrusted` or `Code`: these show it as text, isolate
 * its direction from the text around it, and escape invisible characters.
 */
import type { ComponentChildren, VNode } from 'preact';
import { html } from 'htm/preact';
import { useErrorBoundary } from 'preact/hooks';
import { printable } from '../../protocol/printable.ts';
import { isoTime } from '../../protocol/time.ts';
import { duration, time } from './format.ts';

/** It stands where there is no value. */
export const NO_VALUE = '–';

export function Untrusted({ text }: { text: string }): VNode {
  return html`<bdi class="untrusted">${printable(text)}</bdi>`;
}

/** A key, fingerprint or id. */
export function Code({ text }: { text: string }): VNode {
  return html`<code class="untrusted"><bdi>${printable(text)}</bdi></code>`;
}

export function Time({ at }: { at: number }): VNode {
  return html`<time datetime=${isoTime(at)}>${time(at)}</time>`;
}

/** A time, and how long ago it was or how soon it will be. */
export function Moment({ at, nowMs }: { at: number; nowMs: number }): VNode {
  return html`<${Time} at=${at} />, ${whenText(at - nowMs)}`;
}

function whenText(inMs: number): string {
  if (Math.abs(inMs) < 1000) return 'now';
  return inMs > 0 ? `in ${duration(inMs)}` : `${duration(-inMs)} ago`;
}

/** Wraps one of several parts: when it throws, the others are still shown. */
export function ErrorBoundary({ what, children }: { what: string; children?: ComponentChildren }): VNode {
  const [error] = useErrorBoundary();
  return error === undefined ? html`${children}` : html`<${Warning} text=${`${what} cannot be shown.`} />`;
}

/** Nothing for an empty text. */
export function Warning({ text }: { text: string }): VNode | null {
  return text === '' ? null : html`<p class="warning" role="alert">${text}</p>`;
}

export type FactRow = readonly [name: string, value: ComponentChildren];

/** Names with their values. One whose value is `null` or `false` is left out. */
export function Facts({ rows }: { rows: readonly FactRow[] }): VNode {
  const known = rows.filter(([, value]) => value !== null && value !== false);
  return html`<dl class="facts">
    ${known.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

export function Panel({ title, children }: { title: string; children?: ComponentChildren }): VNode {
  return html`<section class="panel" aria-label=${title}>
    <h2>${title}</h2>
    ${children}
  </section>`;
}

interface Column<Row> {
  title: string;
  cell: (row: Row) => ComponentChildren;
  isNumber?: boolean;
  /** Makes the title a button that sorts the rows. */
  sort?: { state: 'ascending' | 'descending' | 'none'; toggle: () => void };
}

interface TableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string | number;
  /** The table shows it when there are no rows. */
  none: string;
}

/**
 * A table without the columns that no row has a value in. On a narrow page each row is a card; the explicit roles keep
 * it a table for screen readers.
 */
export function Table<Row>({ label, columns, rows, keyOf, none }: TableProps<Row>): VNode {
  if (rows.length === 0) return html`<p class="none">${none}</p>`;
  const filled = columns.filter(({ cell }) => rows.some((row) => cell(row) !== NO_VALUE));
  return html`<table role="table" aria-label=${label}>
    <thead role="rowgroup">
      <tr role="row">
        ${filled.map((column) => html`<${Title} ...${column} />`)}
      </tr>
    </thead>
    <tbody role="rowgroup">
      ${rows.map(
        (row) =>
          html`<tr role="row" key=${keyOf(row)} data-item=${keyOf(row)} tabindex="-1">
            ${filled.map((column) => html`<${Cell} ...${column} row=${row} />`)}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

function Title<Row>({ title, isNumber, sort }: Column<Row>): VNode {
  return html`<th role="columnheader" class=${isNumber ? 'number' : ''} aria-sort=${sort?.state}>
    ${sort ? html`<button type="button" class="sort" onClick=${sort.toggle}>${title}</button>` : title}
  </th>`;
}

/** A cell without a value is left out of the card on a narrow page. */
function Cell<Row>({ title, cell, isNumber, row }: Column<Row> & { row: Row }): VNode {
  const content = cell(row);
  const kind = content === NO_VALUE ? 'nothing' : isNumber ? 'number' : '';
  return html`<td role="cell" data-title=${title} class=${kind}>${content}</td>`;
}

export function StateMark({ state }: { state: string }): VNode {
  return html`<span class="mark mark-${/^[a-z]+$/.test(state) ? state : 'other'}">${state}</span>`;
}
