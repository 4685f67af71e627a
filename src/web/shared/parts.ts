/**
 * What several views are made of. Everything that others chose goes through `Words` or `Code`: it is text, isolated from
 * what is around it, and what would turn or hide a part of it is written out.
 */
import type { ComponentChildren, VNode } from 'preact';
import { html } from 'htm/preact';
import { useErrorBoundary } from 'preact/hooks';
import { printable } from '../../protocol/printable.ts';
import { isoTime } from '../../protocol/time.ts';
import { time } from './text.ts';

/** In the place of what there is none of. */
export const NOTHING = '–';

/** Text of others. */
export function Words({ text }: { text: string }): VNode {
  return html`<bdi class="words">${printable(text)}</bdi>`;
}

/** Long and exact: a key, a fingerprint, an id. */
export function Code({ text }: { text: string }): VNode {
  return html`<code class="words"><bdi>${printable(text)}</bdi></code>`;
}

export function Time({ at }: { at: number }): VNode {
  return html`<time datetime=${isoTime(at)}>${time(at)}</time>`;
}

/** What shows one of several: where it fails, the others are shown all the same. */
export function Each({ what, children }: { what: string; children?: ComponentChildren }): VNode {
  const [error] = useErrorBoundary();
  return error === undefined ? html`${children}` : html`<p class="warning" role="alert">${what} cannot be shown.</p>`;
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
}

interface TableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string | number;
  /** What is said when there is none. */
  none: string;
}

/** A table; on a narrow page each row is a card. The roles hold where the style makes blocks of rows. */
export function Table<Row>({ label, columns, rows, keyOf, none }: TableProps<Row>): VNode {
  if (rows.length === 0) return html`<p class="none">${none}</p>`;
  return html`<table role="table" aria-label=${label}>
    <thead role="rowgroup">
      <tr role="row">
        ${columns.map(({ title, isNumber }) => html`<th role="columnheader" class=${isNumber ? 'number' : ''}>${title}</th>`)}
      </tr>
    </thead>
    <tbody role="rowgroup">
      ${rows.map(
        (row) =>
          html`<tr role="row" key=${keyOf(row)}>
            ${columns.map((column) => html`<${Cell} ...${column} row=${row} />`)}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** One that says nothing is left out of the card of a narrow page. */
function Cell<Row>({ title, cell, isNumber, row }: Column<Row> & { row: Row }): VNode {
  const content = cell(row);
  const kind = content === NOTHING ? 'nothing' : isNumber ? 'number' : '';
  return html`<td role="cell" data-title=${title} class=${kind}>${content}</td>`;
}

export function StateMark({ state }: { state: string }): VNode {
  return html`<span class="mark mark-${/^[a-z]+$/.test(state) ? state : 'other'}">${state}</span>`;
}
