/** The check of the rows against the log: how the last one went, how far one is, and the button that begins one. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useState } from 'preact/hooks';
import type { ConsoleOverview, RowsCheckShown } from '../../protocol/operator-documents.ts';
import { act } from '../shared/api.ts';
import { Moment, Untrusted } from '../shared/components.ts';
import { count, countText } from '../shared/format.ts';
import { failureText, notice } from '../shared/session.ts';
import { reloadOverview } from './state.ts';

/** The page that began a check asks this often how far it is. */
const ASK_EVERY_MS = 2_000;

/** Nothing where the relay cannot do it. */
export function RowsCheck({ known }: { known: ConsoleOverview }): VNode | null {
  const { rows_check: check } = known;
  return check && html`<${KnownCheck} check=${check} known=${known} />`;
}

function KnownCheck({ check, known }: { check: RowsCheckShown; known: ConsoleOverview }): VNode {
  /** The state that was known when this page began a check whose end it has not told yet. */
  const [before, setBefore] = useState<ConsoleOverview>();
  const [isBeginning, setBeginning] = useState(false);
  const { last, under_way: underWay } = check;
  useEffect(() => {
    if (!before || known === before) return undefined;
    if (!underWay) {
      setBefore(undefined);
      notice.value = check.failed_at === null ? `The rows are checked: ${foundText(last)}.` : FAILED;
      return undefined;
    }
    const timer = setTimeout(() => void reloadOverview(), ASK_EVERY_MS);
    return () => clearTimeout(timer);
  }, [before, known]);
  // It keeps the focus while it has nothing to begin, so it is not disabled.
  const isIdle = !isBeginning && underWay === null;
  const begin = async (): Promise<void> => {
    if (!isIdle) return;
    setBeginning(true);
    notice.value = 'The rows are being checked…';
    try {
      await act<RowsCheckShown>('rows-check', {});
      setBefore(known);
    } catch (error) {
      notice.value = failureText(error);
    }
    await reloadOverview();
    setBeginning(false);
  };
  return html`<div class="rows-check">
    <p>
      ${lineOf(check, known.now)}${' '}
      <button type="button" aria-disabled=${!isIdle} onClick=${() => void begin()}>
        Check the rows now
      </button>
    </p>
    ${last && last.found > 0 && html`<${Findings} last=${last} />`}
  </div>`;
}

function Findings({ last }: { last: NonNullable<RowsCheckShown['last']> }): VNode {
  const more = last.found - last.findings.length;
  return html`<ul aria-label="Rows that differ">
    ${last.findings.map((text) => html`<li key=${text}><${Untrusted} text=${text} /></li>`)}
    ${more > 0 && html`<li>${count(more)} more</li>`}
  </ul>`;
}

const FAILED = 'The check of the rows failed: the log messages of the relay say why.';

function lineOf({ last, failed_at: failedAt, under_way: underWay }: RowsCheckShown, nowMs: number): VNode | string {
  if (underWay) return `The rows are being compared with the log (${progressText(underWay)}).`;
  if (failedAt !== null)
    return html`The check of the rows failed <${Moment} at=${failedAt} nowMs=${nowMs} />: the log messages of the relay
      say why.`;
  if (!last) return 'The rows were not checked since the start: the first check begins an hour after it.';
  return html`Rows checked <${Moment} at=${last.at} nowMs=${nowMs} />: ${foundText(last)}.`;
}

function foundText(last: RowsCheckShown['last']): string {
  if (!last || last.found === 0) return 'nothing differs';
  return `${countText(last.found, 'row')} ${last.found === 1 ? 'differs' : 'differ'} from what the log gives`;
}

function progressText({ stage, done, of }: NonNullable<RowsCheckShown['under_way']>): string {
  const share = of ? `, ${Math.min(100, Math.floor((done / of) * 100))} %` : '';
  return `${stage}: ${count(done)}${of === null ? '' : ` of ${count(of)}`}${share}`;
}
