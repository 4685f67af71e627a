/**
 * Snapshots and pruning of a log in PostgreSQL.
 *
 * Every statement compares the tenure, and deletes so little that it is over soon: an append waits for none of them, and
 * who takes the lead waits for one.
 */
import type { QueryResultRow } from 'pg';
import type { Answered } from './pg-link.ts';
import { named } from './pg-rows.ts';
import * as sql from './pg-statements.ts';
import { Fenced, type LogSnapshots, type Tenure } from './shared-log.ts';

const PARTS_AT_ONCE = 16;
const BATCHES_AT_ONCE = 200;

type Ask = <R extends QueryResultRow>(name: string, text: string, values: unknown[]) => Promise<Answered<R>>;

export class PgSnapshots implements LogSnapshots {
  readonly #ask: Ask;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  async put(tenure: Tenure, throughNo: number, part: number, body: Buffer): Promise<void> {
    const values = [...named(tenure), throughNo, part, body];
    const { rowCount } = await this.#ask('put part', sql.PUT_PART, values);
    if (rowCount === 0) throw new Fenced();
  }

  async part(logId: string, throughNo: number, part: number): Promise<Buffer | undefined> {
    const { rows } = await this.#ask<{ body: Buffer }>('part', sql.PART, [logId, throughNo, part]);
    return rows[0]?.body;
  }

  async makeValid(tenure: Tenure, throughNo: number, ackedNo: number): Promise<void> {
    const { rowCount } = await this.#ask('make valid', sql.MAKE_VALID, [...named(tenure), throughNo, ackedNo]);
    if (rowCount === 0) throw new Fenced();
  }

  async dropOthers(tenure: Tenure): Promise<boolean> {
    const deleted = await this.#deleted('drop parts', sql.DROP_PARTS, tenure, PARTS_AT_ONCE);
    return deleted.deleted === PARTS_AT_ONCE;
  }

  async prune(tenure: Tenure, throughNo: number): Promise<boolean> {
    const { deleted, pruned_no } = await this.#deleted('prune', sql.DELETE_BATCHES, tenure, BATCHES_AT_ONCE);
    if (Number(pruned_no) >= throughNo) return deleted === BATCHES_AT_ONCE;
    const { rowCount } = await this.#ask('mark pruned', sql.MARK_PRUNED, [...named(tenure), throughNo]);
    if (rowCount === 0) throw new Fenced();
    return true;
  }

  async #deleted(name: string, text: string, tenure: Tenure, atMost: number): Promise<DeletedRow> {
    const { rows } = await this.#ask<DeletedRow>(name, text, [...named(tenure), atMost]);
    const [row] = rows;
    if (!row || row.own === 0) throw new Fenced();
    return row;
  }
}

interface DeletedRow {
  own: number;
  deleted: number;
  pruned_no?: string;
}
